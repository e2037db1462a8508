"""Knowledge: a corpus's graph as methods use it: named entities, their edges and their passages.

Reading only. What the store holds of passages that have changed or gone since they were read is
left out (``stale``), so that a graph is never ahead of or behind the index that is searched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from programs.knowledge.names import entity_key, is_literal, mentions
from retrieval import Passage
from signatures import Proposition, Triple

if TYPE_CHECKING:
    from programs.knowledge.paths import PropositionGraph
    from programs.knowledge.store import GraphStore

UNTYPED = "untyped"
MOST_PASSAGES = 200
"""Passages of one entity that a scoped search looks at."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that the graph knows, as a text names it."""

    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far the graph leads on from the entities of one type."""

    entities: int
    led_on: int
    """Of these, entities with an edge of their own: as its subject."""
    edges: int
    """Edges whose subject is one of them."""

    @property
    def share(self) -> float:
        return self.led_on / self.entities if self.entities else 0.0


class Knowledge:
    """A graph that is read. Shared by programs, never copied; thread-safe."""

    def __init__(self, store: GraphStore, stale: Iterable[str] = ()) -> None:
        self.store = store
        self.stale = frozenset(stale)
        """Ids of passages whose triples no longer hold."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Knowledge:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (Knowledge, (self.store, self.stale))

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """For fingerprints and exports: how it was made and what it holds; no place, no secret."""
        noted = self.store.noted()
        return {
            "format": noted.get("format"),
            "triples": noted.get("triples"),
            "propositions": noted.get("propositions"),
            "content": self.content_hash,
        }

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over triples and propositions, in an order that doesn't matter."""
        total = 0
        for item in (*self._live(self.store.triples()), *self._live(self.store.propositions())):
            made = hashlib.sha256(repr(item).encode("utf-8", "surrogatepass")).digest()
            total = (total + int.from_bytes(made, "big")) % (1 << 256)
        return f"{total:064x}"

    def named_in(self, text: str) -> list[Entity]:
        """The entities that a text names, in its order; of names within each other the longest."""
        spans = [*mentions(text)]
        known = self.store.known([key for _, _, key in spans])
        taken: list[tuple[int, int, Entity]] = []
        for start, end, key in spans:
            if key in known and all(end <= s or e <= start for s, e, _ in taken):
                taken.append((start, end, Entity(known[key], text[start:end])))
        found = {entity.key: entity for _, _, entity in sorted(taken, key=lambda t: t[:2])}
        return [entity for entity in found.values() if not is_literal(entity.name)]

    def known(self, names: Sequence[str]) -> list[str]:
        """The keys of what these names name here, in order, each once; those unknown left out."""
        return list(dict.fromkeys(self.keys(names).values()))

    def keys(self, names: Sequence[str]) -> dict[str, str]:
        """What is known of these names, each with the key of what it names here."""
        keys = {name: entity_key(name) for name in names}
        known = self.store.known([*keys.values()])
        return {name: known[key] for name, key in keys.items() if key in known}

    def edges(self, keys: Sequence[str]) -> list[Triple]:
        """Triples at some entities, either end."""
        return list(self._live(self.store.edges(keys)))

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Passages by id, stale ones left out."""
        return self.store.passages([i for i in ids if i not in self.stale])

    def about(self, keys: Sequence[str]) -> list[str]:
        """Ids of the passages about some entities: those that bear their names as titles, then
        those that state their edges, and then those that state edges to them."""
        own: list[str] = []
        others: list[str] = []
        wanted = set(keys)
        for triple in self.edges(keys):
            (own if entity_key(triple.subject) in wanted else others).append(triple.passage)
        titled = [i for ids in self.store.titled(keys).values() for i in ids if i not in self.stale]
        return list(dict.fromkeys([*titled, *own, *others]))[:MOST_PASSAGES]

    @cached_property
    def coverage(self) -> dict[str, Coverage]:
        """By type of entity, the most entities first. Dates and numbers, from which nothing leads
        on, are left out. An entity's type is the first that a triple gave it."""
        types: dict[str, str] = {}
        edges: dict[str, int] = {}
        for triple in dict.fromkeys(self._live(self.store.triples())):
            for name, kind in (
                (triple.subject, triple.subject_type),
                (triple.object, triple.object_type),
            ):
                key = entity_key(name)
                types[key] = types.get(key) or kind
            subject = entity_key(triple.subject)
            edges[subject] = edges.get(subject, 0) + 1
        held: dict[str, list[int]] = {}
        for key, kind in types.items():
            if key in edges or not (is_literal(key) or kind in ("year", "date", "number")):
                held.setdefault(kind or UNTYPED, []).append(edges.get(key, 0))
        made = {k: Coverage(len(n), sum(map(bool, n)), sum(n)) for k, n in held.items()}
        return dict(sorted(made.items(), key=lambda pair: (-pair[1].entities, pair[0])))

    def types(self, keys: Sequence[str]) -> dict[str, str]:
        """The type of each of these entities, ``UNTYPED`` where none is known."""
        found = dict.fromkeys(keys, "")
        for triple in self.edges(keys):
            for name, kind in (
                (triple.subject, triple.subject_type),
                (triple.object, triple.object_type),
            ):
                key = entity_key(name)
                if key in found:
                    found[key] = found[key] or kind
        return {key: kind or UNTYPED for key, kind in found.items()}

    @cached_property
    def propositions(self) -> tuple[Proposition, ...]:
        """The corpus in propositions; where none were extracted, each triple read as one."""
        found = tuple(self._live(self.store.propositions()))
        return found or tuple(
            Proposition(f"{t.subject} {t.relation} {t.object}", (t.subject, t.object), t.passage)
            for t in dict.fromkeys(self._live(self.store.triples()))
        )

    @cached_property
    def paths(self) -> PropositionGraph:
        """The propositions as a graph."""
        from programs.knowledge.paths import PropositionGraph

        return PropositionGraph(self.propositions)

    def _live(self, items: Iterable[Any]) -> Iterable[Any]:
        return (item for item in items if item.passage not in self.stale)


__all__ = ["UNTYPED", "Coverage", "Entity", "Knowledge"]
