"""A metric is a value: a name, a printed definition, and a score for one record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from metrics.record import Record

Score = Callable[[Record], "float | None"]
Aggregate = Literal["mean", "sum", "ratio", "p50", "p95"]
DEFINITION_VERSION = 1
"""Raised when a definition changes: runs of different versions refuse to be compared."""


class MetricError(ValueError):
    """A metric that isn't there; the message lists those that are."""


@dataclass(frozen=True)
class Metric:
    """``score`` is None where the metric does not apply to a record (N/A, not 0)."""

    name: str
    definition: str
    score: Score
    better: Literal["up", "down"] = "up"
    aggregate: Aggregate = "mean"
    unit: str = ""
    weight: Score | None = None
    """Of a ``ratio``: the sum of scores is divided by the sum of weights."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over records. ``n + missing`` is the number of records."""

    value: float | None
    n: int
    missing: int


def summary(metric: Metric, records: Sequence[Record]) -> Summary:
    """Aggregate one metric over records; None when it applies to none of them."""
    pairs = [(record, metric.score(record)) for record in records]
    scores = [(record, score) for record, score in pairs if score is not None]
    n = len(scores)
    if not n:
        return Summary(None, 0, len(records))
    values = sorted(score for _, score in scores)
    if metric.aggregate == "ratio":
        weights = [(metric.weight(r) if metric.weight else 1.0) or 0.0 for r, _ in scores]
        total = math.fsum(weights)
        value = math.fsum(values) / total if total else None
        return Summary(value, n, len(records) - n)
    if metric.aggregate in ("p50", "p95"):
        share = {"p50": 0.5, "p95": 0.95}[metric.aggregate]
        return Summary(_percentile(values, share), n, len(records) - n)
    total = math.fsum(values)
    return Summary(total if metric.aggregate == "sum" else total / n, n, len(records) - n)


def _percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (NumPy's default)."""
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


Factory = Callable[[int], Metric]


def parse(
    name: str, plain: Mapping[str, Metric], at_k: Mapping[str, Factory]
) -> Metric:
    """``f1`` or ``support_recall@5``. Raises ``MetricError`` that lists what there is."""
    if name in plain:
        return plain[name]
    base, at, cut = name.partition("@")
    if at and base in at_k and cut.isdigit() and int(cut) > 0:
        return at_k[base](int(cut))
    known = [*plain, *(f"{n}@K" for n in at_k)]
    raise MetricError(f"no metric {name!r}; there are {', '.join(sorted(known))}")
