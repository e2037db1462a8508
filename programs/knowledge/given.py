"""Triples that a corpus brings: written into the graph without an LM pass.

Typed triples (subject, relation, object), or plain cross-references and citations, which link two
passages and say no more. Each belongs to a passage of the corpus: the one named, else the one whose
title is its subject, else its object. What fits no passage is counted, not kept, since nothing
would take it out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from programs.knowledge.errors import GraphError
from programs.knowledge.names import base_key, entity_key
from programs.knowledge.store import GraphStore
from retrieval import Passage
from signatures import Triple

REFERS = "refers to"
COLUMNS = (
    "subject, relation, object (also: passage, title, subject_type, object_type), or source and "
    "target (also: relation), which are ids or titles of passages"
)


@dataclass(frozen=True, slots=True)
class Given:
    """A triple as it was given; ``title`` names the passage that states it, if not its id."""

    triple: Triple
    title: str = ""
    reference: bool = False
    """Subject and object are passages: ids or titles."""


@dataclass(frozen=True, slots=True)
class Placed:
    """How many triples found their passages, and which didn't."""

    triples: int
    passages: int
    unplaced: tuple[Triple, ...]
    replaced: int
    """Triples given before that are not among them, and are dropped."""


def given_row(row: Mapping[str, Any], where: str) -> list[Given]:
    """A row of a table as triples. Raises ``GraphError`` that names the columns wanted."""
    cells = {k.strip().casefold(): _cell(v) for k, v in row.items() if isinstance(k, str)}
    if cells.get("source") and cells.get("target"):
        made = Triple(cells["source"], cells.get("relation") or REFERS, cells["target"])
        return [Given(made, reference=True)]
    lacking = [c for c in ("subject", "relation", "object") if not cells.get(c)]
    if lacking:
        raise GraphError(f"{where} lacks {', '.join(lacking)}: wanted are {COLUMNS}")
    made = Triple(
        cells["subject"],
        cells["relation"],
        cells["object"],
        cells.get("passage", ""),
        cells.get("subject_type", "").casefold(),
        cells.get("object_type", "").casefold(),
    )
    return [Given(made, cells.get("title", ""))]


def linked(passages: Iterable[Passage], column: str) -> list[Given]:
    """The links that passages bring in a column of their own: an id or title, or a list of them.
    Raises ``GraphError`` when none has any."""
    found = []
    for passage in passages:
        targets = passage.metadata.get(column)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if _cell(target):
                found.append(Given(Triple(passage.id, REFERS, _cell(target)), reference=True))
    if not found:
        raise GraphError(f"no passage has links in a column {column!r}: name the one that has")
    return found


def write_given(store: GraphStore, given: Sequence[Given]) -> Placed:
    """Write triples in place of those given before. What an LM read stays."""
    ids = store.digests()
    wanted = {entity_key(name) for g in given for name in _titles(g)}
    wanted |= {base_key(name) for g in given for name in _titles(g)}
    titled = store.titled(sorted(wanted))
    ends = {e for g in given if g.reference for e in (g.triple.subject, g.triple.object)}
    names = {i: p.title or i for i, p in store.passages([e for e in ends if e in ids]).items()}

    def passage_of(name: str) -> str | None:
        found = titled.get(entity_key(name)) or titled.get(base_key(name)) or [""]
        return name if name in ids else found[0] or None

    by_passage: dict[str, dict[Triple, None]] = {}
    unplaced = []
    for one in given:
        triple = one.triple
        places = [passage_of(name) for name in _titles(one)]
        place = triple.passage if triple.passage in ids else next(filter(None, places), None)
        if place is None:
            unplaced.append(triple)
            continue
        made = replace(
            triple,
            passage=place,
            subject=names.get(triple.subject, triple.subject) if one.reference else triple.subject,
            object=names.get(triple.object, triple.object) if one.reference else triple.object,
        )
        by_passage.setdefault(place, {})[made] = None
    before = set(store.triples("given"))
    store.forget("given", "triples")
    store.write("given", {place: list(triples) for place, triples in by_passage.items()})
    replaced = len(before.difference(store.triples("given")))
    return Placed(sum(map(len, by_passage.values())), len(by_passage), tuple(unplaced), replaced)


def _titles(one: Given) -> tuple[str, ...]:
    """Names of the passage that may state a triple, the likeliest first. A reference stands in its
    source; what names a passage that isn't there is not looked for at its object."""
    if one.reference:
        return (one.triple.subject,)
    named = [one.title, one.triple.subject, "" if one.triple.passage else one.triple.object]
    return tuple(filter(None, named))


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())
