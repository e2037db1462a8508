"""show, report: what a run folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError

Run = Annotated[Path, typer.Argument(help="A run folder.")]


def register(app: typer.Typer) -> None:
    app.command()(show)
    app.command()(report)


def show(
    run: Run,
    question: Annotated[
        str | None, typer.Option("--question", help="Print this question's chain, by id.")
    ] = None,
    verdict: Annotated[
        str | None, typer.Option("--verdict", help="List right, wrong or failed ones only.")
    ] = None,
    stage: Annotated[
        str | None, typer.Option("--stage", help="List those that broke at this stage only.")
    ] = None,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="What each question took, the dearest first.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Questions to list.")] = 50,
    json: opt.Json = False,
) -> None:
    """List a run's questions, or print one question's chain and where it broke."""
    from hopsmith import chains
    from hopsmith.show import print_json, print_table
    from metrics import STAGES
    from optimize.saved import read_run

    if verdict not in (None, "right", "wrong", "failed"):
        raise HopsmithError(f"--verdict {verdict!r}: there are right, wrong and failed")
    if stage is not None and stage not in STAGES:
        raise HopsmithError(f"--stage {stage!r}: there are {', '.join(STAGES)}")
    saved = read_run(run)
    if question is not None:
        chain = chains.chain(saved, question)
        if json:
            print_json(chain.to_json())
        else:
            chains.print_chain(chain)
        return
    found = chains.listed(saved, verdict, stage)
    if json:
        told: list[dict[str, Any]] = [line.to_json() for line in found]
        print_json({"run": str(run), "n": len(found), "questions": told})
        return
    print_table(chains.ledger_lines(saved, found, limit) if ledger else chains.lines(found, limit))


def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option("--out", help="The page; by default report.html in the folder.")
    ] = None,
    json: opt.Json = False,
) -> None:
    """Write a run's report.html anew: numbers, where chains broke, every question's hop tree."""
    from hopsmith.report import write_report
    from hopsmith.show import out as console
    from hopsmith.show import print_json
    from optimize.saved import read_run

    if out is not None and not out.absolute().parent.is_dir():
        raise HopsmithError(f"--out {out}: there is no folder {out.absolute().parent}")
    saved = read_run(run)
    page = write_report(saved, out)
    if json:
        print_json({"report": str(page), "n": len(saved.rows), "questions": len(saved.questions)})
    else:
        console.print(str(page), highlight=False)
