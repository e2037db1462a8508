"""Metrics of the chain: whether each hop found its passage, in order, with the right entity.

Gold hops whose passage is not in the corpus are left out. Metrics of order and of intermediate
answers are N/A unless the data set has a chain of sub-questions (``record.ordered``), and for a
record that has a ranking but no steps (another system's predictions).
"""

from __future__ import annotations

import re

from metrics.metric import Metric
from metrics.normal import against
from metrics.record import Record

SEARCH_ONLY = frozenset({"actor", "coder", "reasoner"})
"""Roles whose steps search and leave every answer to the end (ReAct, code that searches, IRCoT)."""

SAME_ENTITY = 0.8
"""Two names are one entity from this token F1 on ("Robert Lee Jr." is "Robert Lee")."""


def same_entity(left: str, right: str) -> bool:
    """By normalised equality or token F1 (SQuAD's rule, whatever the data set's)."""
    return against(left, right, "squad").f1 >= SAME_ENTITY


def hop_hits(record: Record) -> list[bool]:
    """For each gold hop with a passage, whether any query retrieved it."""
    read = {p for step in record.steps for p in step.passages} | set(record.ranked)
    return [hop.passage in read for hop in record.gold if hop.passage is not None]


def needs(question: str | None) -> tuple[int, ...]:
    """Positions (0-based) of the hops that a sub-question refers to."""
    return tuple(sorted({int(n) - 1 for n in re.findall(r"\{answer_(\d+)\}", question or "")}))


def told_needs(record: Record, hop: int) -> set[int]:
    """Gold hops with a passage that ``hop`` (0-based) waits for: those it refers to, and in place
    of one without a passage those that this one waits for. References forward are ignored."""
    found: set[int] = set()
    for n in needs(record.gold[hop].question):
        if 0 <= n < hop:
            found |= {n} if record.gold[n].passage is not None else told_needs(record, n)
    return found


def _chained(record: Record) -> bool:
    return record.ordered and bool(record.steps or not record.ranked)


def _hop_recall(record: Record) -> float | None:
    hits = hop_hits(record)
    return sum(hits) / len(hits) if hits else None


def _hits(record: Record) -> float | None:
    hits = hop_hits(record)
    return float(sum(hits)) if hits else None


def hop_times(record: Record) -> dict[int, int | None]:
    """For each gold hop with a passage, by its place: the first step that retrieved its passage no
    earlier than the times of all hops it waits for; None when there is no such step."""
    times: dict[int, int | None] = {}
    for n, hop in enumerate(record.gold):
        if hop.passage is None:
            continue
        before = [times[m] for m in told_needs(record, n)]
        start = None if None in before else max((t for t in before if t is not None), default=0)
        times[n] = next(
            (
                place
                for place, step in enumerate(record.steps)
                if start is not None and place >= start and hop.passage in step.passages
            ),
            None,
        )
    return times


def _in_order(record: Record) -> float | None:
    times = hop_times(record) if _chained(record) else {}
    return sum(t is not None for t in times.values()) / len(times) if times else None


def _first_hop(record: Record) -> float | None:
    roots = {
        hop.passage
        for n, hop in enumerate(record.gold)
        if hop.passage is not None and not told_needs(record, n)
    }
    if not _chained(record) or not roots:
        return None
    first = next((step.passages for step in record.steps if step.passages), ())
    return float(not roots.isdisjoint(first))


def resolved_hops(record: Record) -> list[bool | None]:
    """For each gold hop, whether some step answered with its entity; None where the data set
    gives no answer for it, or no passage that could say it."""
    found = [step.answer for step in record.steps if step.answer]
    return [
        None
        if hop.answer is None or hop.passage is None
        else any(same_entity(a, hop.answer) for a in found)
        for hop in record.gold
    ]


def _decomposition(record: Record) -> float | None:
    if record.steps and all(step.role in SEARCH_ONLY for step in record.steps):
        return None
    told = [hit for hit in resolved_hops(record) if hit is not None]
    return sum(told) / len(told) if _chained(record) and told else None


HOP_RECALL = Metric(
    "hop_recall",
    "share of a question's gold hops whose passage was retrieved by any query",
    _hop_recall,
)
HOP_RECALL_MICRO = Metric(
    "hop_recall_micro",
    "gold hops whose passage was retrieved, over all gold hops (the guide's hits / total)",
    _hits,
    aggregate="ratio",
    weight=lambda r: float(len(hop_hits(r))),
)
HOP_RECALL_IN_ORDER = Metric(
    "hop_recall_in_order",
    "share of gold hops whose passage was retrieved at a step no earlier than those of all hops "
    "that it refers to, which must count too; needs a gold chain",
    _in_order,
)
FIRST_HOP = Metric(
    "first_hop",
    "1 when the first retrieval has the passage of a gold hop that waits for no other; needs a "
    "gold chain",
    _first_hop,
)
DECOMPOSITION = Metric(
    "decomposition_accuracy",
    f"share of gold hops whose entity some step answered (token F1 of at least {SAME_ENTITY}); "
    "needs a gold chain",
    _decomposition,
)

CHAIN = (HOP_RECALL, HOP_RECALL_MICRO, HOP_RECALL_IN_ORDER, FIRST_HOP, DECOMPOSITION)
