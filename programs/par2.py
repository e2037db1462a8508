"""PAR²-RAG: coverage first, commitment late (Li et al., "Planned Active Retrieval and Reasoning for
Multi-Hop Question Answering"), and its two modules as methods of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from programs.answers import stated
from programs.budget import HopBudget, Knob, think
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence, StopReason, ended, normal_query
from programs.program import MethodInfo, MultiHopProgram
from programs.queries import worded
from programs.step import Step
from retrieval import Passage, Retriever
from signatures import Condense, Context, PlanCoverage, Sufficiency, render

PAPER = "PAR²-RAG"
WIDE = {"context_passages": 40, "context_tokens": 8000}
"""An anchor of five queries and five follow-ups, at k = 5, is up to 50 passages."""
BREADTH = Knob("sub_queries", (3, 5, 7, 10))
ROUNDS = Knob("hops", (3, 5, 7, 10))
SIZES = (Knob("passages", (3, 5, 8)), Knob("context_passages", (15, 25, 40)))


class ActiveRetrieval(MultiHopProgram):
    """Common ground of the three: the writer (the base's ``final`` step), and summaries.

    ``summary`` is the paper's retrieval summary, off as in A.4. Its prompt isn't given in the
    text; ours notes per passage what helps, and the notes stand in the context in place of the
    passages, those of no use left out.
    """

    defaults = WIDE

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, summary: bool = False
    ) -> None:
        if not isinstance(summary, bool):
            raise ProgramError(f"summary is true or false, got {summary!r}")
        super().__init__(retriever, budget, summary=summary)
        self.summary = summary
        if self.summary:
            self.searcher = Step(Condense, "searcher", fallback={"notes": []})

    def condensed(
        self, question: str, queries: Sequence[str], found: Sequence[Sequence[Passage]]
    ) -> list[list[Passage]]:
        """What goes into the context for each query: its passages, or the notes on them. Where
        the searcher doesn't write one note for each passage, the passages stay as they are."""
        if not self.summary:
            return [list(passages) for passages in found]
        shown = [self.context(passages) for passages in found]
        inputs = [
            {"context": context, "query": query, "question": question}
            for context, query in zip(shown, queries, strict=True)
        ]
        replies = self.ask_each(self.searcher, inputs)
        return [
            noted(passages, context, reply.notes)
            for passages, context, reply in zip(found, shown, replies, strict=True)
        ]


class CoverageAnchor(ActiveRetrieval):
    """Stage 1 alone: plan complementary sub-queries, retrieve for all, answer once (Section 3.1).

    The planner sees the question only. All sub-queries are one batched search (retrieve → rerank →
    top k); their passages without duplicates, by best rank within a query and then by score, are
    C_anchor.

    Decisions of ours: sub-queries without a word, repeated ones and those beyond the breadth m are
    dropped; when none is left the question itself is searched.
    """

    info = MethodInfo(
        "coverage_anchor",
        f"{PAPER}, Section 3.1, Stage 1",
        "plan complementary searches, retrieve all at once, answer",
    )
    knobs = (*SIZES, BREADTH, *think("planner", "writer"))

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, summary: bool = False
    ) -> None:
        super().__init__(retriever, budget, summary)
        self.planner = Step(PlanCoverage, "planner", fallback={"sub_queries": []})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        anchor = self.anchor(question, evidence)
        reply = self.ask_final(self.final, context=self.context(anchor), question=question)
        return ended(reply.answer, "answered", reply.get("error"))

    def anchor(self, question: str, evidence: Evidence) -> list[Passage]:
        """C_anchor (Algorithm 1, lines 3 to 8)."""
        plan = self.ask(self.planner, question=question, limit=self.budget.sub_queries)
        queries = worded(plan.sub_queries)[: self.budget.sub_queries] or [question]
        found = self.search(queries)
        for query, passages in zip(queries, found, strict=True):
            evidence.add(role="planner", query=query, passages=passages, error=plan.get("error"))
        return merged(self.condensed(question, queries, found))


class IterativeChain(ActiveRetrieval):
    """Stage 2 alone: respond, check sufficiency, look up what is missing (Section 3.1, Eq. 1).

    C_1 is the question's own retrieval. At each of at most H (``hops``) rounds the writer gives
    the step response r_t from C_t, and the Evidence Sufficiency Controller maps (q, r_t, C_t) to
    STOP, or to CONTINUE with the query formulator's q*_{t+1}, whose passages join C_{t+1}.

    Decisions of ours: after round H the writer answers once more (Algorithm 1 as printed would
    retrieve evidence that nobody reads); controller and formulator are one call, as Eq. (1) has
    it, and m_t, which the text doesn't explain, is what the controller finds missing; a follow-up
    that was searched before, finds nothing new, or is empty ends the chain with the latest
    response, as does a controller that fails. The context only grows at its end; when it must be
    cut, the passages of C_1 and of the latest follow-up stay, and a third of the room is kept free
    of C_1, so that what was asked for last can be read.
    """

    info = MethodInfo(
        "iterative_chain",
        f"{PAPER}, Section 3.1, Stage 2",
        "answer, check sufficiency, look up what is missing, at most H rounds",
    )
    knobs = (*SIZES, ROUNDS, *think("writer", "sufficiency"))

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, summary: bool = False
    ) -> None:
        super().__init__(retriever, budget, summary)
        self.controller = Step(
            Sufficiency,
            "sufficiency",
            fallback={"missing": "", "sufficient": True, "follow_up": None},
        )

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        found = self.search([question])
        evidence.add(role="writer", query=question, passages=found[0])
        return self.refine(question, evidence, merged(self.condensed(question, [question], found)))

    def refine(self, question: str, evidence: Evidence, anchor: Sequence[Passage]) -> Conclusion:
        """From C_1 to the answer (Algorithm 1, lines 9 to 20)."""
        kept = self.protected(anchor)
        context, latest = list(anchor), list[str]()
        parent = evidence.hops[-1].id
        for _ in range(self.budget.hops):
            shown = self.context(context, protected=[*kept, *latest])
            response = self.ask(self.final, context=shown, question=question)
            verdict = self.ask(
                self.controller, context=shown, question=question, response=response.answer
            )
            query = " ".join(str(verdict.follow_up or "").split())
            stop = stopping(verdict.sufficient, query, verdict.get("error"), evidence)
            step = evidence.add(
                role="writer",
                query=question,
                parent=parent,
                answer=stated(response.answer) or None,
                status="resolved" if stated(response.answer) else "unresolved",
                error=response.get("error") or verdict.get("error"),
                note=said(stop, verdict.missing, query),
            )
            if stop is not None:
                return ended(response.answer, stop, response.get("error"))
            found = self.search([query])
            new = evidence.new_passages(found[0])
            parent = evidence.add(
                role="sufficiency", query=query, passages=found[0], parent=step.id
            ).id
            if not new:
                return ended(response.answer, "no_new_passages", response.get("error"))
            fresh = self.condensed(question, [query], [new])
            context, latest = merged([context, *fresh], ranked=False), [p.id for p in fresh[0]]
        shown = self.context(context, protected=[*kept, *latest])
        reply = self.ask_final(self.final, context=shown, question=question)
        if reply.get("error") and evidence.best_answer():
            return Conclusion(evidence.best_answer(), "budget")
        return ended(reply.answer, "budget", reply.get("error"))

    def protected(self, anchor: Sequence[Passage]) -> tuple[str, ...]:
        """Ids of the C_1 passages that a cut spares: the first ones that fill two thirds of the
        context, and leave place for the k passages of a follow-up."""
        budget = self.budget
        room = max(1, budget.context_passages - budget.passages)
        shown = render(anchor, max_passages=room, max_tokens=max(1, budget.context_tokens * 2 // 3))
        return shown.ids


class Par2(CoverageAnchor, IterativeChain):
    """PAR²-RAG, Algorithm 1: Stage 1 builds C_anchor, Stage 2 refines from C_1 = C_anchor.

    Planner, writer and controller are the roles ``planner``, ``writer`` and ``sufficiency``, each
    of which may have its own LM.
    """

    info = MethodInfo(
        "par2",
        f"{PAPER}, Algorithm 1",
        "anchor broad evidence first, then refine it round by round",
    )
    knobs = (*SIZES, BREADTH, ROUNDS, *think("planner", "writer", "sufficiency"))

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        anchor = self.anchor(question, evidence)
        return self.refine(question, evidence, anchor)


def merged(found: Sequence[Sequence[Passage]], *, ranked: bool = True) -> list[Passage]:
    """Passages of several searches without duplicates: by best rank within a search, then score,
    then first seen; or, not ``ranked``, as first seen."""
    pool = Evidence()
    for passages in found:
        pool.add(role="", query="", passages=passages)
    return list(pool.ranked() if ranked else pool.passages)


def noted(passages: Sequence[Passage], shown: Context, notes: object) -> list[Passage]:
    """Passages with their notes as text, those without one left out."""
    if not isinstance(notes, list) or len(notes) != len(shown.ids):
        return list(passages)
    by_id = {i: " ".join(str(note).split()) for i, note in zip(shown.ids, notes, strict=True)}
    return [replace(p, text=by_id[p.id]) for p in passages if by_id.get(p.id)]


def stopping(
    sufficient: bool, query: str, error: str | None, evidence: Evidence
) -> StopReason | None:
    """Why the chain ends before a further search; None when it goes on."""
    if error:
        return "answered"
    if sufficient:
        return "sufficient"
    if not worded([query]):
        return "answered"
    asked = {normal_query(q) for q in evidence.queries}
    return "repeated_query" if normal_query(query) in asked else None


def said(stop: StopReason | None, missing: str, query: str) -> str:
    """The controller's verdict in words."""
    if stop == "sufficient":
        return "sufficient"
    if stop == "repeated_query":
        return f"asked for again: {query}"
    lacking = " ".join(str(missing or "").split())
    return f"missing: {lacking}" if lacking else "no follow-up" if stop else "continue"
