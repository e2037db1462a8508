"""long_context: as much of the corpus as the LM's window takes, read in one call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import dspy

from programs.budget import HopBudget, Knob, think
from programs.evidence import Conclusion, Evidence, ended
from programs.program import MethodInfo, MultiHopProgram
from programs.scope import WINDOW
from programs.step import ROLE_LMS
from retrieval import Passage, Retriever
from retrieval.contract import MAX_K, ReadsCorpus
from signatures import render, tokens

UNKNOWN_WINDOW = 128_000
"""Tokens, where nobody says what the LM takes."""
AROUND = 600
"""Tokens of a prompt besides passages, question and demonstrations: instructions and fields."""
LABEL = 8
"""Tokens that a passage's number and the space around it take, at most."""


class LongContext(MultiHopProgram):
    """The corpus in the prompt instead of a search strategy (guide, FAQ: "Does a bigger context
    window make multi-hop RAG unnecessary?").

    The question is searched once, for as many passages as a search gives (1,000); where the
    retriever can read its corpus, the passages that the search left out follow in the corpus's
    order. What fits the window is read in one call. ``context_tokens`` is an upper bound beside
    the window, and ``passages`` one of the search.

    Decisions of ours: a corpus that fits whole is shown in its own order, so that every question
    has the same beginning and an LM server reads it once; one that doesn't is shown best first.
    Passages that were searched are one hop; those that follow are hops below it whose source is
    ``corpus``, so that they don't count as queries. Only what was shown is in the evidence.
    """

    info = MethodInfo(
        "long_context",
        "guide: FAQ, a bigger context window; a baseline without a strategy",
        "as much of the corpus as the window takes, one reading",
    )
    knobs = (Knob("context_tokens", (8_000, 32_000, 128_000, 1_000_000)), *think("writer"))
    defaults = {"passages": MAX_K, "context_passages": 100_000, "context_tokens": 1_000_000}

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        room = self.room(question)
        found, whole = self.fitting(question, room)
        for start in range(0, len(found) or 1, self.budget.passages):
            evidence.add(
                role="writer",
                query=question,
                passages=found[start : start + self.budget.passages],
                parent=0 if start else None,
                source="corpus" if start else "search",
            )
        shown = render(
            self.in_order(found) if whole else found,
            max_passages=self.budget.context_passages,
            max_tokens=room,
        )
        reply = self.ask_final(self.final, context=shown, question=question)
        end = ended(reply.answer, "answered", reply.get("error"))
        evidence.update(
            0,
            answer=end.answer,
            status="resolved" if end.answer else "unresolved",
            error=end.error,
            note=f"{len(found):,} passages fit" + (", the whole corpus" if whole else ""),
        )
        return end

    def fitting(self, question: str, room: int) -> tuple[list[Passage], bool]:
        """Passages that fit, by rank, and whether they are the whole corpus. The first is always
        among them, shortened where it must be."""
        k = min(self.budget.passages, MAX_K)
        (ranked,) = self.retriever.search([question], k, pool=max(k, self.budget.retrieve))
        kept: list[Passage] = []
        for passage in chain(ranked, self.others(ranked)):
            room -= tokens(f"{passage.title}\n{passage.text}") + LABEL
            if kept and (room < 0 or len(kept) == self.budget.context_passages):
                return kept, False
            kept.append(passage)
        return kept, isinstance(self.retriever, ReadsCorpus) or len(ranked) < k

    def others(self, ranked: Sequence[Passage]) -> Iterator[Passage]:
        """The corpus less the passages that were ranked, which these follow."""
        seen = {p.id for p in ranked}
        rest = (p for p in self.corpus() if p.id not in seen)
        return (p.ranked(rank, 0.0) for rank, p in enumerate(rest, len(ranked) + 1))

    def in_order(self, found: Sequence[Passage]) -> list[Passage]:
        """The whole corpus in its own order; by id where the retriever doesn't tell it."""
        return list(self.corpus()) or sorted(found, key=lambda p: p.id)

    def corpus(self) -> Iterator[Passage]:
        """The retriever's passages; none where it can't list them."""
        return self.retriever.corpus() if isinstance(self.retriever, ReadsCorpus) else iter(())

    def room(self, question: str) -> int:
        """Tokens of passages that the writer's window leaves beside the rest of the prompt."""
        lm = (dspy.settings.get(ROLE_LMS) or {}).get(self.final.role) or dspy.settings.lm
        told = dspy.settings.get(WINDOW)
        size = (told(lm) if told else getattr(lm, "window", None)) or UNKNOWN_WINDOW
        kwargs = getattr(lm, "kwargs", {})
        reply = kwargs.get("max_tokens") or kwargs.get("max_completion_tokens") or 0
        demos = sum(tokens(json.dumps(_plain(demo), default=str)) for demo in self.final.demos)
        left = size - int(reply) - AROUND - tokens(question) - demos
        return max(LABEL, min(left, self.budget.context_tokens))


def _plain(demo: Any) -> Any:
    return demo.toDict() if hasattr(demo, "toDict") else demo
