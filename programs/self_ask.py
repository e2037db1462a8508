"""self_ask: follow-up questions one at a time, each retrieved and answered (Press et al., 2023)."""

from __future__ import annotations

from programs.answers import stated
from programs.budget import HopBudget, Knob, think
from programs.decompose import outcome
from programs.evidence import Conclusion, Evidence, StopReason, ended
from programs.program import MethodInfo, MultiHopProgram
from programs.queries import worded
from programs.step import Step
from retrieval import Retriever
from signatures import FollowUp, Resolve, SynthesizeFacts

NOT_FOUND = "(not found)"


class SelfAsk(MultiHopProgram):
    """Self-Ask with retrieval.

    The asker sees the question and the follow-ups with their answers, no passages, and writes the
    next follow-up or the final answer. Each follow-up is searched, and the resolver answers it
    from its own passages alone.

    Decisions of ours: the asker is asked at most ``hops`` + 1 times for a follow-up, then the
    synthesizer answers from the facts; it does so too when a follow-up was asked before
    (``repeated_query``), or when the asker fails or gives neither follow-up nor answer. When none
    is needed from the start, the question itself is the only follow-up, so that no answer goes
    without evidence. Without a single fact the answer is written from the pooled passages.
    """

    info = MethodInfo(
        "self_ask",
        "Press et al. 2023, Self-Ask with search; a baseline of the papers",
        "ask follow-up questions one at a time, search and answer each",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8)),
        Knob("hops", (1, 2, 3, 4, 5)),
        *think("asker", "resolver", "synthesizer"),
    )

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)
        self.asker = Step(FollowUp, "asker", fallback={"follow_up": None, "answer": None})
        self.resolver = Step(Resolve, "resolver", fallback={"answer": None})
        self.synthesizer = Step(SynthesizeFacts, "synthesizer", fallback={"answer": ""})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        for _ in range(self.budget.hops + 1):
            reply = self.ask(self.asker, facts=asked_so_far(evidence), question=question)
            follow_up = worded([reply.follow_up])
            if not follow_up and evidence.hops:
                answer = stated(reply.answer)
                return Conclusion(answer) if answer else self.conclude(question, evidence)
            query = (follow_up or [question])[0]
            if evidence.asked(query):
                evidence.update(evidence.hops[-1], note=f"asked for again: {query}")
                return self.conclude(question, evidence, "repeated_query")
            self.look_up(query, evidence, reply.get("error"))
            if not follow_up:
                return self.conclude(question, evidence)
        reply = self.ask(self.asker, facts=asked_so_far(evidence), question=question)
        answer = stated(reply.answer)
        if answer and not worded([reply.follow_up]):
            return Conclusion(answer)
        return self.conclude(question, evidence, "budget")

    def look_up(self, query: str, evidence: Evidence, error: str | None) -> None:
        """Search a follow-up and answer it; it follows from the one before it."""
        (passages,) = self.search([query])
        parent = evidence.hops[-1].id if evidence.hops else None
        hop = evidence.add(role="asker", query=query, passages=passages, parent=parent)
        reply = self.ask(self.resolver, context=self.context(passages), question=query)
        found = outcome(reply)
        evidence.update(hop, **{**found, "error": error or found["error"]})

    def conclude(
        self, question: str, evidence: Evidence, stop: StopReason = "answered"
    ) -> Conclusion:
        """The answer without the asker: from the facts, or without any from the passages."""
        facts = evidence.facts()
        if not facts:
            shown = self.context(evidence.ranked())
            reply = self.ask_final(self.final, context=shown, question=question)
        elif len(evidence.hops) == 1 and evidence.asked(question):
            return ended(evidence.best_answer(), stop, None)
        else:
            reply = self.ask_final(self.synthesizer, facts=facts, question=question)
        error = reply.get("error")
        return ended(reply.answer or (evidence.best_answer() if error else None), stop, error)


def asked_so_far(evidence: Evidence) -> list[str]:
    """Every follow-up with its answer, or with word that none was found."""
    return [f"{hop.refined} → {hop.answer or NOT_FOUND}" for hop in evidence.hops]
