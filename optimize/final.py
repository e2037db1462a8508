"""The final table: baseline and compiled on questions that nothing was tuned on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import Question, questions_hash
from metrics.significance import Difference, mean_interval, paired
from optimize.evaluate import Evaluation
from optimize.tracking import TrackedRun

TABLE = (
    "em",
    "f1",
    "support_recall@5",
    "all_support@5",
    "hop_recall",
    "lm_calls",
    "prompt_tokens",
    "completion_tokens",
    "cost",
    "retrievals",
    "passages_read",
    "errors",
)
COMPARED = ("em", "f1", "hop_recall", "lm_calls")
"""Metrics that have intervals, and whose difference is given with its own."""


@dataclass(frozen=True)
class FinalTable:
    """Two evaluations of the same questions, side by side."""

    split: str
    n: int
    questions_hash: str
    ceiling: bool
    baseline: Mapping[str, float | None]
    compiled: Mapping[str, float | None]
    difference: Mapping[str, Difference]
    intervals: Mapping[str, tuple[float, float]]
    """95 % intervals of the compiled pipeline's scores."""

    @classmethod
    def of(
        cls,
        split: str,
        questions: Sequence[Question],
        before: Evaluation,
        after: Evaluation,
        *,
        ceiling: bool,
        seed: int,
    ) -> FinalTable:
        """Paired bootstrap by question, on the questions that a metric applies to in both."""
        return cls(
            split,
            len(after.rows),
            questions_hash(questions),
            ceiling,
            _table(before),
            _table(after),
            {name: paired(before.scores(name), after.scores(name), seed=seed) for name in COMPARED},
            _intervals(after, seed),
        )

    @property
    def better(self) -> bool:
        """F1 on questions that nothing was tuned on rose, with a 95 % interval above zero."""
        low = self.difference["f1"].low
        return self.split == "test" and low is not None and low > 0

    def to_json(self) -> dict[str, Any]:
        """As an export keeps it."""
        return {
            "n": self.n,
            "questions_hash": self.questions_hash,
            "ceiling": self.ceiling,
            "baseline": dict(self.baseline),
            "compiled": dict(self.compiled),
            "difference": {name: asdict(gap) for name, gap in self.difference.items()},
            "intervals": {name: list(bounds) for name, bounds in self.intervals.items()},
        }

    def log(self, stage: TrackedRun) -> None:
        """Write it to a tracked run."""
        stage.params({"split": self.split, "n": self.n})
        stage.metrics({f"baseline.{n}": v for n, v in self.baseline.items()})
        stage.metrics({f"compiled.{n}": v for n, v in self.compiled.items()})
        for name, gap in self.difference.items():
            values = {"": gap.difference, ".low": gap.low, ".high": gap.high, ".p": gap.p}
            stage.metrics({f"difference.{name}{part}": v for part, v in values.items()})


def _intervals(result: Evaluation, seed: int) -> dict[str, tuple[float, float]]:
    """Of the metrics that apply to any question."""
    found = {}
    for name in COMPARED:
        values = [v for v in result.scores(name) if v is not None]
        if values:
            mean = mean_interval(values, seed=seed)
            found[name] = (mean.low, mean.high)
    return found


def _table(result: Evaluation) -> dict[str, float | None]:
    values = result.values()
    return {n: values.get(n) for n in TABLE if n != "cost" or values.get(n) is not None}


def rows_text(result: Evaluation) -> str:
    """An evaluation's rows as ``predictions.jsonl`` has them."""
    return "".join(row.model_dump_json() + "\n" for row in result.rows)
