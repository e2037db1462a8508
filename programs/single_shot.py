"""single_shot: one search, one reading. The baseline that multi-hop methods must beat."""

from __future__ import annotations

import dspy

from programs.answers import stated
from programs.budget import HopBudget, Knob, think
from programs.evidence import Conclusion, Evidence, ended
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
        evidence.update(hop, **read(reply))
        return ended(reply.answer, "answered", reply.get("error"))


def read(reply: dspy.Prediction) -> dict[str, object]:
    """What the writer's reply makes of its hop."""
    answer = stated(reply.answer)
    status = "resolved" if answer else "unresolved"
    return {"answer": answer or None, "status": status, "error": reply.get("error")}
