"""Metrics: values with a name and a printed definition, over plain records; they know no program."""

from collections.abc import Sequence

from metrics.answer import ANSWER
from metrics.chain import CHAIN
from metrics.cost import COST
from metrics.metric import DEFINITION_VERSION, Metric, MetricError, Summary, parse, summary
from metrics.record import GoldStep, Record, Step, Usage
from metrics.retrieval import AT_K, RETRIEVAL

PLAIN = {m.name: m for m in (*ANSWER, *RETRIEVAL, *CHAIN, *COST)}
DEFAULT = (
    "em",
    "f1",
    "support_recall@5",
    "all_support@5",
    "hop_recall",
    "hop_recall_micro",
    "hop_recall_in_order",
    "decomposition_accuracy",
    "abstention_precision",
    "abstention_recall",
    "lm_calls",
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "retrievals",
    "passages_read",
    "latency_p50",
    "latency_p95",
    "cost",
    "parse_failures",
    "errors",
)
"""What every evaluation reports."""


def metric(name: str) -> Metric:
    """A metric by name (``f1``, ``support_recall@5``). Raises ``MetricError``."""
    return parse(name, PLAIN, AT_K)


def summarise(records: Sequence[Record], names: Sequence[str] = DEFAULT) -> dict[str, Summary]:
    """Each named metric over the records."""
    return {name: summary(metric(name), records) for name in names}


__all__ = [
    "DEFAULT",
    "DEFINITION_VERSION",
    "PLAIN",
    "GoldStep",
    "Metric",
    "MetricError",
    "Record",
    "Step",
    "Summary",
    "Usage",
    "metric",
    "summarise",
]
