"""Metrics of cost. Calls and tokens are as if our cache had answered nothing, so that a second run
is not cheaper on paper."""

from __future__ import annotations

from metrics.metric import Metric

COST = (
    Metric("lm_calls", "LM calls, retries included, cached or not", lambda r: r.usage.lm_calls, "down"),
    Metric("prompt_tokens", "prompt tokens", lambda r: r.usage.prompt_tokens, "down", unit="tokens"),
    Metric(
        "cached_prompt_tokens",
        "prompt tokens of calls that our cache answered",
        lambda r: r.usage.cached_prompt_tokens,
        unit="tokens",
    ),
    Metric(
        "completion_tokens",
        "completion tokens",
        lambda r: r.usage.completion_tokens,
        "down",
        unit="tokens",
    ),
    Metric("retrievals", "queries searched", lambda r: r.retrievals, "down"),
    Metric("passages_read", "distinct passages retrieved", lambda r: r.passages_read, "down"),
    Metric("seconds", "wall time", lambda r: r.seconds, "down", unit="s"),
    Metric("latency_p50", "median wall time", lambda r: r.seconds, "down", "p50", "s"),
    Metric("latency_p95", "95th percentile of wall time", lambda r: r.seconds, "down", "p95", "s"),
    Metric(
        "cost",
        "money a question, spent and saved by cache together",
        lambda r: None if r.usage.cost is None else r.usage.cost + (r.usage.saved or 0.0),
        "down",
        unit="$",
    ),
    Metric("parse_failures", "replies that did not parse", lambda r: r.usage.parse_failures, "down"),
    Metric("errors", "share of questions that failed", lambda r: float(r.error is not None), "down"),
)
