"""How sure a number is: bootstrap intervals, paired differences, Holm's correction, power.

Questions are the unit of resampling. With the same seed and the same number of questions every
call draws the same resamples. Only sampling of questions is accounted for, not an LM's own noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from metrics.metric import SHARES, Metric, weight_of
from metrics.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.95
_CELLS = 2_000_000
"""Drawn at once at most: bounds memory, however many questions there are."""


class SignificanceError(ValueError):
    """Numbers that can't be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value over questions with its percentile interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """``other - baseline``, question by question."""

    difference: float
    low: float
    high: float
    p: float
    """Two-sided, in (0, 1]; not corrected for the number of comparisons (see ``holm``)."""
    baseline: float
    other: float
    n: int
    """Questions to which the metric applies for both."""
    dropped: int
    """Questions to which it does not apply for one of them."""
    standard_error: float | None
    """Of the mean paired difference; None for n < 2 and for what is no mean."""
    detectable: float | None
    """The smallest true difference that this n would show with power 0.8 at level 0.05."""


def mean_interval(
    values: Sequence[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """A mean with its percentile bootstrap interval. Raises ``SignificanceError`` when empty."""
    data = _array(values)
    means = _resampled(data, _mean, resamples, seed)
    low, high = _bounds(means, level)
    return Interval(_mean_of(values), low, high, len(values))


def interval(
    metric: Metric,
    records: Sequence[Record],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """A metric's value with its interval, aggregated in each resample as the metric says.

    Raises ``SignificanceError`` when the metric applies to no record.
    """
    rows = [row for row in (_row(metric, r) for r in records) if row is not None]
    if not rows:
        raise SignificanceError(f"{metric.name} applies to none of {len(records)} questions")
    data, statistic = _array(rows), _statistic(metric)
    low, high = _bounds(_resampled(data, statistic, resamples, seed), level)
    return Interval(float(statistic(data[None])[0]), low, high, len(rows))


def paired(
    baseline: Sequence[float | None],
    other: Sequence[float | None],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Paired bootstrap of a mean: the same questions in the same order, None where N/A.

    d_i = other_i - baseline_i is resampled with replacement; the interval holds the middle
    ``level`` of the resampled means, and p = 2 (1 + min(#{d* <= 0}, #{d* >= 0})) / (B + 1), at
    most 1. Raises ``SignificanceError`` for different lengths or no question left.
    """
    if len(baseline) != len(other):
        raise SignificanceError(
            f"{len(baseline)} and {len(other)} scores: give both for the same questions, in order"
        )
    pairs = [
        (a, b) for a, b in zip(baseline, other, strict=True) if a is not None and b is not None
    ]
    if not pairs:
        raise SignificanceError(f"no question of {len(baseline)} has a score on both sides")
    differences = [b - a for a, b in pairs]
    drawn = _resampled(_array(differences), _mean, resamples, seed)
    low, high = _bounds(drawn, level)
    error = standard_error(differences)
    return Difference(
        difference=_mean_of(differences),
        low=low,
        high=high,
        p=_two_sided(drawn),
        baseline=_mean_of([a for a, _ in pairs]),
        other=_mean_of([b for _, b in pairs]),
        n=len(pairs),
        dropped=len(baseline) - len(pairs),
        standard_error=error,
        detectable=None if error is None else detectable(error),
    )


def compare(
    metric: Metric,
    baseline: Sequence[Record],
    other: Sequence[Record],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """A metric of two runs on the same questions, in whatever order, matched by id.

    Means go through ``paired``; other aggregates are computed in each resample of both.
    Raises ``SignificanceError`` when the question sets differ or no question is left.
    """
    left, right = {r.id: r for r in baseline}, {r.id: r for r in other}
    if left.keys() != right.keys() or len(left) != len(baseline) or len(right) != len(other):
        raise SignificanceError(
            f"the runs are on different questions ({len(left.keys() ^ right.keys())} are in one of "
            "them only): compare runs of one subset"
        )
    ids = sorted(left)
    options: dict[str, Any] = {"level": level, "resamples": resamples, "seed": seed}
    if metric.aggregate == "mean":
        scores = [[metric.score(run[i]) for i in ids] for run in (left, right)]
        return paired(scores[0], scores[1], **options)
    rows = [(_row(metric, left[i]), _row(metric, right[i])) for i in ids]
    pairs = [[*a, *b] for a, b in rows if a is not None and b is not None]
    if not pairs:
        raise SignificanceError(f"{metric.name} applies to none of {len(ids)} questions")
    one = _statistic(metric)
    data = _array(pairs)

    def gap(sample: Floats) -> Floats:
        return one(sample[..., 2:]) - one(sample[..., :2])

    drawn = _resampled(data, gap, resamples, seed)
    low, high = _bounds(drawn, level)
    whole = data[None]
    return Difference(
        difference=float(gap(whole)[0]),
        low=low,
        high=high,
        p=_two_sided(drawn),
        baseline=float(one(whole[..., :2])[0]),
        other=float(one(whole[..., 2:])[0]),
        n=len(pairs),
        dropped=len(ids) - len(pairs),
        standard_error=None,
        detectable=None,
    )


def standard_error(differences: Sequence[float]) -> float | None:
    """Of their mean: s / sqrt(n) with s² = Σ (d_i - mean)² / (n - 1); None for n < 2."""
    n = len(differences)
    if n < 2:
        return None
    mean = _mean_of(differences)
    return math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1) / n)


def detectable(error: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true mean difference that a two-sided test at ``alpha`` shows with ``power``:
    (z(1 - alpha/2) + z(power)) · standard error, normal approximation."""
    z = NormalDist().inv_cdf
    return (z(1 - alpha / 2) + z(power)) * error


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given: with p_(1) <= … <= p_(m),
    p'_(i) = max_{j <= i} min(1, (m - j + 1) p_(j))."""
    corrected, worst = [0.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        worst = max(worst, min(1.0, (len(p) - rank) * p[place]))
        corrected[place] = worst
    return corrected


def _row(metric: Metric, record: Record) -> tuple[float, float] | None:
    score = metric.score(record)
    return None if score is None else (float(score), weight_of(metric, record))


def _statistic(metric: Metric) -> Callable[[Floats], Floats]:
    """From (resamples, n, 2) scores and weights to one value a resample."""
    import numpy as np

    share = SHARES.get(metric.aggregate)
    if share is not None:
        return lambda sample: np.quantile(sample[..., 0], share, axis=-1)
    if metric.aggregate == "ratio":
        return lambda sample: sample[..., 0].sum(-1) / sample[..., 1].sum(-1)
    if metric.aggregate == "sum":
        return lambda sample: sample[..., 0].sum(-1)
    return lambda sample: sample[..., 0].mean(-1)


def _mean(sample: Floats) -> Floats:
    means: Floats = sample.mean(-1)
    return means


def _mean_of(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _array(values: Sequence[Any]) -> Floats:
    import numpy as np

    if not len(values):
        raise SignificanceError("no question has a score: there is nothing to resample")
    return np.asarray(values, dtype=np.float64)


def _resampled(
    data: Floats, statistic: Callable[[Floats], Floats], resamples: int, seed: int
) -> Floats:
    """``statistic`` of ``resamples`` draws of len(data) rows with replacement."""
    import numpy as np

    if resamples < 1:
        raise SignificanceError(f"at least one resample is needed, got {resamples}")
    random, n = np.random.default_rng(seed), len(data)
    at_once = max(1, _CELLS // n)
    return np.concatenate(
        [
            statistic(data[random.integers(0, n, (min(at_once, resamples - done), n))])
            for done in range(0, resamples, at_once)
        ]
    )


def _bounds(drawn: Floats, level: float) -> tuple[float, float]:
    import numpy as np

    if not 0 < level < 1:
        raise SignificanceError(f"a level lies between 0 and 1, got {level}")
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def _two_sided(drawn: Floats) -> float:
    below, above = int((drawn <= 0).sum()), int((drawn >= 0).sum())
    return min(1.0, 2 * (1 + min(below, above)) / (len(drawn) + 1))
