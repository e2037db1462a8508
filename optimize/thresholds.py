"""Thresholds: the yes/no decisions of a program, fitted to the objective on train.

``dspy.experimental.ReAnchor`` reruns the program for every threshold between two probabilities
that it has seen, up to 40 a decision: the estimate says so beforehand, and a cap on questions
keeps it affordable. What is fitted must also be no worse on dev, or the stage keeps the start.

Hi-Q's soft trigger is no such decision, but a bar set by costs (``programs.trigger``): it is fitted
first, to what the readings of the same training questions stated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import dspy

from benchmarks.question import Question
from optimize.answers import AnswerStore
from optimize.errors import RunError
from optimize.evaluate import evaluate
from optimize.limits import LimitReached
from optimize.objective import Objective
from optimize.proposing import proposing
from optimize.trigger_report import Case, fitted_threshold
from programs import MultiHopProgram
from programs.decisions import Decision, decisions
from programs.hiq import HiQ
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
    passes = len(decisions(program)) * STATED + _softly_triggered(program)
    return passes * min(settings.questions, train)


def _softly_triggered(program: MultiHopProgram) -> TypeGuard[HiQ]:
    return isinstance(program, HiQ) and program.control.trigger == "threshold"


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
    settings = settings or ThresholdSettings()

    def mean(candidate: MultiHopProgram) -> float:
        found = evaluate(
            candidate, dev, answer_rule=objective.answer_rule, store=store, workers=workers
        )
        values = [objective.of(record) for record in found.records]
        return math.fsum(values) / max(1, len(values))

    before = mean(program)
    chosen = list(train)
    if len(chosen) > settings.questions:
        chosen = random.Random(settings.seed).sample(chosen, settings.questions)
    bar: ThresholdChoice | None = None
    if _softly_triggered(program):
        bar = _fit_trigger(program, chosen, objective, store, workers, before, mean)
        program = bar.program
    if bar is not None and (bar.stopped or not decisions(program)):
        return bar
    if not decisions(program):
        why = f"{program.info.name} has no yes/no decision"
        return ThresholdChoice(program, (), why, before, before)
    choice = _fit_decisions(
        program, chosen, objective, folder, workers, bar.after if bar else before, mean
    )
    if bar is None:
        return choice
    return replace(
        choice,
        why=f"{bar.why}; {choice.why}",
        before=before,
        report=(*bar.report, *choice.report),
    )


def _fit_decisions(
    program: MultiHopProgram,
    questions: Sequence[Question],
    objective: Objective,
    folder: Path,
    workers: int,
    before: float,
    mean: Callable[[MultiHopProgram], float],
) -> ThresholdChoice:
    """Every yes/no decision's threshold, by ReAnchor."""
    from dspy.experimental import ReAnchor

    optimizer = ReAnchor(metric=objective, num_threads=workers, require_cache=False)
    try:
        with proposing(folder / "thresholds.log"):
            fitted = optimizer.compile(_Deciding(program), trainset=list(questions)).program
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


def _fit_trigger(
    program: HiQ,
    questions: Sequence[Question],
    objective: Objective,
    store: AnswerStore,
    workers: int,
    before: float,
    mean: Callable[[MultiHopProgram], float],
) -> ThresholdChoice:
    """The bar of Hi-Q's soft trigger that would have cost least at the questions' roots."""
    control, k = program.control, program.budget.passages
    try:
        asked = evaluate(
            program, questions, answer_rule=objective.answer_rule, store=store, workers=workers
        )
        pairs = zip(questions, asked.rows, strict=True)
        cases = [Case(q, row, k) for q, row in pairs if row.hops and row.stop_reason != "error"]
        bar, readings = fitted_threshold(cases, control.expand_cost, control.fail_cost)
        fitted = program if bar == control.bar else program.with_threshold(bar)
        after = mean(fitted)
    except RunError as fault:
        return ThresholdChoice(program, (), str(fault), before, before)
    except LimitReached:
        return ThresholdChoice(program, (), "stopped at a limit", before, before, stopped=True)
    told = f"P(unresolved) > {bar:.3f}, fitted to {readings} readings"
    report = ({"threshold": bar, "readings": readings, "before": control.bar},)
    if after < before:
        why = f"{told}, is worse on dev ({after:.3f}, {before:.3f} with {control.bar:.3f})"
        return ThresholdChoice(program, (), why, before, before, report)
    why = f"{told}: objective ({objective}) on dev {after:.3f}, {before:.3f} with {control.bar:.3f}"
    return ThresholdChoice(fitted, (), why, before, after, report)


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
