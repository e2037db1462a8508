"""single_shot: one search, one reading. The baseline that multi-hop methods must beat."""

from __future__ import annotations

from programs.budget import HopBudget, Knob, think
from programs.evidence import Conclusion, Evidence
from programs.program import MethodInfo, MultiHopProgram
from retrieval import Retriever


class SingleShot(MultiHopProgram):
    """Retrieve for the question as it is, and answer from what comes back (guide, "Why
    single-shot RAG fails")."""

    info = MethodInfo("single_shot", "guide: standard RAG", "one search, one reading")
    knobs = (Knob("passages", (2, 3, 5, 8, 12)), *think("writer"))

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        (passages,) = self.search([question])
        hop = evidence.add(role="writer", query=question, passages=passages)
        reply = self.ask_final(self.final, context=self.context(passages), question=question)
        evidence.update(
            hop,
            answer=reply.answer or None,
            status="resolved" if reply.answer else "unresolved",
            error=reply.get("error"),
        )
        if not reply.answer:
            error = reply.get("error")
            return Conclusion(None, "error" if error else "unanswerable", error)
        return Conclusion(reply.answer)
