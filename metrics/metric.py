"""A metric is a value: a name, parameters, a printed definition, and a score for one record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from metrics.record import Record

Score = Callable[[Record], "float | None"]
Aggregate = Literal["mean", "sum", "ratio", "p50", "p95"]
SHARES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95}
DEFINITION_VERSION = 1
"""Raised when a definition changes: runs of different versions refuse to be compared."""


class MetricError(ValueError):
    """A metric that isn't there; the message lists those that are."""


@dataclass(frozen=True)
class Metric:
    """Two metrics are equal when name, parameters and definition are."""

    name: str
    """With its parameters: ``support_recall@5``."""
    definition: str
    """One sentence, for tables and reports."""
    score: Score = field(compare=False)
    """Of one record; None where the metric does not apply to it (N/A, not 0)."""
    better: Literal["up", "down"] = "up"
    aggregate: Aggregate = "mean"
    """How scores become one number: over the records to which the metric applies."""
    unit: str = ""
    weight: Score | None = field(default=None, compare=False)
    """Of a ``ratio``: the sum of scores is divided by the sum of weights."""
    parameters: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over records. ``n + missing`` is the number of records."""

    value: float | None
    """None when the metric applies to no record."""
    n: int
    """Records to which it applies."""
    missing: int
    """Records to which it does not."""
    interval: tuple[float, float] | None = None
    """95 % bootstrap interval over questions, where it was asked for."""


def summary(metric: Metric, records: Sequence[Record]) -> Summary:
    """Aggregate one metric over records; None when it applies to none of them."""
    pairs = [(record, metric.score(record)) for record in records]
    scores = [(record, score) for record, score in pairs if score is not None]
    n, missing = len(scores), len(records) - len(scores)
    if not n:
        return Summary(None, 0, missing)
    values = sorted(score for _, score in scores)
    if metric.aggregate in SHARES:
        return Summary(_percentile(values, SHARES[metric.aggregate]), n, missing)
    total = math.fsum(values)
    if metric.aggregate == "ratio":
        weights = math.fsum(weight_of(metric, record) for record, _ in scores)
        return Summary(total / weights if weights else None, n, missing)
    return Summary(total if metric.aggregate == "sum" else total / n, n, missing)


def weight_of(metric: Metric, record: Record) -> float:
    """What a record adds to the denominator of a ``ratio``; 1 without weights."""
    return 1.0 if metric.weight is None else metric.weight(record) or 0.0


def _percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (NumPy's default); ``values`` sorted."""
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


Factory = Callable[[int], Metric]


def parse(name: str, plain: Mapping[str, Metric], at_k: Mapping[str, Factory]) -> Metric:
    """``f1`` or ``support_recall@5``. Raises ``MetricError`` that lists what there is."""
    if name in plain:
        return plain[name]
    base, at, cut = name.partition("@")
    if at and base in at_k and cut.isdecimal() and int(cut) > 0:
        return at_k[base](int(cut))
    known = [*plain, *(f"{n}@K" for n in at_k)]
    raise MetricError(f"no metric {name!r}; there are {', '.join(sorted(known))}")
