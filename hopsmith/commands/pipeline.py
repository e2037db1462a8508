"""compile: tune, track and export."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt
from optimize.compile import Compiled
from optimize.prompts import Candidate
from optimize.recipe import Estimate, Narrator


def register(app: typer.Typer) -> None:
    app.command("compile")(compile_)


def compile_(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="The compile's folder.")],
    method: opt.Method = "decompose",
    benchmark: opt.Bench = None,
    train: Annotated[Path | None, typer.Option("--train", help="Training questions.")] = None,
    dev: Annotated[Path | None, typer.Option("--dev", help="Questions to choose by.")] = None,
    test: Annotated[
        Path | None, typer.Option("--test", help="Questions for the final table only.")
    ] = None,
    corpus: opt.Corpus = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only so many questions of each split.")
    ] = None,
    index: opt.Index = None,
    graph: opt.Graph = None,
    own: opt.Retriever = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    rerank: opt.Rerank = None,
    rerank_candidates: opt.RerankCandidates = None,
    budget: opt.Budget = None,
    arg: opt.Arg = None,
    pipeline: Annotated[
        Path | None,
        typer.Option("--pipeline", help="Start from an exported pipeline instead of --method."),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=0, help="Budget trials.")] = 12,
    prompts: Annotated[
        str, typer.Option("--prompts", help="none, auto, bootstrap, mipro, gepa or simba.")
    ] = "bootstrap",
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help="Tune the prompts of this predictor or role alone."),
    ] = None,
    thresholds: Annotated[
        bool, typer.Option("--thresholds", help="Fit the yes/no decisions too.")
    ] = False,
    threshold_questions: Annotated[
        int,
        typer.Option("--threshold-questions", min=1, help="Train questions to fit them on."),
    ] = 20,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, help="Programs that the prompts stage tries.")
    ] = 4,
    demos: Annotated[
        int, typer.Option("--demos", min=0, help="Demonstrations per predictor, at most.")
    ] = 2,
    demo_tokens: Annotated[
        int, typer.Option("--demo-tokens", min=1, help="Tokens of demonstrations per predictor.")
    ] = 900,
    prefer: Annotated[
        str, typer.Option("--prefer", help="Which budget to take: cheap, balanced or best.")
    ] = "balanced",
    objective: Annotated[
        str | None, typer.Option("--objective", help='One number: "f1 - 0.01*lm_calls".')
    ] = None,
    freeze: Annotated[
        list[str] | None, typer.Option("--freeze", help="Knobs that stay as they are.")
    ] = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option("--tracking-uri", help="MLflow; by default a store in the folder."),
    ] = None,
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow's.")] = "hopsmith",
    register: Annotated[
        str | None,
        typer.Option(
            "--register",
            help="Name in MLflow's registry; champion moves to it if it is surely better.",
        ),
    ] = None,
    traces: Annotated[
        int, typer.Option("--traces", min=0, help="Questions traced to MLflow at the end.")
    ] = 2,
    storage: Annotated[
        str | None,
        typer.Option("--storage", help="Database URL of the budget study, for many workers."),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option("--join", help="Help with this study of another process, then end."),
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option("--max-calls", min=1, help="LM calls to pay for, at most.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0.0, help="Dollars to spend, at most.")
    ] = None,
    teacher_lm: Annotated[
        str | None, typer.Option("--teacher-lm", help="The LM that demonstrations come from.")
    ] = None,
    prompt_lm: Annotated[
        str | None, typer.Option("--prompt-lm", help="The LM that writes prompts (mipro, simba).")
    ] = None,
    reflection_lm: Annotated[
        str | None, typer.Option("--reflection-lm", help="The LM that reflects on them (gepa).")
    ] = None,
    lm: opt.LM = None,
    role_lm: opt.RoleLM = None,
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    seed: opt.Seed = None,
    workers: opt.Workers = None,
    price: opt.Price = None,
    oracle_noise: opt.Noise = None,
    json: opt.Json = False,
) -> None:
    """Tune hop budgets and prompts on training questions, track it in MLflow, export the result.

    Killed, it goes on where it stopped when started again with the same arguments.
    """
    from benchmarks import load as load_benchmark
    from hopsmith.budgets import check_budget
    from hopsmith.errors import HopsmithError
    from hopsmith.knowledge import GraphPlace
    from hopsmith.lm import make_lm
    from hopsmith.loading import measured_settings, program_of
    from hopsmith.running import limits
    from hopsmith.session import refuse_gold, retriever_for, say_faults, session
    from hopsmith.show import print_json
    from optimize.compile import check_splits, compile_program, join_study
    from optimize.formula import Formula
    from optimize.prompts import OPTIMIZERS, PromptLMs, PromptSettings
    from optimize.recipe import Recipe
    from optimize.thresholds import ThresholdSettings
    from optimize.tracking import Tracker, local_uri
    from programs import HopBudget, build
    from programs import method as method_of

    if prompts not in OPTIMIZERS:
        raise HopsmithError(f"--prompts {prompts!r}: there are {', '.join(OPTIMIZERS)}")
    if prefer not in ("cheap", "balanced", "best"):
        raise HopsmithError(f"--prefer {prefer!r}: there are cheap, balanced and best")
    opt.no_file(out)
    refuse_gold(method)
    opt.alone(pipeline, method=opt.on_command_line(context, "method"), arg=arg)
    if objective is not None and opt.on_command_line(context, "prefer"):
        raise HopsmithError("--prefer chooses among several objectives; --objective makes one")
    settings = opt.settings_flags(
        lm=lm,
        role_lm=role_lm,
        api_base=api_base,
        lm_file=lm_file,
        adapter=adapter,
        seed=seed,
        workers=workers,
        price=price,
        oracle_noise=oracle_noise,
        index=index,
        graph=graph,
        retriever=own,
        rerank=rerank,
        rerank_candidates=rerank_candidates,
        max_calls=max_calls,
        max_cost=max_cost,
    )
    if pipeline is not None:
        settings = measured_settings(pipeline, settings)
    limits(settings)  # refuses one that could never be seen
    if objective is not None and settings.lm_cache and Formula(objective).timed:
        raise HopsmithError(
            "--objective counts seconds, which an LM cache falsifies: set HOPSMITH_LM_CACHE=false"
        )
    bench = load_benchmark(
        benchmark or "own", train=train, dev=dev, test=test, corpus=corpus, seed=settings.seed
    )
    say_faults(bench)
    bench = _limited(bench, limit, settings.seed)
    check_splits(bench)
    retriever = retriever_for(
        settings.index, bench, engine, checkpoint, own=settings.retriever, settings=settings
    )
    place = GraphPlace.of(settings, bench)
    if pipeline is not None:
        program = program_of(pipeline, retriever, place=place)
        program = program.with_budget(HopBudget.parse(budget or "", program.budget))
    else:
        bounds = HopBudget.parse(budget or "", method_of(method).default_budget())
        arguments = opt.method_arguments(method, arg)
        knowledge = place.for_method(method, retriever)
        program = build(method, retriever, bounds, knowledge=knowledge, **arguments)
    if budget:
        check_budget(program)
    recipe = Recipe(
        trials=trials,
        optimizer=prompts,  # type: ignore[arg-type]
        prefer=prefer,  # type: ignore[arg-type]
        objective=objective,
        freeze=tuple(freeze or ()),
        prompts=PromptSettings(
            candidates, demos, demo_tokens, settings.seed, parts=tuple(part or ())
        ),
        thresholds=ThresholdSettings(threshold_questions, settings.seed) if thresholds else None,
        seed=settings.seed,
        workers=settings.at_once,
        max_calls=settings.max_calls,
        max_cost=settings.max_cost,
        storage=storage,
        register=register,
        traces=traces,
    )
    every = [q for questions in bench.questions.values() for q in questions]
    narrator = Printer()
    with session(settings, every, cache=out / "cache") as here:
        lms = PromptLMs(
            *(make_lm(settings, n) if n else None for n in (teacher_lm, prompt_lm, reflection_lm))
        )
        if join is not None:
            _join(
                join_study(program, bench, out, join, recipe=recipe, narrator=narrator, lms=lms),
                json,
            )
            return
        tracker = Tracker(tracking_uri or local_uri(out), experiment, out / "spool")
        try:
            done = compile_program(
                program,
                bench,
                out,
                tracker=tracker,
                recipe=recipe,
                narrator=narrator,
                ceiling=here.ceiling,
                lms=lms,
            )
        finally:
            narrator.end()
            undelivered = tracker.close()
            if undelivered:
                print(undelivered, file=sys.stderr)
    final = done.final and done.final.to_json()
    name = tracker.registered(done.key)
    if json:
        print_json(
            {
                "baseline": final and final["baseline"],
                "final": final and final["compiled"],
                "difference": final and final["difference"],
                "split": done.final and done.final.split,
                "n": final and final["n"],
                "ceiling": here.ceiling,
                "budget": done.program.budget.to_json(),
                "export": str(done.export),
                "runs": dict(done.runs),
                "mlflow": dict(done.mlflow),
                "registered": name and {"name": name[0], "version": name[1], "champion": name[2]},
                "spent": done.spent.to_json(),
                "stopped": done.stopped,
            }
        )
        return
    _print(done, tracking_uri or local_uri(out), here.ceiling)
    if name is not None:
        champion = "now champion" if name[2] else "champion stays: no sure gain"
        print(f"registered as {name[0]}, version {name[1]} ({champion})")


def _join(choice: Any, json: bool) -> None:
    """Say what the study has come to."""
    from hopsmith.show import print_json

    done = [row for row in choice.rows if row.state != "failed"]
    if json:
        print_json({"trials": len(done), "chosen": choice.trial, "rule": choice.rule})
        return
    print(f"the study is done: {len(done)} trials; {choice.rule}")


def _limited(bench: Any, limit: int | None, seed: int) -> Any:
    from dataclasses import replace

    from benchmarks import subset

    if limit is None:
        return bench
    return replace(bench, questions={s: subset(q, limit, seed) for s, q in bench.questions.items()})


def _print(done: Compiled, uri: str, ceiling: bool) -> None:
    from rich.table import Table

    from hopsmith.show import number, out

    if done.final is not None:
        final = done.final
        title = f"{final.split}, n={final.n}" + (", ceiling (oracle)" if final.ceiling else "")
        table = Table(title=title, title_justify="left")
        for column in ("metric", "baseline", "compiled", "difference, 95 % interval"):
            table.add_column(column, justify="left" if column == "metric" else "right")
        for name, value in final.compiled.items():
            gap = final.difference.get(name)
            cell = f"{gap.difference:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]" if gap else ""
            table.add_row(name, number(final.baseline.get(name)), number(value), cell)
        out.print(table)
    out.print(f"exported to {done.export}", highlight=False)
    lm = " --lm NAME" if ceiling else ""
    words = f'hopsmith ask --pipeline {done.export} --index INDEX{lm} "…"'
    out.print(f"ask it: {words}", highlight=False)
    server = uri.startswith("http")
    seen = uri if server else f"mlflow ui --backend-store-uri {uri}"
    out.print(f"see its runs: {seen}", highlight=False)


class Printer(Narrator):
    """Says on stderr what happens, how long it has taken and what is to come."""

    def __init__(self) -> None:
        from hopsmith.progress import console

        self.console = console
        self.started = time.monotonic()
        self._bar: Any = None

    def stage(self, name: str, about: str) -> None:
        self.end()
        self.console.print(f"[bold]{self._clock()} {name}[/bold]: {about}", highlight=False)

    def estimate(self, estimate: Estimate) -> None:
        from hopsmith.show import duration

        self.end()
        n = estimate.questions
        money = "" if estimate.cost_each is None else f", ${n * estimate.cost_each:.2f}"
        more = f" and {estimate.proposals} that write prompts" if estimate.proposals else ""
        self.console.print(
            f"      to come, at most: {n:,} questions, about {n * estimate.calls_each:,.0f} LM "
            f"calls{more}{money}, {duration(n * estimate.seconds_each)} (known answers are not "
            "asked again)",
            highlight=False,
        )

    def question(self, stage: str, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self.console.status("")
            self._bar.start()
        self._bar.update(f"{stage}: {done} of {total} questions")
        if done == total:
            self.end()

    def trial(self, row: Any, of: int) -> None:
        self.end()
        values = ", ".join(f"{n} {v:.2f}" for n, v in row.values.items())
        state = "repeated point" if row.repeated else row.note or row.state
        knobs = ", ".join(f"{n}={v}" for n, v in row.point.items())
        self.console.print(
            f"      trial {row.number} (of 0 to {of - 1}): {values} ({state}; {knobs})",
            highlight=False,
        )

    def candidate(self, candidate: Candidate) -> None:
        self.end()
        self.console.print(
            f"      {candidate.name}: objective {candidate.score:.3f} on dev, "
            f"{candidate.demos} demonstrations",
            highlight=False,
        )

    def say(self, line: str) -> None:
        self.end()
        self.console.print(f"      {line}", highlight=False)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self.started)
        return f"{seconds // 60:3d}:{seconds % 60:02d}"
