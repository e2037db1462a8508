"""QueryTree: one question's tree of queries while it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from programs.evidence import Evidence, Hop, normal_query


@dataclass
class QueryTree:
    """Its nodes are hops of the evidence, its history the facts that they found. Hops are replaced
    when they change: ``now`` gives a node as it stands."""

    question: str
    evidence: Evidence
    splits: int = 0

    def now(self, node: Hop) -> Hop:
        return self.evidence.hops[node.id]

    def below(self, *nodes: Hop) -> Evidence:
        """The hops of these nodes' subtrees, these included, in order."""
        ids = {node.id for node in nodes}
        for hop in self.evidence.hops:
            if hop.parent in ids:
                ids.add(hop.id)
        return Evidence(hop for hop in self.evidence.hops if hop.id in ids)

    def facts(self) -> list[str]:
        """The history: each query that was answered, with its answers."""
        return list(dict.fromkeys(self.evidence.facts()))

    def unmet(self, nodes: Sequence[Hop]) -> list[str]:
        """Queries of these subtrees that stayed without an answer."""
        hops = (h for h in self.below(*nodes).hops if h.answer is None and h.source == "search")
        return list(dict.fromkeys(h.refined for h in hops))

    def same(self, query: str) -> Hop | None:
        """The first node that asked the same."""
        wanted = normal_query(query)
        return next((h for h in self.evidence.hops if normal_query(h.refined) == wanted), None)

    def remark(self, node: Hop, note: str, error: str | None = None) -> Hop:
        """Add to a node's note, and keep a step's failure."""
        now = self.now(node)
        notes = "; ".join(filter(None, (now.note, note)))
        return self.evidence.update(node, note=notes, error=error or now.error)

    def close(self, node: Hop, found: Sequence[str], status: str) -> Hop:
        """End a node with what was found, best first; with nothing found, with the candidates that
        it has. ``status`` holds where there are none either."""
        answers = list(found) or list(self.now(node).candidates)
        if answers:
            status = "repaired" if status == "repaired" else "resolved"
        elif status == "repaired":
            status = "unresolved"
        fields: dict[str, Any] = {"answer": answers[0] if answers else None, "status": status}
        return self.evidence.update(node, candidates=tuple(answers[1:]), **fields)
