"""ircot: retrieval interleaved with a chain of thought (Trivedi et al., 2023)."""

from __future__ import annotations

import re
from dataclasses import replace

from programs.budget import HopBudget, Knob, think
from programs.evidence import Conclusion, Evidence, StopReason, ended
from programs.program import MethodInfo, MultiHopProgram
from programs.queries import worded
from programs.step import Step
from retrieval import Retriever
from signatures import NextThought

ANSWERED = re.compile(r"\banswer is\b", re.IGNORECASE)


class IRCoT(MultiHopProgram):
    """IRCoT: each sentence of the chain of thought is the next query.

    The question is searched first. Then the reasoner writes one sentence from the pool and the
    sentences so far, and the sentence is searched; its passages join the pool at its end. The
    chain ends when the reasoner is done or writes "answer is" (the paper's sign), or after
    ``hops`` sentences. A reader then answers from the pool, without the thoughts. The pool is
    capped at ``context_passages`` (15 in the paper) and only grows at its end.

    Decisions of ours: a chain whose pool is full ends too, as nothing found later could be read;
    a sentence that was searched before ends it (``repeated_query``), and one without a word ends
    it as if the reasoner were done. Of a reply with several sentences the first is taken, as in
    the paper.
    """

    info = MethodInfo(
        "ircot",
        "Trivedi et al. 2023, IRCoT; a baseline of the papers",
        "each sentence of reasoning is the next query, then a reader answers",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8)),
        Knob("hops", (2, 3, 5, 8)),
        Knob("context_passages", (10, 15, 25)),
        *think("reasoner", "writer"),
    )
    defaults = {"hops": 8, "context_passages": 15, "context_tokens": 4000}

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)
        self.reasoner = Step(NextThought, "reasoner", fallback={"thought": "", "done": True})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        (passages,) = self.search([question])
        hop = evidence.add(role="reasoner", query=question, passages=passages)
        thoughts: list[str] = []
        for _ in range(self.budget.hops):
            if self.full(evidence):
                evidence.update(hop, note="the pool is full")
                end = self.read(question, evidence, "budget")
                return replace(end, cap=f"context_passages={self.budget.context_passages}")
            reply = self.ask(
                self.reasoner,
                context=self.context(evidence.passages),
                question=question,
                thoughts=thoughts,
            )
            thought = first_sentence(reply.thought)
            hop = evidence.update(hop, note=thought, error=reply.get("error"))
            if reply.done or not worded([thought]) or ANSWERED.search(thought):
                return self.read(question, evidence, "answered")
            (query,) = worded([thought])
            if evidence.asked(query):
                return self.read(question, evidence, "repeated_query")
            thoughts = [*thoughts, thought]
            (passages,) = self.search([query])
            hop = evidence.add(role="reasoner", query=query, passages=passages, parent=hop.id)
        return self.read(question, evidence, "budget")

    def full(self, evidence: Evidence) -> bool:
        """Whether passages found from now on would not be shown."""
        pool = evidence.passages
        most = self.budget.context_passages
        return len(pool) >= most or len(self.context(pool).ids) < len(pool)

    def read(self, question: str, evidence: Evidence, stop: StopReason) -> Conclusion:
        """The reader's answer from the pool, in the order in which it grew."""
        reply = self.ask_final(
            self.final, context=self.context(evidence.passages), question=question
        )
        return ended(reply.answer, stop, reply.get("error"))


_END = re.compile(r"(?<!\b[A-Z])(?<!\b[A-Z][a-z])[.!?]+[\"'”’)]*(?=\s+[\"'“‘(]?[A-Z])")
_SHORT = re.compile(
    r"\b(Capt|Co|Col|Corp|Gen|Gov|Hon|Inc|Lieut|Lt|Ltd|Maj|Messrs|Mrs|Pres|Prof|Rep|Rev|Sen|Sgt|"
    r"approx|ca|cf|e\.g|i\.e|vol|vs)\.$",
    re.IGNORECASE,
)


def first_sentence(text: object) -> str:
    """Up to the first end mark that white space and a capital follow; a capitalised word of one
    or two letters ("J.", "St.") ends none, nor does a common abbreviation ("Prof.", "Inc.")."""
    line = " ".join(str(text or "").split())
    ends = (match.end() for match in _END.finditer(line) if not _SHORT.search(line, 0, match.end()))
    return line[: next(ends, len(line))]
