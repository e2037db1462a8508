"""trigger: where Hi-Q's trigger fired, whether rightly, and what splitting found."""

from __future__ import annotations

import json as js
from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(trigger)


def trigger(
    run: Annotated[Path, typer.Argument(help="Run folder of hiq or a variant.")],
    exclude: Annotated[
        Path | None,
        typer.Option("--exclude", help="File of question ids to leave out, one a line."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Triggered cases to write for labelling.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where they are written, as JSONL.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Labelled cases: shares by cause.")
    ] = None,
    fit: Annotated[
        bool,
        typer.Option("--fit", help="Of a run of hiq_threshold: the threshold that costs least."),
    ] = False,
    seed: opt.Seed = None,
    json: opt.Json = False,
) -> None:
    """Diagnose Hi-Q's trigger on a run: precision, evidence before and after splitting, recovery,
    rejections and acceptances, repairs; by hop count."""
    from hopsmith.errors import HopsmithError
    from hopsmith.show import print_json
    from optimize.saved import read_run
    from optimize.trigger_report import (
        cases_of,
        causes,
        fitted_threshold,
        sample_cases,
        trigger_report,
    )

    ids = excluded_ids(exclude)
    saved = read_run(run)
    cases = cases_of(saved, ids)
    report = trigger_report(cases, len(ids), seed or 0)
    told: dict[str, Any] = report.to_json()
    if sample:
        if out is None:
            raise HopsmithError("--sample needs a file to write to: give --out FILE")
        rows = sample_cases(cases, sample, saved, seed or 0)
        out.write_text("".join(js.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        told["sampled"] = {"cases": len(rows), "file": str(out)}
    shares = causes(_labelled(labels)) if labels is not None else {}
    if shares:
        told["causes"] = {cause: share.value for cause, share in shares.items()}
    if fit:
        control = (saved.header.identity.get("program") or {}).get("arguments") or {}
        costs = float(control.get("expand_cost", 1)), float(control.get("fail_cost", 4))
        threshold, readings = fitted_threshold(cases, *costs)
        told["fitted"] = {"threshold": threshold, "readings": readings}
    if json:
        print_json(told)
        return
    _print(report, shares)
    if fit:
        print(
            f"fitted to {readings} readings at costs {costs[0]:g} (expand) and {costs[1]:g} "
            f"(fail): --method hiq_threshold --arg threshold={threshold:.3f}"
        )
    if sample:
        print(f"{told['sampled']['cases']} cases to label are in {out} (field cause)")


def excluded_ids(path: Path | None) -> set[str]:
    """``--exclude``: an id a line. Raises ``HopsmithError`` when the file is missing."""
    from hopsmith.errors import HopsmithError

    if path is None:
        return set()
    if not path.is_file():
        raise HopsmithError(f"--exclude: there is no file {path}")
    return {line.strip() for line in path.read_text().splitlines() if line.strip()}


def _labelled(path: Path) -> list[dict[str, Any]]:
    from hopsmith.errors import HopsmithError

    if not path.is_file():
        raise HopsmithError(f"--labels: there is no file {path}")
    try:
        rows = [js.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except js.JSONDecodeError as fault:
        raise HopsmithError(f"--labels: {path} is no JSONL ({fault})") from fault
    if not rows:
        raise HopsmithError(f"--labels: {path} holds no case")
    return rows


def _print(report: Any, shares: Any) -> None:
    from rich.table import Table

    from hopsmith.show import out
    from optimize.trigger_report import MEASURES

    title = f"trigger, n={report.n}, k={report.k}"
    if report.excluded:
        title += f", {report.excluded} excluded"
    table = Table(title=title, title_justify="left")
    table.add_column("measure")
    table.add_column("all, 95 % interval", justify="right")
    for hops in report.by_hops:
        table.add_column(f"{hops} hops", justify="right")
    table.add_column("what it is", overflow="fold")
    for name, definition in MEASURES.items():
        every = report.measures[name]
        cells = [_cell(every, interval=True)]
        cells += [_cell(found[name]) for found in report.by_hops.values()]
        table.add_row(name, *cells, definition)
    out.print(table)
    for cause, share in shares.items():
        out.print(f"{cause}: {_cell(share, interval=True)}", highlight=False)


def _cell(value: Any, *, interval: bool = False) -> str:
    if value is None:
        return "–"
    if not interval:
        return f"{value.value:.3f} ({value.n})"
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}] ({value.n})"
