"""Metrics of how questions ended."""

from __future__ import annotations

from metrics.metric import Metric

AT_CAP = Metric(
    "at_cap",
    "share of questions that ran into a bound of the budget, with or without an answer then",
    lambda r: float(r.at_cap),
    "down",
)

FALLBACKS = Metric(
    "fallbacks",
    "hops in which a step failed and its fallback was taken",
    lambda r: float(r.fallbacks),
    "down",
)

ENDING = (AT_CAP, FALLBACKS)
