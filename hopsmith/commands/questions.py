"""ask, eval, methods: questions put to a method or to an exported pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError, RunFailed


def register(app: typer.Typer) -> None:
    app.command()(ask)
    app.command("eval")(evaluate)
    app.command()(methods)


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question.")],
    method: opt.Method = "decompose",
    pipeline: opt.Pipeline = None,
    force: opt.Force = False,
    index: opt.Index = None,
    graph: opt.Graph = None,
    own: opt.Retriever = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    where: opt.Where = None,
    rerank: opt.Rerank = None,
    rerank_candidates: opt.RerankCandidates = None,
    budget: opt.Budget = None,
    arg: opt.Arg = None,
    lm: opt.LM = None,
    role_lm: opt.RoleLM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    seed: opt.Seed = None,
    price: opt.Price = None,
    no_cache: opt.NoCache = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the tree of hops to this HTML file.")
    ] = None,
    json: opt.Json = False,
) -> None:
    """Ask one question and see its hops."""
    from hopsmith.budgets import check_budget
    from hopsmith.knowledge import GraphPlace
    from hopsmith.session import check_question, refuse_gold, retriever_for, session
    from hopsmith.show import hop_tree, out, passage_json, print_json
    from optimize.rows import hop_rows
    from programs import HopBudget, build
    from programs import method as method_of

    settings = opt.settings_flags(
        lm=lm,
        role_lm=role_lm,
        api_base=api_base,
        lm_file=lm_file,
        adapter=adapter,
        seed=seed,
        price=price,
        no_cache=no_cache,
        index=index,
        graph=graph,
        retriever=own,
        rerank=rerank,
        rerank_candidates=rerank_candidates,
    )
    if not question.strip():
        raise HopsmithError('the question is empty: hopsmith ask "…" --index DIR')
    given = opt.on_command_line(context, "method")
    opt.alone(pipeline, method=given, budget=budget, arg=arg, rerank=opt.changing(rerank))
    if html is not None and not html.absolute().parent.is_dir():
        raise HopsmithError(f"--html {html}: there is no folder {html.absolute().parent}")
    if pipeline is not None:
        from hopsmith.loading import load

        loaded = load(
            pipeline,
            settings.index,
            settings,
            engine=engine,
            checkpoint=checkpoint,
            where=where,
            force=force,
            retriever=settings.retriever,
        )
        check_question(loaded.context["lm"], question)
        prediction = loaded(question)
    else:
        refuse_gold(method)
        bounds = HopBudget.parse(budget or "", method_of(method).default_budget())
        arguments = opt.method_arguments(method, arg)
        retriever = retriever_for(
            settings.index, None, engine, checkpoint, where, settings.retriever, settings
        )
        knowledge = GraphPlace.of(settings).for_method(method, retriever)
        program = build(method, retriever, bounds, knowledge=knowledge, **arguments)
        check_budget(program)
        with session(settings) as here:
            check_question(here.lm, question)
            prediction = program(question=question)
    hops = hop_rows(prediction.evidence)
    found = {p.id: p for p in prediction.evidence.passages}
    titles = {p.id: p.cited for p in found.values()}
    if html is not None:
        from hopsmith.tree_html import tree_html

        page = tree_html(question, hops, found, prediction.answer, prediction.stop_reason)
        html.write_text(page, encoding="utf-8")
    if json:
        print_json(
            {
                "answer": prediction.answer,
                "stop_reason": prediction.stop_reason,
                "hops": [h.model_dump() for h in hops],
                "passages": [passage_json(p) for p in prediction.evidence.ranked()],
                "usage": prediction.usage.to_json(),
                "error": prediction.error,
            }
        )
    else:
        tree = hop_tree(question, hops, titles, prediction.answer, prediction.stop_reason)
        out.print(tree, soft_wrap=False)
        total = prediction.usage.total
        out.print(
            f"[dim]{total.lm_calls} LM calls, {total.prompt_tokens} tokens read, "
            f"{total.completion_tokens} written[/dim]"
        )
    if prediction.stop_reason == "error":
        raise RunFailed(prediction.error or "the question could not be answered")


def evaluate(
    context: typer.Context,
    method: opt.Method = "decompose",
    pipeline: opt.Pipeline = None,
    force: opt.Force = False,
    benchmark: opt.Bench = None,
    data: opt.Data = None,
    corpus: opt.Corpus = None,
    split: Annotated[str, typer.Option("--split", help="train, dev or test.")] = "dev",
    limit: opt.Limit = None,
    run: Annotated[Path | None, typer.Option("--out", help="The run folder.")] = None,
    index: opt.Index = None,
    graph: opt.Graph = None,
    own: opt.Retriever = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    rerank: opt.Rerank = None,
    rerank_candidates: opt.RerankCandidates = None,
    budget: opt.Budget = None,
    arg: opt.Arg = None,
    lm: opt.LM = None,
    role_lm: opt.RoleLM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    seed: opt.Seed = None,
    workers: opt.Workers = None,
    price: opt.Price = None,
    no_cache: opt.NoCache = False,
    oracle_noise: opt.Noise = None,
    max_calls: opt.MaxCalls = None,
    max_cost: opt.MaxCost = None,
    dry_run: opt.DryRun = False,
    runner: opt.Runner = "local",
    ray_address: opt.RayAddress = None,
    json: opt.Json = False,
) -> None:
    """Run a method over a benchmark; killed, it resumes where it stopped.

    The run folder holds the rows, the questions, the texts that were read, and report.html.
    hopsmith methods lists the methods, with the arguments, knobs and roles of each.
    """
    from benchmarks import load as load_benchmark
    from benchmarks import subset
    from hopsmith import running
    from hopsmith.budgets import check_budget
    from hopsmith.knowledge import GraphPlace
    from hopsmith.report import write_report
    from hopsmith.session import golden_for, retriever_for, say_faults, session
    from hopsmith.show import print_estimate, print_json, print_run
    from programs import HopBudget, build
    from programs import method as method_of

    settings = opt.settings_flags(
        lm=lm,
        role_lm=role_lm,
        api_base=api_base,
        lm_file=lm_file,
        adapter=adapter,
        seed=seed,
        workers=workers,
        price=price,
        no_cache=no_cache,
        oracle_noise=oracle_noise,
        index=index,
        graph=graph,
        retriever=own,
        rerank=rerank,
        rerank_candidates=rerank_candidates,
        max_calls=max_calls,
        max_cost=max_cost,
    )
    given = opt.on_command_line(context, "method")
    opt.alone(pipeline, method=given, budget=budget, arg=arg, rerank=opt.changing(rerank))
    files = files_of(split, data)
    bench = load_benchmark(benchmark or "own", corpus=corpus, seed=settings.seed, **files)
    say_faults(bench)
    asked = subset(split_of(bench, split), limit, settings.seed)
    bounds = HopBudget.parse(budget or "", method_of(method).default_budget())
    arguments = opt.method_arguments(method, arg)
    if pipeline is None and method_of(method).info.gold:
        retriever = golden_for(asked, bench, settings.index, engine, checkpoint)
    else:
        retriever = retriever_for(
            settings.index,
            bench,
            engine,
            checkpoint,
            own=settings.retriever,
            settings=None if pipeline else settings,
        )
    place = GraphPlace.of(settings, bench)
    if pipeline is not None:
        from hopsmith.loading import measured_settings, program_of

        program = program_of(pipeline, retriever, force, settings.rerank, place)
        settings = measured_settings(pipeline, settings)
    else:
        knowledge = place.for_method(method, retriever)
        program = build(method, retriever, bounds, knowledge=knowledge, **arguments)
        check_budget(program)
    ledger = running.limits(settings)
    with session(settings, asked) as here:
        if dry_run:
            estimate, folder = running.dry_run(
                program, bench, split, asked, here, ledger, folder=run
            )
            if json:
                print_json({"estimate": estimate.to_json(), "run": str(folder)})
            else:
                print_estimate({program.info.name: estimate})
            return
        done = running.run_method(
            program,
            bench,
            split,
            asked,
            here,
            ledger,
            folder=run,
            ray=opt.is_ray(runner),
            ray_address=ray_address,
        )
    write_report(done.run)
    if json:
        print_json(running.told(done))
    else:
        print_run(done.run, done.stopped, done.advice)
    rows = list(done.run.rows.values())
    if rows and all(row.stop_reason == "error" for row in rows):
        raise RunFailed(f"every question failed, the first with: {rows[0].error}")


def files_of(split: str, data: Path | None) -> dict[str, Any]:
    """``load``'s argument for a file of one split. Raises ``HopsmithError`` for no such split."""
    from benchmarks.question import SPLITS

    if split not in SPLITS:
        raise HopsmithError(f"--split {split!r}: there are {', '.join(SPLITS)}")
    return {split: data} if data is not None else {}


def split_of(bench: Any, name: str) -> Any:
    """A split's questions; ``HopsmithError`` names those there are."""
    try:
        return bench.split(name)
    except KeyError as fault:
        raise HopsmithError(str(fault.args[0])) from None


def methods(json: opt.Json = False) -> None:
    """List the methods with their knobs, roles, arguments, parts and sources."""
    import sys

    from hopsmith.method_list import blocks, rows
    from hopsmith.show import out, print_json
    from programs.registry import unloadable

    for line in unloadable():
        print(f"hopsmith: {line}", file=sys.stderr)
    if json:
        print_json({"methods": rows()})
        return
    out.print(blocks())
