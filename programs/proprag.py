"""proprag: passages ranked by paths of propositions (PropRAG, Wang et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from programs.budget import HopBudget, Knob, think
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence, ended
from programs.knowledge.graph import Knowledge
from programs.knowledge.paths import Path
from programs.program import MethodInfo, MultiHopProgram
from programs.single_shot import read
from retrieval import Passage, Retriever
from retrieval.contract import MAX_K

SEEDS = 20
"""Passages of the question's own search from whose propositions paths start."""


class PropRAG(MultiHopProgram):
    """One search seeds a beam search over proposition paths; no LM until the passages are read.

    Propositions that share an entity are neighbours. Paths start in the propositions of the
    passages that the retriever ranks first, with their scores, and grow for up to ``hops`` steps
    beyond the first, ``candidates`` of them at a time (the paper: three propositions, width 4).
    Passages are ranked by the paths that reach them: those of the best path first, in its order;
    the retriever's own order fills up to k.

    Decisions of ours: a path is scored by the words of the question that it covers and by the
    search score that it started with, where the paper embeds the path; there is no PageRank after
    it; where no propositions were extracted, the graph's triples are read as such.
    """

    info = MethodInfo(
        "proprag",
        "PropRAG (Wang et al. 2025): beam search over proposition paths",
        "rank passages by paths of propositions that share entities, read once",
        graph="needed",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8, 12)),
        Knob("hops", (1, 2, 3)),
        Knob("candidates", (2, 4, 8)),
        *think("writer"),
    )
    defaults = {"hops": 2, "candidates": 4}

    def __init__(
        self,
        retriever: Retriever,
        budget: HopBudget | None = None,
        knowledge: Knowledge | None = None,
    ) -> None:
        if knowledge is None:
            raise ProgramError("proprag walks a graph: give knowledge=…")
        super().__init__(retriever, budget)
        self.knowledge = knowledge

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        wide = min(MAX_K, max(self.budget.passages, SEEDS))
        (found,) = self.retriever.search([question], wide, pool=max(wide, self.budget.retrieve))
        graph = self.knowledge.paths
        paths = graph.beam(
            question,
            prior(found[:SEEDS]),
            width=self.budget.candidates,
            length=1 + self.budget.hops,
        )
        passages = self.ranked(found, paths)
        hop = evidence.add(role="writer", query=question, passages=passages)
        held = {p.id for p in passages}
        for path in paths[: self.budget.candidates]:
            if held.issuperset(graph.passages(path)):
                evidence.add(
                    role="graph",
                    query=graph.told(path),
                    parent=hop.id,
                    status="graph",
                    source="graph",
                    note=f"a path of {len(path.steps)} with score {path.score:.3f}",
                )
        reply = self.ask_final(self.final, context=self.context(passages), question=question)
        evidence.update(hop, **read(reply))
        return ended(reply.answer, "answered", reply.get("error"))

    def ranked(self, found: Sequence[Passage], paths: Sequence[Path]) -> list[Passage]:
        """The ``k`` passages: those of the paths, best path first, then those searched."""
        reached = [i for path in paths for i in self.knowledge.paths.passages(path)]
        order = list(dict.fromkeys([*reached, *(p.id for p in found)]))[: self.budget.passages]
        searched = {p.id: p for p in found}
        known = self.knowledge.passages([i for i in order if i not in searched])
        held = [searched.get(i) or known[i] for i in order if i in searched or i in known]
        return [p.ranked(rank, p.score) for rank, p in enumerate(held, 1)]


def prior(found: Sequence[Passage]) -> Mapping[str, float]:
    """Scores of a search's passages scaled to 0 to 1 over the search, so that engines compare."""
    if not found:
        return {}
    low, high = min(p.score for p in found), max(p.score for p in found)
    return {p.id: (p.score - low) / (high - low) if high > low else 1.0 for p in found}
