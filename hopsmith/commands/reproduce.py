"""reproduce: a table or study of the PAR²-RAG and Hi-Q papers, run anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(reproduce)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="The study; without one, what there is.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="BENCHMARK=FILE of questions; again for each benchmark."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="BENCHMARK=FILE: its whole corpus, not the pooled one."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, dev or test.")] = "dev",
    limit: opt.Limit = None,
    lm: Annotated[
        list[str] | None, typer.Option("--lm", help="Give it again for several: columns.")
    ] = None,
    reasoning_lm: Annotated[
        str | None, typer.Option("--reasoning-lm", help="The writer's, where the study has one.")
    ] = None,
    judge_lm: Annotated[
        str | None, typer.Option("--judge-lm", help="Judges correctness; without it, EM and F1.")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option("--exclude", help="Ids left out of the trigger's diagnostics.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The study's folder; by default in runs/.")
    ] = None,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    graph: opt.Graph = None,
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
    json: opt.Json = False,
) -> None:
    """Run a table or study of a paper again: its methods, benchmarks and metrics, with intervals,
    the paper's numbers beside ours.

    Killed, or stopped by a limit, the same command goes on. With --lm oracle numbers are ceilings.
    """
    from hopsmith.commands.trigger import excluded_ids
    from hopsmith.reproducing import Material
    from hopsmith.reproducing import reproduce as run_study
    from hopsmith.show import print_estimate, print_json
    from optimize.studies import study as study_of

    if name is None:
        _list(json)
        return
    study = study_of(name)
    settings = [
        opt.settings_flags(
            lm=one,
            api_base=api_base,
            lm_file=lm_file,
            adapter=adapter,
            seed=seed,
            workers=workers,
            price=price,
            no_cache=no_cache,
            oracle_noise=oracle_noise,
            graph=graph,
            max_calls=max_calls,
            max_cost=max_cost,
        )
        for one in (list(dict.fromkeys(lm)) if lm else [None])
    ]
    opt.no_file(out)
    material = Material(
        _files("--data", data),
        _files("--corpus", corpus),
        split,
        limit,
        reasoning_lm,
        judge_lm,
        frozenset(excluded_ids(exclude)),
        engine,
        checkpoint,
    )
    folder = out or Path("runs") / study.name
    done = run_study(study, settings, material, folder, dry_run=dry_run)
    for line in done.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if dry_run:
        if json:
            print_json({"estimates": {n: e.to_json() for n, e in done.estimates.items()}})
        else:
            print_estimate(done.estimates)
        return
    _tell(study, done, folder, json=json)


def _files(flag: str, pairs: list[str] | None) -> dict[str, Path]:
    from hopsmith.errors import HopsmithError

    found: dict[str, Path] = {}
    for pair in pairs or []:
        name, eq, path = pair.partition("=")
        if not eq:
            raise HopsmithError(f"{flag} {pair!r} is not BENCHMARK=FILE")
        found[name] = Path(path)
    return found


def _list(json: bool) -> None:
    from rich.table import Table

    from hopsmith.show import out, print_json
    from optimize.studies import STUDIES

    if json:
        rows: list[dict[str, Any]] = [
            {
                "name": s.name,
                "title": s.title,
                "source": s.source,
                "methods": list(s.methods),
                "benchmarks": list(s.benchmarks),
                "metrics": list(s.metrics),
            }
            for s in STUDIES
        ]
        print_json({"studies": rows})
        return
    table = Table()
    for column in ("study", "what it is", "source", "methods", "benchmarks"):
        table.add_column(column, overflow="fold", no_wrap=column == "study")
    for s in STUDIES:
        table.add_row(s.name, s.title, s.source, ", ".join(s.methods), ", ".join(s.benchmarks))
    out.print(table)


def _tell(study: Any, done: Any, folder: Path, *, json: bool) -> None:
    from hopsmith.errors import HopsmithError
    from hopsmith.show import out, print_json
    from optimize import study_table as st
    from optimize.run import write_json, write_text

    if not done.results:
        raise HopsmithError(
            f"nothing of {study.name} was run"
            + (f": {done.stopped} is reached" if done.stopped else ", see above")
        )
    rows = st.to_json(study, done.results)
    told: dict[str, Any] = {
        "study": study.name,
        "source": study.source,
        "note": study.note,
        "results": rows,
        "left_out": done.left_out,
        "stopped": done.stopped,
        "ceiling": any(run.header.ceiling for run in done.runs),
        "out": str(folder),
    }
    name = next((m for m in study.metrics if any(r.metric == m for r in done.results)), "")
    if study.kind == "steps":
        spread = st.spread(study, done.results, name)
        told["spread"] = {m: {"mean": a, "deviation": b} for m, (a, b) in spread.items()}
        folder.mkdir(parents=True, exist_ok=True)
        st.figure(study, done.results, name).savefig(folder / "steps.png", dpi=130)
        told["plot"] = str(folder / "steps.png")
    if study.kind == "cost":
        told["ratios"] = st.ratios(study, done.results)
    tables = list(st.tables(study, done.results))
    write_json(folder / "study.json", told)
    lines = [f"# {study.title}", "", f"{study.source}. Ours [95 % interval] / the paper's.", ""]
    lines += [study.note, ""] if study.note else []
    lines += ["Ceilings: the oracle answered from the gold chain.", ""] if told["ceiling"] else []
    write_text(folder / "study.md", "\n".join(lines + [t.markdown() for t in tables]))
    if json:
        print_json(told)
        return
    from rich.table import Table

    for shown in tables:
        table = Table(title=shown.title, title_justify="left")
        for place, head in enumerate(shown.head):
            table.add_column(head, justify="right" if place > 1 else "left", overflow="fold")
        for row in shown.rows:
            table.add_row(*row)
        out.print(table)
    for method, found in told.get("ratios", {}).items():
        words = ", ".join(f"{n} × {v:.2f}" for n, v in found.items())
        out.print(f"{method} against {study.baseline}: {words}", highlight=False)
    for method, found in told.get("spread", {}).items():
        line = f"{method}: {name} {found['mean']:.3f} ± {found['deviation']:.3f} over budgets"
        out.print(line, highlight=False)
    if study.note:
        out.print(study.note, highlight=False)
    out.print(f"ours [95 % interval] / the paper's; written to {folder}", highlight=False)
