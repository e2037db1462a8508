"""direct: the model's own knowledge, nothing looked up. What retrieval must add to."""

from __future__ import annotations

from programs.budget import HopBudget, think
from programs.evidence import Conclusion, Evidence, ended
from programs.program import MethodInfo, MultiHopProgram
from programs.step import Step
from retrieval import Retriever
from signatures import Recall


class Direct(MultiHopProgram):
    """Ask the question as it is, without passages (the papers' "direct" baseline).

    It takes a retriever as every method does and never searches it, so its evidence is empty. The
    oracle reads passages only and can't answer for it.
    """

    info = MethodInfo(
        "direct",
        "the papers' closed-book baseline; guide: the router's questions that need no retrieval",
        "one call, no retrieval",
        oracle=False,
    )
    knobs = think("writer")

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)
        self.final = Step(Recall, "writer", fallback={"answer": ""})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        reply = self.ask_final(self.final, question=question)
        return ended(reply.answer, "answered", reply.get("error"))

    def at_cap(self, question: str, evidence: Evidence) -> Conclusion:
        """The one call is spent, and there is no evidence to fall back on."""
        return Conclusion(None, "error", "the budget left no call for a retry")
