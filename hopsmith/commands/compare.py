"""compare, score: runs side by side, and other systems' predictions as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError


def register(app: typer.Typer) -> None:
    app.command()(compare)
    app.command()(score)


def compare(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders, of eval or of score.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", help="Run these first: single_shot,ircot,par2,hiq")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="A method, label or folder; else the first.")
    ] = None,
    lm: Annotated[
        list[str] | None, typer.Option("--lm", help="For --methods; give it again for several.")
    ] = None,
    benchmark: opt.Bench = None,
    data: opt.Data = None,
    corpus: opt.Corpus = None,
    split: Annotated[str, typer.Option("--split", help="train, dev or test.")] = "dev",
    limit: opt.Limit = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The comparison's folder; by default in runs/.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Of support_recall@k.")] = 5,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="One more metric, such as ndcg@10.")
    ] = None,
    resamples: Annotated[
        int, typer.Option("--resamples", min=100, help="Of the paired bootstrap.")
    ] = 10_000,
    index: opt.Index = None,
    graph: opt.Graph = None,
    own: opt.Retriever = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    rerank: opt.Rerank = None,
    rerank_candidates: opt.RerankCandidates = None,
    budget: opt.Budget = None,
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
    tracking_uri: Annotated[
        str | None,
        typer.Option("--tracking-uri", help="MLflow; by default a store in the folder."),
    ] = None,
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow's.")] = "hopsmith",
    track: Annotated[bool, typer.Option("--track/--no-track", help="Log it to MLflow.")] = True,
    json: opt.Json = False,
) -> None:
    """Put runs on the same questions side by side: differences to a baseline with intervals, cost
    beside quality, where chains broke.

    Give run folders, or --methods with a benchmark, or both. The runs it makes are ordinary run
    folders: killed, or stopped by a limit, the same command goes on with them.
    """
    from hopsmith.compare_html import write_compare_html
    from hopsmith.comparing import Asked, run_all
    from hopsmith.show import out as console
    from hopsmith.show import print_estimate, print_json, print_table
    from optimize.compare import compare_runs
    from optimize.compare_write import write_comparison
    from optimize.saved import read_run
    from optimize.tables import tables, title_of, transposed

    opt.no_file(out)
    given = [read_run(folder) for folder in runs or ()]
    names = tuple(dict.fromkeys(n.strip() for n in (methods or "").split(",") if n.strip()))
    if not names and (benchmark or data or lm):
        raise HopsmithError("--benchmark, --data and --lm are for --methods: name some to run")
    _check_baseline(baseline, names, given)
    lms: list[str | None] = list(dict.fromkeys(lm)) if lm else [None]
    stopped = None
    seeded = opt.settings_flags(seed=seed).seed
    if names:
        settings = [
            opt.settings_flags(
                lm=name,
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
            for name in lms
        ]
        asked = Asked(benchmark or "own", data, corpus, split, limit, engine, checkpoint, budget)
        done = run_all(names, settings, asked, dry_run=dry_run)
        if dry_run:
            if json:
                print_json({"estimates": {n: e.to_json() for n, e in done.estimates.items()}})
            else:
                print_estimate(done.estimates)
            return
        given += done.runs
        stopped = done.stopped
    if stopped is not None:
        told: dict[str, Any] = {
            "stopped": stopped,
            "runs": {str(r.folder): {"n": len(r.rows), "of": len(r.questions)} for r in given},
        }
        if json:
            print_json(told)
        else:
            console.print(
                f"{stopped} is reached before all runs are whole, so nothing is compared; what was "
                "answered is kept, and the same command with a higher limit goes on:"
            )
            for folder, count in told["runs"].items():
                console.print(f"  {folder}: {count['n']} of {count['of']}", highlight=False)
        return
    comparison = compare_runs(
        given, baseline=baseline, k=k, more=metric or (), resamples=resamples, seed=seeded
    )
    folder = out or _folder(comparison)
    files = write_comparison(comparison, folder)
    for run in given:
        _report(run)
    files["compare.html"] = write_compare_html(comparison, folder)
    tracked = _track(comparison, folder, files, tracking_uri, experiment) if track else {}
    if json:
        print_json(
            {
                **comparison.to_json(),
                "out": str(folder),
                "files": {name: str(path) for name, path in files.items()},
                "mlflow": tracked,
            }
        )
        return
    for warning in comparison.warnings:
        console.print(f"[yellow]{warning}[/yellow]", highlight=False)
    console.print(f"[bold]{title_of(comparison)}[/bold]", highlight=False)
    scores, *others = tables(comparison)
    for table in (transposed(scores), *others):
        print_table(table)
    console.print(f"written to {folder}: {', '.join(files)}", highlight=False)


def _check_baseline(baseline: str | None, names: tuple[str, ...], given: Any) -> None:
    """Raise before anything is asked when no run can be the baseline that is named."""
    if baseline is None:
        return
    methods = {*names, *(run.header.method for run in given)}
    folders = {str(run.folder) for run in given} | {run.folder.name for run in given}
    if baseline.partition(" · ")[0] not in methods and baseline.rstrip("/") not in folders:
        raise HopsmithError(
            f"--baseline {baseline}: there are {', '.join(sorted(methods)) or 'no runs'}"
        )


def _folder(comparison: Any) -> Path:
    from programs.fingerprint import digest

    about = comparison.first.header
    marks = [entry.run.header.fingerprint for entry in comparison.entries]
    mark = digest([about.questions_hash, comparison.baseline, marks])[:8]
    return Path("runs") / f"compare-{about.benchmark}-{about.split}-{mark}"


def _report(run: Any) -> None:
    """The run's own page, if it has none yet or has changed since."""
    from hopsmith.report import NAME, write_report
    from optimize.run import ROWS

    page = run.folder / NAME
    if not page.is_file() or page.stat().st_mtime < (run.folder / ROWS).stat().st_mtime:
        write_report(run)


def _track(
    comparison: Any, folder: Path, files: dict[str, Path], uri: str | None, experiment: str
) -> dict[str, str | None]:
    """MLflow's run ids by label."""
    import sys

    from optimize.compare_write import log_comparison
    from optimize.tracking import Tracker, local_uri

    tracker = Tracker(uri or local_uri(folder), experiment, folder / "spool")
    try:
        keys = log_comparison(comparison, tracker, files)
    finally:
        undelivered = tracker.close(patience=120)
        if undelivered:
            print(undelivered, file=sys.stderr)
    return {label: tracker.run_id(key) for label, key in keys.items()}


def score(
    predictions: Annotated[
        Path, typer.Argument(help="id and answer a record, passages where known.")
    ],
    benchmark: opt.Bench = None,
    data: opt.Data = None,
    corpus: opt.Corpus = None,
    split: Annotated[str, typer.Option("--split", help="train, dev or test.")] = "dev",
    limit: opt.Limit = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What the system is called; else the file's name.")
    ] = None,
    run: Annotated[Path | None, typer.Option("--out", help="The run folder.")] = None,
    seed: opt.Seed = None,
    json: opt.Json = False,
) -> None:
    """Score the predictions of any other system, as a run that can stand in compare.

    JSONL, JSON or CSV with id and answer, and where known passages (ids, titles, or objects with
    title and text), cited, lm_calls, prompt_tokens, completion_tokens, cost, seconds. What the file
    doesn't say stays unknown; a question without a prediction counts as failed.
    """
    import sys

    from benchmarks import load as load_benchmark
    from benchmarks import subset
    from hopsmith import running
    from hopsmith.commands.questions import files_of, split_of
    from hopsmith.report import write_report
    from hopsmith.session import say_faults
    from hopsmith.show import print_json, print_run
    from metrics import DEFAULT
    from optimize.predictions import score as score_file
    from optimize.predictions import write_scored
    from optimize.run import write_metrics

    if not predictions.is_file():
        raise HopsmithError(f"no file of predictions at {predictions}")
    settings = opt.settings_flags(seed=seed)
    files = files_of(split, data)
    bench = load_benchmark(benchmark or "own", corpus=corpus, seed=settings.seed, **files)
    say_faults(bench)
    asked = subset(split_of(bench, split), limit, settings.seed)
    label = name or predictions.name.partition(".")[0]
    scored = score_file(predictions, asked, bench, split, label)
    saved = write_scored(run or running.run_folder(scored.header), scored, asked)
    write_metrics(saved.folder, saved.metrics(DEFAULT, running.SURE))
    write_report(saved)
    for many, what in (
        (scored.missing, "questions have no prediction and count as failed"),
        (scored.unknown, "predictions are for none of these questions and are left out"),
        (scored.strangers, "passages named are not in the corpus and count as read, not gold"),
    ):
        if many:
            shown = ", ".join(many[:5]) + (" …" if len(many) > 5 else "")
            print(f"{len(many)} {what}: {shown}", file=sys.stderr)
    if json:
        print_json(
            running.told(running.Ran(saved, None))
            | {
                "missing": list(scored.missing),
                "unknown": list(scored.unknown),
                "strangers": list(scored.strangers),
            }
        )
    else:
        print_run(saved)
