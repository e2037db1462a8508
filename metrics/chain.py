"""Metrics of the chain: whether each hop found its passage, in order, with the right entity."""

from __future__ import annotations

import re

from metrics.metric import Metric
from metrics.normal import best_against
from metrics.record import Record

SAME_ENTITY = 0.8
"""A step's answer is a gold hop's entity from this F1 on ("Robert Lee Jr." is "Robert Lee")."""


def hop_hits(record: Record) -> list[bool]:
    """For each gold hop with a passage, whether any query retrieved it."""
    read = {p for step in record.steps for p in step.passages} | set(record.ranked)
    return [hop.passage in read for hop in record.gold if hop.passage is not None]


def _hop_recall(record: Record) -> float | None:
    hits = hop_hits(record)
    return sum(hits) / len(hits) if hits else None


def needs(question: str | None) -> tuple[int, ...]:
    """Positions (0-based) of the hops that a sub-question refers to."""
    return tuple(sorted({int(n) - 1 for n in re.findall(r"\{answer_(\d+)\}", question or "")}))


def _in_order(record: Record) -> float | None:
    """A hop counts when a step retrieved its passage, and every hop it refers to counts and was
    first retrieved no later."""
    if not record.ordered or not hop_hits(record):
        return None
    first: dict[str, int] = {}
    for place, step in enumerate(record.steps):
        for passage in step.passages:
            first.setdefault(passage, place)
    good: list[int | None] = []
    for hop in record.gold:
        at = first.get(hop.passage) if hop.passage is not None else None
        before = [good[n] if 0 <= n < len(good) else None for n in needs(hop.question)]
        fits = at is not None and all(b is not None and b <= at for b in before)
        good.append(at if fits else None)
    told = [g for g, hop in zip(good, record.gold, strict=True) if hop.passage is not None]
    return sum(g is not None for g in told) / len(told)


def _first_hop(record: Record) -> float | None:
    hops = [h for h in record.gold if h.passage is not None]
    if not record.ordered or not hops or not record.steps:
        return None if not record.ordered or not hops else 0.0
    return float(hops[0].passage in record.steps[0].passages)


def resolved_hops(record: Record) -> list[bool] | None:
    """For each gold hop with an answer, whether some step answered with its entity; None where
    the data set has no chain."""
    if not record.ordered:
        return None
    found = [step.answer for step in record.steps if step.answer]
    return [
        any(best_against(a, [hop.answer], record.answer_rule).f1 >= SAME_ENTITY for a in found)
        for hop in record.gold
        if hop.answer is not None
    ]


def _decomposition(record: Record) -> float | None:
    hits = resolved_hops(record)
    return sum(hits) / len(hits) if hits else None


HOP_RECALL = Metric(
    "hop_recall",
    "share of a question's gold hops whose passage was retrieved by any query",
    _hop_recall,
)
HOP_RECALL_MICRO = Metric(
    "hop_recall_micro",
    "gold hops whose passage was retrieved, over all gold hops (the guide's hits / total)",
    lambda r: float(sum(hop_hits(r))) if hop_hits(r) else None,
    aggregate="ratio",
    weight=lambda r: float(len(hop_hits(r))),
)
HOP_RECALL_IN_ORDER = Metric(
    "hop_recall_in_order",
    "share of gold hops retrieved no earlier than every hop that they refer to; needs a gold chain",
    _in_order,
)
FIRST_HOP = Metric(
    "first_hop",
    "1 when the first retrieval has the first gold hop's passage; needs a gold chain",
    _first_hop,
)
DECOMPOSITION = Metric(
    "decomposition_accuracy",
    f"share of gold hops whose entity some step answered (F1 of at least {SAME_ENTITY}); needs a "
    "gold chain",
    _decomposition,
)

CHAIN = (HOP_RECALL, HOP_RECALL_MICRO, HOP_RECALL_IN_ORDER, FIRST_HOP, DECOMPOSITION)
