"""Walk: one question's way through the graph, from the names in it towards its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from programs.knowledge.graph import Knowledge
from programs.knowledge.names import entity_key
from signatures import Edges, Triple

OWN_EDGES, EDGES_TO = 40, 15
"""Edges of one entity that are offered: as their subject, and as their object. A country is the
object of thousands: of those, the edges that share words with the question come first."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A triple that can be followed from ``start`` to ``end`` (keys); backwards when ``start`` is
    its object."""

    triple: Triple
    start: str
    end: str

    @property
    def target(self) -> str:
        """The name that it leads to."""
        backwards = self.start == entity_key(self.triple.object) != entity_key(self.triple.subject)
        return self.triple.subject if backwards else self.triple.object

    @property
    def fact(self) -> tuple[str, str, str]:
        """What it shares with the same fact of another passage or from the other end."""
        low, high = sorted((self.start, self.end))
        return self.triple.relation, low, high

    @property
    def line(self) -> str:
        return f"{self.triple.subject} | {self.triple.relation} | {self.triple.object}"


class Walk:
    """The part of the graph around what has been reached, as a networkx multigraph that grows with
    each step; belongs to one question."""

    def __init__(self, knowledge: Knowledge, question: str) -> None:
        import networkx

        self.knowledge = knowledge
        self.graph: Any = networkx.MultiDiGraph()
        self._words = _words(question)
        self._fetched: set[str] = set()
        self._followed: set[Triple] = set()

    def expand(self, keys: Sequence[str]) -> None:
        """Fetch the edges of entities that were not looked at before."""
        fresh = [key for key in keys if key not in self._fetched]
        self._fetched.update(fresh)
        for triple in self.knowledge.edges(fresh) if fresh else ():
            ends = entity_key(triple.subject), entity_key(triple.object)
            self.graph.add_edge(*ends, key=triple)

    def offered(self, keys: Sequence[str], room: int) -> list[Edge]:
        """Edges at some entities that were not followed yet, by entity, each fact once; where there
        are more than ``room``, the entities take turns with their first ones."""
        self.expand(keys)
        by_entity = [self._edges_at(key) for key in keys]
        facts = [dict.fromkeys(edge.fact for edge in edges) for edges in by_entity]
        in_turn = filter(None, chain.from_iterable(zip_longest(*facts)))
        kept = set([*dict.fromkeys(in_turn)][:room])
        found: dict[tuple[str, str, str], Edge] = {}
        for edge in chain.from_iterable(by_entity):
            if edge.fact in kept:
                found.setdefault(edge.fact, edge)
        return list(found.values())

    def follow(self, edge: Edge) -> None:
        """Take an edge; it is not offered again."""
        self._followed.add(edge.triple)

    def _edges_at(self, key: str) -> list[Edge]:
        """Those of one entity by the words that they share with the question, edges to it after
        its own."""
        if key not in self.graph:
            return []
        own = [Edge(t, key, end) for _, end, t in self.graph.out_edges(key, keys=True)]
        to = [Edge(t, key, end) for end, _, t in self.graph.in_edges(key, keys=True)]
        found: list[Edge] = []
        for edges, most in ((own, OWN_EDGES), (to, EDGES_TO)):
            left = [edge for edge in edges if edge.triple not in self._followed]
            found += sorted(left, key=self._strange)[:most]
        return found

    def _strange(self, edge: Edge) -> int:
        return -len(self._words & _words(edge.triple.relation))


def shown(edges: Sequence[Edge]) -> Edges:
    """Edges as prompt text."""
    return Edges([edge.line for edge in edges], [edge.triple.passage for edge in edges])


def _words(text: str) -> set[str]:
    return {word[:5] for word in re.findall(r"[^\W_]+", text.casefold()) if len(word) > 2}
