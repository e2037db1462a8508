"""Objective: the number that drives prompt optimizers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import dspy

from benchmarks.question import Question
from metrics.record import Record
from optimize.budgets import scored
from optimize.evaluate import row_of
from optimize.rows import record


@dataclass(frozen=True)
class Objective:
    """Answer F1 and hop recall, weighted, so that a program that is right by luck, without the
    evidence, isn't taught as an example.

    A DSPy metric: a number from 0 to 1; with a trace (an example may become a demonstration) a
    bool, whether it reaches ``threshold``.
    """

    f1_weight: float = 0.7
    hop_recall_weight: float = 0.3
    threshold: float = 0.8
    answer_rule: str = "squad"

    def __call__(
        self, example: Question, prediction: dspy.Prediction, trace: Any = None
    ) -> float | bool:
        value = self.of(self.record(example, prediction))
        return value >= self.threshold if trace is not None else value

    def of(self, record: Record) -> float:
        """The objective of a record."""
        scores = scored(record)
        total = self.f1_weight + self.hop_recall_weight
        return (self.f1_weight * scores.f1 + self.hop_recall_weight * scores.hop_recall) / total

    def record(self, example: Question, prediction: dspy.Prediction) -> Record:
        """What the metrics look at."""
        row = row_of(example, prediction, "", time.perf_counter())
        return record(example, row, self.answer_rule)

    def __str__(self) -> str:
        return f"{self.f1_weight:g} F1 + {self.hop_recall_weight:g} hop recall"
