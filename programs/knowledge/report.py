"""Reports on a graph: how right it is, against triples that are given as right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from programs.knowledge.names import base_key, entity_key, relation_key
from signatures import Triple


@dataclass(frozen=True, slots=True)
class Check:
    """Extracted triples against given ones. Given triples seldom say all that a passage states, so
    an extracted one that isn't among them is not wrong for that: precision looks only at subjects
    and relations of which they speak."""

    given: int
    linked: int
    """Of the given, those whose two names some extracted triple links, whatever the relation."""
    same: int
    """Of the given, those extracted with that relation."""
    compared: int
    """Extracted triples with the subject and relation of a given one."""
    right: int
    """Of these, those with its object."""

    def shares(self) -> dict[str, float | None]:
        """``recall``, ``recall_with_relation`` and ``precision``; None without anything to
        compare."""
        return {
            "recall": self.linked / self.given if self.given else None,
            "recall_with_relation": self.same / self.given if self.given else None,
            "precision": self.right / self.compared if self.compared else None,
        }


def check(extracted: Iterable[Triple], given: Iterable[Triple]) -> Check:
    """Names are compared by key, words in brackets aside; relations by their words."""
    wanted = {_key(t) for t in given}
    found = {_key(t) for t in extracted}
    pairs = {frozenset((s, o)) for s, _, o in found}
    objects: dict[tuple[str, str], set[str]] = {}
    for subject, relation, end in wanted:
        objects.setdefault((subject, relation), set()).add(end)
    compared = [t for t in found if t[:2] in objects]
    return Check(
        given=len(wanted),
        linked=sum(frozenset((s, o)) in pairs for s, _, o in wanted),
        same=len(wanted & found),
        compared=len(compared),
        right=sum(t[2] in objects[t[:2]] for t in compared),
    )


def _key(triple: Triple) -> tuple[str, str, str]:
    subject, end = base_key(triple.subject), base_key(triple.object)
    return subject or entity_key(triple.subject), relation_key(triple.relation), end
