"""Deterministic subsets: the same questions for the same limit and seed, strata in proportion."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from benchmarks.own import question_to_json
from benchmarks.question import Question

STRATA: dict[str, Callable[[Question], object]] = {
    "kind": lambda q: q.kind,
    "hops": lambda q: len(q.hops),
    "supporting": lambda q: len(q.supporting),
    "answerable": lambda q: q.answerable,
}
"""What a subset may be stratified by."""


def subset(
    questions: Sequence[Question],
    limit: int | None,
    seed: int = 0,
    by: Sequence[str] = ("kind", "hops"),
) -> list[Question]:
    """At most ``limit`` questions, stratified ``by`` (names of ``STRATA``).

    Within a stratum questions come in the order of a hash of (seed, id); strata are drawn from in
    proportion to their sizes. The result keeps the order of the file; a larger limit with the same
    seed keeps every question of a smaller one.
    """
    if limit is None or limit >= len(questions):
        return list(questions)
    strata: dict[tuple[object, ...], list[Question]] = defaultdict(list)
    for question in questions:
        strata[tuple(STRATA[name](question) for name in by)].append(question)
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


def questions_hash(questions: Iterable[Question]) -> str:
    """16 hex digits that name a set of questions with their gold, in whatever order they come.

    Two runs with the same hash were asked the same.
    """
    lines = sorted(
        json.dumps(question_to_json(q) | {"meta": None}, sort_keys=True, ensure_ascii=False)
        for q in questions
    )
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:16]
