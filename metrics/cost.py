"""Metrics of cost. Calls, tokens and money are as if our cache had answered nothing, so that a
second run is not cheaper on paper."""

from __future__ import annotations

from metrics.metric import Aggregate, Metric, Score
from metrics.record import Record


def _cost(
    name: str, definition: str, score: Score, unit: str = "", aggregate: Aggregate = "mean"
) -> Metric:
    return Metric(name, definition, score, "down", aggregate, unit)


def _money(record: Record) -> float | None:
    spent, saved = record.usage.cost, record.usage.saved
    return None if spent is None else spent + (saved or 0.0)


COST = (
    _cost("lm_calls", "LM calls a question, retries included", lambda r: r.usage.lm_calls),
    _cost(
        "prompt_tokens", "prompt tokens a question", lambda r: r.usage.prompt_tokens, unit="tokens"
    ),
    _cost(
        "completion_tokens",
        "completion tokens a question",
        lambda r: r.usage.completion_tokens,
        unit="tokens",
    ),
    Metric(
        "cached_prompt_tokens",
        "prompt tokens of calls that our cache answered, a question",
        lambda r: r.usage.cached_prompt_tokens,
        unit="tokens",
    ),
    _cost("retrievals", "queries searched a question", lambda r: r.retrievals),
    _cost("passages_read", "distinct passages retrieved a question", lambda r: r.passages_read),
    _cost("seconds", "mean wall time of a question", lambda r: r.seconds, "s"),
    _cost("latency_p50", "median wall time of a question", lambda r: r.seconds, "s", "p50"),
    _cost("latency_p95", "95th percentile of wall times", lambda r: r.seconds, "s", "p95"),
    _cost("cost", "money a question, spent and saved by cache together", _money, "$"),
    _cost("parse_failures", "replies that did not parse", lambda r: r.usage.parse_failures),
    _cost("errors", "share of questions that failed", lambda r: float(r.error is not None)),
)
