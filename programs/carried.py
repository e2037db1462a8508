"""Carried answers: what a hop hands on to those that wait for it, with where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from programs.plans import PlanStep

MOST_CHOICES = 1000
"""Combinations of earlier answers that are looked at for one step."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One answer to one step of a plan, or None when the step found none."""

    answer: str | None
    hop: int
    """Id of the hop that asked for it."""
    given: Mapping[int, str] = field(default_factory=dict)
    """Answers by step (0-based) that it rests on, itself included."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A step with one choice of earlier answers put in."""

    step: int
    query: str
    parent: int | None
    """Id of the hop that the latest of these answers came from."""
    given: Mapping[int, str]


def variants(
    place: int, step: PlanStep, found: Mapping[int, Sequence[Carried]], limit: int
) -> list[Variant]:
    """The ways to fill a step in, those of the best answers first, up to ``limit`` different
    queries; one query may rest on several choices.

    Answers go together only when they rest on the same choices: where step 2 asked about one
    candidate of step 1, its answer is not combined with another. A step that needs an answer
    which wasn't found is asked without it. ``found`` holds every step that this one needs.
    """
    kept: list[Variant] = []
    queries: set[str] = set()
    for choice in islice(product(*(found[need] for need in step.needs)), MOST_CHOICES):
        given: dict[int, str] = {}
        if any(given.setdefault(i, a) != a for carried in choice for i, a in carried.given.items()):
            continue
        query = step.filled(given)
        if query not in queries and len(queries) == limit:
            break
        queries.add(query)
        kept.append(Variant(place, query, choice[-1].hop if choice else None, given))
    return kept


def carry(step: int, answers: Sequence[tuple[Variant, int, Sequence[str]]]) -> list[Carried]:
    """What a step hands on: of each (variant, hop, its answers) in turn the best, then the second,
    and so on, equal ones of equal descent once; a None when there is no answer at all."""
    most = max(len(found) for _, _, found in answers)
    kept: dict[tuple[tuple[int, str], ...], Carried] = {}
    for rank in range(most):
        for variant, hop, found in answers:
            if rank < len(found):
                given = {**variant.given, step: found[rank]}
                key = tuple(sorted((i, a.casefold()) for i, a in given.items()))
                kept.setdefault(key, Carried(found[rank], hop, given))
    return list(kept.values()) or [Carried(None, answers[0][1], answers[0][0].given)]
