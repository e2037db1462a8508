"""Thresholds: the yes/no decisions of a program, fitted to the objective on train.

``dspy.experimental.ReAnchor`` reruns the program for every threshold between two probabilities
that it has seen, up to 40 a decision: the estimate says so beforehand, and a cap on questions
keeps it affordable. What is fitted must also be no worse on dev, or the stage keeps the start.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from benchmarks.question import Question
from optimize.answers import AnswerStore
from optimize.evaluate import evaluate
from optimize.limits import LimitReached
from optimize.objective import Objective
from optimize.proposing import proposing
from programs import MultiHopProgram
from programs.decisions import Decision, decisions
from programs.state import unfreeze

PASSES = 43
"""Of a decision, at most: the start, a look at the probabilities, the start as a probability, and
40 thresholds."""
STATED = 14
"""Passes that an LM's round numbers (0.1, 0.2, …) take."""


@dataclass(frozen=True)
class ThresholdSettings:
    """What the stage may do."""

    questions: int = 20
    """Training questions that thresholds are fitted on."""
    seed: int = 0


@dataclass(frozen=True)
class ThresholdChoice:
    """What the stage chose."""

    program: MultiHopProgram
    fitted: tuple[Decision, ...]
    """Decisions that have a threshold now."""
    why: str
    before: float
    """The objective's mean on dev."""
    after: float
    report: tuple[dict[str, Any], ...] = ()
    """ReAnchor's, a row a decision."""
    stopped: bool = False


def need(program: MultiHopProgram, settings: ThresholdSettings, train: int) -> int:
    """Times that the program will answer a question, with an LM that states round numbers."""
    return len(decisions(program)) * STATED * min(settings.questions, train)


def tune_thresholds(
    program: MultiHopProgram,
    train: Sequence[Question],
    dev: Sequence[Question],
    *,
    objective: Objective,
    store: AnswerStore,
    folder: Path,
    workers: int = 4,
    settings: ThresholdSettings | None = None,
) -> ThresholdChoice:
    """Fit every yes/no decision's threshold; the result is never worse on dev than the start.

    Killed, it starts again: what the LM answered comes from its cache.
    """
    from dspy.experimental import ReAnchor

    settings = settings or ThresholdSettings()

    def mean(candidate: MultiHopProgram) -> float:
        found = evaluate(
            candidate, dev, answer_rule=objective.answer_rule, store=store, workers=workers
        )
        values = [objective.of(record) for record in found.records]
        return math.fsum(values) / max(1, len(values))

    before = mean(program)
    if not decisions(program):
        why = f"{program.info.name} has no yes/no decision"
        return ThresholdChoice(program, (), why, before, before)
    chosen = list(train)
    if len(chosen) > settings.questions:
        chosen = random.Random(settings.seed).sample(chosen, settings.questions)
    optimizer = ReAnchor(metric=objective, num_threads=workers, require_cache=False)
    try:
        with proposing(folder / "thresholds.log"):
            fitted = optimizer.compile(_Deciding(program), trainset=chosen).program
        after = mean(fitted)
    except LimitReached:
        return ThresholdChoice(program, (), "stopped at a limit", before, before, stopped=True)
    rows = tuple(optimizer.report.get("fitted", ()))
    found = tuple(d for d in decisions(fitted) if d.threshold is not None)
    if not found or after < before:
        why = (
            "no threshold beat the plain decisions on train"
            if not found
            else f"the thresholds fitted on train are worse on dev ({after:.3f}, {before:.3f})"
        )
        return ThresholdChoice(program, (), why, before, before, rows)
    words = ", ".join(f"{d.path}.{d.field} ≥ {d.threshold:g}" for d in found)
    why = f"{words}: objective ({objective}) on dev {after:.3f}, {before:.3f} before"
    return ThresholdChoice(fitted, found, why, before, after, rows)


class _Deciding(dspy.Module):  # type: ignore[misc]
    """A program of which ReAnchor sees the predictors with a yes/no decision alone: it would fit
    weights to choices too (the kind that a planner names), a pass for each option and value."""

    def __init__(self, program: MultiHopProgram) -> None:
        super().__init__()
        self.program: MultiHopProgram = program.deepcopy()
        unfreeze(self.program)

    def named_parameters(self) -> list[tuple[str, dspy.Predict]]:
        wanted = {d.path for d in decisions(self.program)}
        return [(path, p) for path, p in self.program.named_predictors() if path in wanted]

    def forward(self, question: str) -> dspy.Prediction:
        return self.program(question=question)
