"""Deterministic subsets: the same questions for the same limit and seed, kinds in proportion."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.question import Question


def subset(questions: Sequence[Question], limit: int | None, seed: int = 0) -> list[Question]:
    """At most ``limit`` questions, stratified by kind and number of hops.

    Within a stratum questions come in the order of a hash of (seed, id); strata are drawn from in
    proportion to their sizes. The result keeps the order of the file.
    """
    if limit is None or limit >= len(questions):
        return list(questions)
    strata: dict[tuple[str, int], list[Question]] = defaultdict(list)
    for question in questions:
        strata[question.kind, len(question.hops)].append(question)
    ranked: list[tuple[float, str, str]] = []
    for members in strata.values():
        members = sorted(members, key=lambda q: _draw(seed, q.id))
        for place, question in enumerate(members):
            share = (place + 0.5) / len(members)
            ranked.append((share, _draw(seed, question.id), question.id))
    chosen = {identifier for _, _, identifier in sorted(ranked)[: max(0, limit)]}
    return [q for q in questions if q.id in chosen]


def _draw(seed: int, identifier: str) -> str:
    return hashlib.sha256(f"{seed}:{identifier}".encode()).hexdigest()
