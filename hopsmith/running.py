"""One method on some questions, as a run folder: what ``eval`` and ``compare`` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from benchmarks import Benchmark, Question, subset
from hopsmith.errors import HopsmithError
from hopsmith.lm import LOCAL, ORACLE
from hopsmith.progress import questions_bar
from hopsmith.session import Session
from hopsmith.settings import Settings
from metrics import DEFAULT, attribution_table
from optimize.advice import advice
from optimize.estimate import RunEstimate, estimate
from optimize.evaluate import evaluate
from optimize.limits import LimitedLedger, LimitReached
from optimize.passages import PassageFile
from optimize.routes import routed
from optimize.rows import PredictionRow, RunHeader
from optimize.run import PASSAGES, header, open_run, write_metrics
from optimize.saved import SavedRun, read_run
from programs import MultiHopProgram
from programs.ledger import LEDGER

SURE = ("em", "f1", "support_recall@5", "hop_recall", "lm_calls")
"""Metrics that every run gets an interval of."""
SAMPLE = 5
"""Questions that ``--dry-run`` asks."""


@dataclass(frozen=True)
class Ran:
    """A run as far as it came."""

    run: SavedRun
    stopped: str | None
    """The limit that ended it, if one did."""
    advice: tuple[str, ...] = ()
    """What the run says about budget and corpus."""


def limits(settings: Settings) -> LimitedLedger:
    """What a command may spend. Raises ``HopsmithError`` for a limit that could never be seen."""
    unpriced = settings.lm in (LOCAL, ORACLE) and settings.price is None
    if settings.max_cost is not None and unpriced:
        raise HopsmithError(
            f"--max-cost: no price is known for --lm {settings.lm}: give --price IN,OUT, or "
            "--max-calls"
        )
    return LimitedLedger(settings.max_calls, settings.max_cost)


def run_folder(about: RunHeader) -> Path:
    """Where a run goes that is given no folder: the same run always to the same place."""
    marks = f"{about.fingerprint[:8]}-{about.questions_hash[:8]}"
    return Path("runs") / f"{about.benchmark}-{about.split}-{about.method}-{marks}"


def run_method(
    program: MultiHopProgram,
    benchmark: Benchmark,
    split: str,
    asked: Sequence[Question],
    here: Session,
    ledger: LimitedLedger,
    folder: Path | None = None,
    *,
    ray: bool = False,
    ray_address: str | None = None,
) -> Ran:
    """Ask what is not answered yet, in the session's context; the folder is whole afterwards. With
    ``ray`` the questions are spread over a Ray cluster.

    Raises ``RunError``, ``StopRun``, ``TooManyFailures``; what was answered by then is kept.
    """
    about, folder = _about(program, benchmark, split, asked, here, folder)
    spread = ray_address if ray else None
    stopped = _ask(
        program, benchmark, asked, asked, about, folder, here, ledger, ray=ray, address=spread
    )
    run = read_run(folder)
    write_metrics(folder, run.metrics(DEFAULT, SURE))
    return Ran(run, stopped, tuple(advice(program, run.records)))


def dry_run(
    program: MultiHopProgram,
    benchmark: Benchmark,
    split: str,
    asked: Sequence[Question],
    here: Session,
    ledger: LimitedLedger,
    folder: Path | None = None,
) -> tuple[RunEstimate, Path]:
    """Ask a few questions, those of the subset of that size, and say what the others will take.
    Their answers are kept: the run goes on from them."""
    about, folder = _about(program, benchmark, split, asked, here, folder)
    few = subset(asked, SAMPLE, here.settings.seed)
    _ask(program, benchmark, asked, few, about, folder, here, ledger)
    run = read_run(folder)
    rows: list[PredictionRow] = [r for r in run.rows.values() if r.stop_reason != "error"]
    if not rows:
        first = next(iter(run.rows.values()), None)
        raise HopsmithError(
            f"none of {len(few)} questions was answered, so nothing can be estimated"
            + (f"; the first failed with: {first.error}" if first else "")
        )
    return estimate(rows, len(asked) - len(rows), here.settings.at_once), folder


def told(done: Ran) -> dict[str, Any]:
    """What ``eval --json`` and ``score --json`` say."""
    run, about = done.run, done.run.header
    failed = sum(row.stop_reason == "error" for row in run.rows.values())
    return {
        "n": len(run.rows),
        "metrics": {name: s.value for name, s in run.metrics(DEFAULT).items()},
        "failed": failed,
        "run": str(run.folder),
        "method": about.method,
        "ceiling": about.ceiling,
        "questions": len(run.questions),
        "questions_hash": about.questions_hash,
        "fingerprint": about.fingerprint,
        "broken": attribution_table(run.records),
        "usage": run.ledger.to_json(),
        "stopped": done.stopped,
        "advice": list(done.advice),
        **routed(list(run.rows.values())),
    }


def _about(
    program: MultiHopProgram,
    benchmark: Benchmark,
    split: str,
    asked: Sequence[Question],
    here: Session,
    folder: Path | None,
) -> tuple[RunHeader, Path]:
    about = header(
        program,
        asked,
        benchmark=benchmark.name,
        split=split,
        answer_rule=benchmark.answer_rule,
        ceiling=here.ceiling,
    )
    return about, folder or run_folder(about)


def _ask(
    program: MultiHopProgram,
    benchmark: Benchmark,
    asked: Sequence[Question],
    now: Sequence[Question],
    about: RunHeader,
    folder: Path,
    here: Session,
    ledger: LimitedLedger,
    *,
    ray: bool = False,
    address: str | None = None,
) -> str | None:
    """Ask ``now`` out of ``asked``. Returns the limit that ended it."""
    store = open_run(folder, about, asked)
    texts = PassageFile(folder / PASSAGES)
    try:
        with ExitStack() as stack:
            asker = None
            if ray:
                from hopsmith.ray_runner import RayAsker

                asker = stack.enter_context(
                    RayAsker(program, here.settings, asked, address=address, keep=texts.keep)
                )
            progress = stack.enter_context(questions_bar(about.method, len(now)))
            stack.enter_context(dspy.context(**{LEDGER: ledger}))
            evaluate(
                program,
                now,
                answer_rule=benchmark.answer_rule,
                store=store,
                workers=here.settings.at_once,
                progress=progress,
                keep=texts.keep,
                asker=asker,
            )
    except LimitReached as limit:
        return str(limit)
    return None
