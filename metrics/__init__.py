"""Metrics: values with a name and a printed definition, over plain records; what breaks them down,
says where a chain broke, and how sure a number is. They know no program."""

from collections.abc import Sequence
from dataclasses import replace

from metrics.answer import ANSWER
from metrics.attribution import (
    MEANING,
    STAGES,
    Broken,
    Stage,
    attribute,
    attribution_table,
    broken_stage,
    is_wrong,
)
from metrics.breakdown import GROUPINGS, Grouping, breakdown, grouped
from metrics.chain import CHAIN, resolved_hops
from metrics.cost import COST
from metrics.ending import ENDING
from metrics.metric import DEFINITION_VERSION, Metric, MetricError, Summary, parse, summary
from metrics.record import GoldStep, Record, Step, Usage
from metrics.retrieval import (
    AT_K,
    RETRIEVAL,
    recall_at_equal_passages,
    support_recall_at_passages,
)
from metrics.significance import (
    Difference,
    Interval,
    SignificanceError,
    compare,
    detectable,
    holm,
    interval,
    mean_interval,
    paired,
    standard_error,
)
from metrics.support import SUPPORT

PLAIN = {m.name: m for m in (*ANSWER, *RETRIEVAL, *CHAIN, *SUPPORT, *ENDING, *COST)}
"""Metrics without a parameter; ``AT_K`` makes the others."""
TOGETHER = {
    "abstention": ("abstention_precision", "abstention_recall"),
    "latency": ("latency_p50", "latency_p95"),
}
"""Names that stand for several metrics."""
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
    "at_cap",
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
    "fallbacks",
    "errors",
)
"""What every evaluation reports."""


def metric(name: str) -> Metric:
    """A metric by name (``f1``, ``support_recall@5``). Raises ``MetricError``."""
    return parse(name, PLAIN, AT_K)


def every_metric(k: int = 5) -> tuple[Metric, ...]:
    """All metrics, those with a parameter at ``k``: for listings of names and definitions."""
    return (*PLAIN.values(), *(make(k) for make in AT_K.values()))


def metric_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names with those of ``TOGETHER`` spelt out. Raises ``MetricError`` for an unknown one."""
    spelt = tuple(part for name in names for part in TOGETHER.get(name, (name,)))
    return tuple(dict.fromkeys(metric(name).name for name in spelt))


def summarise(
    records: Sequence[Record], names: Sequence[str] = DEFAULT, intervals: bool = False
) -> dict[str, Summary]:
    """Each named metric over the records, with 95 % bootstrap intervals when asked for."""
    found = {}
    for name in metric_names(names):
        one = summary(metric(name), records)
        if intervals and one.value is not None:
            around = interval(metric(name), records)
            one = replace(one, interval=(around.low, around.high))
        found[name] = one
    return found


__all__ = [
    "AT_K",
    "DEFAULT",
    "DEFINITION_VERSION",
    "GROUPINGS",
    "MEANING",
    "PLAIN",
    "STAGES",
    "TOGETHER",
    "Broken",
    "Difference",
    "GoldStep",
    "Grouping",
    "Interval",
    "Metric",
    "MetricError",
    "Record",
    "SignificanceError",
    "Stage",
    "Step",
    "Summary",
    "Usage",
    "attribute",
    "attribution_table",
    "breakdown",
    "broken_stage",
    "compare",
    "detectable",
    "every_metric",
    "grouped",
    "holm",
    "interval",
    "is_wrong",
    "mean_interval",
    "metric",
    "metric_names",
    "paired",
    "recall_at_equal_passages",
    "resolved_hops",
    "standard_error",
    "summarise",
    "support_recall_at_passages",
]
