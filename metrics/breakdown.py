"""Any metric by groups of questions: by hop count, by supporting passages, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from metrics.metric import Metric, Summary, summary
from metrics.record import Record

Grouping = Literal["hops", "supporting", "kind"]
_LABEL: Mapping[str, Callable[[Record], str]] = {
    "hops": lambda r: str(len(r.gold)),
    "supporting": lambda r: str(len(set(r.supporting))),
    "kind": lambda r: r.kind or "unknown",
}
GROUPINGS: tuple[Grouping, ...] = ("hops", "supporting", "kind")
"""Gold hops, distinct gold passages (PAR²-RAG's required length), kind of question."""


def grouped(records: Sequence[Record], by: Grouping = "hops") -> dict[str, list[Record]]:
    """Each record in exactly one group; numbers in numeric order, kinds in alphabetical order.

    Raises ``ValueError`` for a grouping that isn't there.
    """
    if by not in _LABEL:
        raise ValueError(f"no grouping {by!r}; there are {', '.join(GROUPINGS)}")
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_LABEL[by](record), []).append(record)
    return {
        label: groups[label]
        for label in sorted(groups, key=lambda g: (int(g) if g.isdecimal() else 0, g))
    }


def breakdown(
    records: Sequence[Record], metrics: Sequence[Metric], by: Grouping = "hops"
) -> dict[str, dict[str, Summary]]:
    """``{group: {metric name: Summary}}``."""
    return {
        label: {m.name: summary(m, group) for m in metrics}
        for label, group in grouped(records, by).items()
    }
