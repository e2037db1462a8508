"""agentic: retrieve, decide, retrieve again (guide, approach 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import dspy

from programs.answers import stated
from programs.budget import HopBudget, Knob, think
from programs.evidence import HOPS, Conclusion, Evidence, StopReason, ended
from programs.program import MethodInfo, MultiHopProgram
from programs.queries import worded
from programs.step import Step
from retrieval import Passage, Retriever
from signatures import NextSearch

NAMELESS = (
    "the query {query!r} has no name in it that the question or the passages give: put the names "
    "found so far in place of descriptions and references"
)


class Agentic(MultiHopProgram):
    """Iterative agentic retrieval.

    The question is searched first. After each retrieval the controller sees everything found so
    far and either answers or writes the next query; at the cap the writer answers from what there
    is. The context only grows at its end.

    Decisions of ours: the guide's cap of 5 counts the first retrieval, so ``hops`` is 4; that the
    next query uses names already found is checked too, and a query without any goes back once
    with a remark; a query that was searched before ends the loop (``repeated_query``), one
    without a word ends it as if the controller were done; a "done" without an answer, and every
    end but "done", is answered by the writer from the pool. When the context must be cut, the
    first and the latest retrieval stay.
    """

    info = MethodInfo(
        "agentic",
        "guide: approach 2, iterative agentic retrieval",
        "retrieve, answer or name the next query, retrieve again",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8)),
        Knob("hops", (1, 2, 3, 4, 5)),
        *think("controller", "writer"),
    )
    defaults = {"hops": 4, "context_passages": 25, "context_tokens": 4800}

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)
        self.controller = Step(
            NextSearch,
            "controller",
            fallback={"done": False, "answer": None, "next_query": None},
        )

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        return self.pursue(question, evidence, question, self.search([question])[0])

    def pursue(
        self,
        question: str,
        evidence: Evidence,
        query: str,
        passages: Sequence[Passage],
        parent: int | None = None,
        note: str = "",
    ) -> Conclusion:
        """Go on from what was found for a first query, with what ``evidence`` holds already."""
        for place in range(self.budget.hops + 1):
            if place:
                (passages,) = self.search([query])
            hop = evidence.add(
                role="controller",
                query=query,
                passages=passages,
                parent=parent,
                note="" if place else note,
            )
            verdict = self.decide(question, evidence)
            answer = stated(verdict.answer)
            evidence.update(
                hop,
                answer=answer or None if verdict.done else None,
                status="resolved" if verdict.done and answer else "unresolved",
                error=verdict.get("error"),
            )
            if verdict.done and answer:
                return Conclusion(answer)
            proposed = worded([verdict.next_query])
            if verdict.done or not proposed:
                return self.conclude(question, evidence, "answered")
            query, parent = proposed[0], hop.id
            if evidence.asked(query):
                evidence.update(hop, note=f"asked for again: {query}")
                return self.conclude(question, evidence, "repeated_query")
        return self.conclude(question, evidence, "budget")

    def decide(self, question: str, evidence: Evidence) -> dspy.Prediction:
        """The controller's verdict; a next query without a name goes back to it once."""
        inputs = {
            "context": self.context(evidence.passages, protected=protected(evidence)),
            "question": question,
            "queries": [h.refined for h in evidence.hops],
        }
        verdict = self.ask(self.controller, **inputs, remark="")
        proposed = worded([verdict.next_query])
        if verdict.done or not proposed or names_something(proposed[0], question, evidence):
            return verdict
        return self.ask(self.controller, **inputs, remark=NAMELESS.format(query=proposed[0]))

    def conclude(self, question: str, evidence: Evidence, stop: StopReason) -> Conclusion:
        """The writer's answer from the pool; when it gives none, nothing answers the question."""
        shown = self.context(evidence.passages, protected=protected(evidence))
        reply = self.ask_final(self.final, context=shown, question=question)
        cap = f"{HOPS}={self.budget.hops}" if stop == "budget" else ""
        return ended(reply.answer, stop, reply.get("error"), cap)


def protected(evidence: Evidence) -> list[str]:
    """Ids of the passages of the first and the latest retrieval, which a cut spares."""
    return [p.id for hop in (evidence.hops[0], evidence.hops[-1]) for p in hop.passages]


_NAME = re.compile(r"[^\W_]+")
_REFERENCE = re.compile(r"\{\s*answer|#\d", re.IGNORECASE)


def names_something(query: str, question: str, evidence: Evidence) -> bool:
    """Whether a query has a name or number from the question or the passages in it, and no
    placeholder. A word counts as a name where the text that gives it writes it with a capital or
    digits, and not for its place at a sentence's start alone; one of a title, also there. A query
    in a script without capitals passes: nothing marks its names."""
    if _REFERENCE.search(query):
        return False
    if query.upper() == query.lower():
        return True
    given = names(question).union(*(names(p.text) for p in evidence.passages))
    given |= {word for p in evidence.passages for word in title_names(p.title)}
    return any(word.casefold() in given for word in _NAME.findall(query))


def title_names(title: str) -> set[str]:
    """The words of a title that may be a name's, case folded: those with a capital or a digit, all
    of them where it has none; "the", "of" and their like aside, unless it has nothing else."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    words = _NAME.findall(title)
    marked = [word for word in words if word != word.lower() or word[0].isdigit()]
    every = {word.casefold() for word in marked or words}
    return every - set(STOPWORDS_EN_PLUS) or every


def names(text: str) -> set[str]:
    """Words with a capital or a digit that don't open a sentence, case folded."""
    return {
        match.group().casefold()
        for match in _NAME.finditer(text)
        if match.group()[0].isdigit()
        or (match.group() != match.group().lower() and not _opens(text, match.start()))
    }


def _opens(text: str, place: int) -> bool:
    before = text[:place].rstrip(" \n\"'“”‘’(")
    return not before or before[-1] in ".?!:"
