"""judge: an LM's verdict on a run's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hopsmith.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(judge)


def judge(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    judge_lm: Annotated[
        str, typer.Option("--judge-lm", help="The LM that judges: a name as --lm takes it.")
    ],
    api_base: opt.ApiBase = None,
    lm_file: opt.LMFile = None,
    adapter: opt.Adapter = None,
    workers: opt.Workers = None,
    price: opt.Price = None,
    json: opt.Json = False,
) -> None:
    """Let an LM judge a run's answers (the metric correctness), and show how it agrees with EM.

    Verdicts are kept in the run folder; compare --metric correctness shows them side by side. An
    exact match counts as right and no answer as wrong without asking.
    """
    from hopsmith.errors import HopsmithError
    from hopsmith.judging import judge_run
    from hopsmith.lm import ORACLE
    from hopsmith.show import out, print_json
    from optimize.saved import read_run

    if judge_lm == ORACLE:
        raise HopsmithError("the oracle can't judge: give --judge-lm local or another LM's name")
    settings = opt.settings_flags(
        api_base=api_base, lm_file=lm_file, adapter=adapter, workers=workers, price=price
    )
    told = {}
    for folder in runs:
        done = judge_run(read_run(folder), settings, judge_lm)
        told[str(folder)] = done.to_json()
        if json:
            continue
        found = done.agreement
        if found is None:
            out.print(f"{folder}: no answerable question to judge")
            continue
        kappa = "–" if found.kappa is None else f"{found.kappa:.2f}"
        out.print(
            f"{folder}: correctness {found.judged:.3f} (n={found.n}, judge {done.judge}); EM "
            f"{found.em:.3f}, F1 {found.f1:.3f}; judge and EM agree on {found.same:.0%} (kappa "
            f"{kappa}), {found.judge_alone} answers are right to the judge alone"
            + (f"; {done.failed} got no verdict" if done.failed else ""),
            highlight=False,
            soft_wrap=True,
        )
    if json:
        print_json({"runs": told})
