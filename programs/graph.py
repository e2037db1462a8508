"""graph: follow the edges of a knowledge graph, and search where they end (guide, approach 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dspy

from programs.agentic import Agentic
from programs.answers import stated
from programs.arguments import check_part
from programs.budget import HopBudget, Knob, think
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence
from programs.knowledge.graph import Knowledge
from programs.knowledge.names import base_key, entity_key
from programs.knowledge.walk import Edge, Walk, shown
from programs.program import MethodInfo, MultiHopProgram
from programs.queries import worded
from programs.step import Step
from retrieval import Passage, Retriever
from retrieval.contract import MAX_K
from signatures import FollowEdges

EDGES = 60
"""Edges offered in one call."""


class Graph(MultiHopProgram):
    """Graph-augmented retrieval: traversal for the bridge hops, text for what no edge states.

    The walk begins at the entities that the question names. At each step the walker sees the
    edges at what has been reached, with the facts so far, and follows those that the question asks
    for next, of one entity up to ``candidates``; each is a hop with the passage that states it, and
    needs no search. When facts and edges state the answer it is read off them.

    Where no edge leads on, the missing fact is searched as text, the passages about the entities
    reached first, and ``agentic`` goes on from there with everything found; where the question
    names nothing that the graph knows, ``agentic`` has it from the start.

    Decisions of ours: edges may be followed backwards; entities that the question names stay
    reached until an edge of theirs is followed; an answer before any edge was followed is not
    taken, since nothing bears it out; a scoped search is filled up to k by the ordinary one.
    """

    info = MethodInfo(
        "graph",
        "guide: approach 3, graph-augmented retrieval",
        "follow edges of the corpus's graph, search text where they end",
        parts=("agentic",),
        graph="needed",
    )
    knobs = (
        Knob("hops", (1, 2, 3, 4, 5)),
        Knob("candidates", (1, 2, 3)),
        *think("walker"),
    )
    defaults = {"hops": 4, "candidates": 3}

    def __init__(
        self,
        retriever: Retriever,
        budget: HopBudget | None = None,
        knowledge: Knowledge | None = None,
        agentic: Agentic | None = None,
    ) -> None:
        if knowledge is None:
            raise ProgramError("graph walks a graph: give knowledge=…")
        check_part("graph", "agentic", agentic)
        if agentic is not None and not isinstance(agentic, Agentic):
            raise ProgramError(
                f"graph falls back to agentic, which can go on from a walk; {agentic.info.name} "
                "can't"
            )
        super().__init__(retriever, budget)
        self.knowledge = knowledge
        self.agentic = agentic or Agentic(
            retriever, budget and budget.handed_on(Agentic.default_budget(), self.default_budget())
        )
        self.walker = Step(
            FollowEdges, "walker", fallback={"follow": [], "answer": None, "look_up": None}
        )

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        named = self.knowledge.named_in(question)
        reached: dict[str, int | None] = {entity.key: None for entity in named}
        if not reached:
            return self.fall_back(question, evidence, reached, question, "no entity of the graph")
        walk = Walk(self.knowledge, question)
        facts: list[str] = []
        query = question
        for _ in range(self.budget.hops):
            edges = walk.offered([*reached], EDGES)
            if not edges:
                break
            reply = self.ask(self.walker, facts=facts, edges=shown(edges), question=question)
            if reply.get("error"):
                failed = f"edges at {', '.join(reached)}"
                evidence.add(
                    role="walker",
                    query=failed,
                    parent=latest(reached),
                    status="error",
                    error=reply.error,
                )
            taken = self.chosen(reply, edges)
            self.follow(walk, taken, reached, evidence)
            facts += [edge.line for edge in taken]
            answer = stated(reply.answer)
            if facts and answer:
                note_source(answer, evidence)
                return Conclusion(answer, extra={"edges": len(facts)})
            if not taken:
                query = next(iter(worded([reply.look_up])), question)
                break
        return self.fall_back(question, evidence, reached, query, "no edge leads on")

    def chosen(self, reply: dspy.Prediction, edges: Sequence[Edge]) -> list[Edge]:
        """The edges that the walker named, each once, of one entity the first ``candidates``."""
        taken: list[Edge] = []
        for number in reply.follow or ():
            if not isinstance(number, int) or not 1 <= number <= len(edges):
                continue
            edge = edges[number - 1]
            beside = sum(e.start == edge.start for e in taken)
            if edge not in taken and beside < self.budget.candidates:
                taken.append(edge)
        return taken

    def follow(
        self,
        walk: Walk,
        taken: Sequence[Edge],
        reached: dict[str, int | None],
        evidence: Evidence,
    ) -> None:
        """A hop for each edge; ``reached`` (entity → hop) moves on to where they lead."""
        stated = self.knowledge.passages([edge.triple.passage for edge in taken])
        known = self.knowledge.keys([edge.target for edge in taken])
        ends: dict[str, int | None] = {}
        for edge in taken:
            walk.follow(edge)
            passage = stated.get(edge.triple.passage)
            hop = evidence.add(
                role="walker",
                query=edge.line,
                passages=[] if passage is None else [passage.ranked(1, 1.0)],
                parent=reached.get(edge.start),
                answer=edge.target,
                status="graph",
                source="graph",
            )
            if edge.target in known:
                ends[known[edge.target]] = hop.id
        for edge in taken:
            reached.pop(edge.start, None)
        reached.update(ends)

    def fall_back(
        self,
        question: str,
        evidence: Evidence,
        reached: Mapping[str, int | None],
        query: str,
        why: str,
    ) -> Conclusion:
        """Search the passages about what was reached, and let ``agentic`` go on."""
        passages, inside = self.scoped(query, [*reached])
        note = f"{why}: searched as text"
        if inside:
            note += f", {inside} of {len(passages)} passages about what was reached"
        return self.agentic.pursue(question, evidence, query, passages, latest(reached), note)

    def scoped(self, query: str, keys: Sequence[str]) -> tuple[list[Passage], int]:
        """The ``k`` passages for a query, those about some entities first; and how many of them
        are. Passages about them that the search doesn't find come after those that it does."""
        budget = self.agentic.budget
        ids = self.knowledge.about(keys) if keys else []
        wide = min(MAX_K, max(budget.passages, budget.retrieve)) if ids else budget.passages
        (found,) = self.retriever.search([query], wide, pool=max(wide, budget.retrieve))
        inside = {p.id: p for p in found if p.id in set(ids)}
        lacking = [i for i in ids if i not in inside][: budget.passages]
        inside.update(self.knowledge.passages(lacking))
        order = [*inside.values(), *(p for p in found if p.id not in inside)]
        ranked = [p.ranked(n, p.score) for n, p in enumerate(order[: budget.passages], 1)]
        return ranked, min(len(inside), len(ranked))


def latest(reached: Mapping[str, int | None]) -> int | None:
    """The last hop that led to what has been reached; None at the question's own names."""
    return max((hop for hop in reached.values() if hop is not None), default=None)


def note_source(answer: str, evidence: Evidence) -> None:
    """Note the last edge that leads to the answer, words in brackets aside where none leads to it
    as written. A yes or no and most comparisons stand on none: noted on the last edge of all."""
    edges = [hop for hop in evidence.hops if hop.status == "graph"]
    for key in (entity_key, base_key):
        leading = [hop for hop in edges if key(hop.answer or "") == key(answer)]
        if leading:
            evidence.update(leading[-1], note="the answer stands on this edge")
            return
    if edges:
        evidence.update(edges[-1], note="the answer stands on no edge")
