"""Searching: the search tool of an agent, for one question.

Tools are plain functions that find the question's ``Searching`` in ``dspy.context``: a function
that closed over its program would go on serving the original after an optimizer has copied it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dspy

from programs.errors import ProgramError
from programs.evidence import Evidence, Hop, normal_query
from programs.program import MultiHopProgram
from programs.queries import worded
from programs.step import Step
from retrieval import Passage

SEARCHING = "hopsmith_searching"
"""Key in ``dspy.settings``."""


class Thrown(BaseException):
    """A failure of the retriever on its way through an agent's loop, which would make any
    ``Exception`` an observation for the LM and go on."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Searching:
    """One question's searches by an agent. Each new query is a hop that follows from the last one
    that the agent had seen when it asked; a repeated query is no second hop.

    Thread-safe: sandboxed code may search from several threads.
    """

    def __init__(self, program: MultiHopProgram, evidence: Evidence, role: str, most: int) -> None:
        """``most``: queries in all."""
        self.program = program
        self.evidence = evidence
        self.role = role
        self.most = most
        self.error: str | None = None
        """The last failure of the agent's own step, until a hop takes it."""
        self.failed = False
        """Whether the agent's last step failed."""
        self._thought = ""
        self._parent: int | None = None
        self._found: dict[str, tuple[Passage, ...]] = {}
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Queries that may still be searched."""
        return self.most - len(self._found)

    def said(self, thought: str, error: str | None = None) -> None:
        """Keep what the agent thought: its next hops follow from all that it has seen by now."""
        self._thought = " ".join(str(thought or "").split())
        self.failed = error is not None
        if self.evidence.hops:
            last = self.evidence.hops[-1]
            self._parent = last.id
            if error:
                self.evidence.update(last, error=error)
        elif error:
            self.error = error

    def known(self, query: str) -> tuple[Passage, ...] | None:
        """What an equal query has found before."""
        return next((self._found.get(normal_query(q)) for q in worded([query])), None)

    def find(self, queries: Sequence[str]) -> list[tuple[Passage, ...] | None]:
        """Passages for each query, new ones in one batched search; None for a query that no search
        is left for, or that has no word in it."""
        texts = [next(iter(worded([q])), "") for q in queries]
        with self._lock:
            fresh = [t for t in worded(texts) if self.known(t) is None][: max(0, self.left)]
            try:
                found = self.program.search(fresh)
            except Exception as fault:
                raise Thrown(fault) from fault
            for query, passages in zip(fresh, found, strict=True):
                self._add(query, passages)
            return [self.known(text) if text else None for text in texts]

    def _add(self, query: str, passages: Sequence[Passage]) -> Hop:
        hop = self.evidence.add(
            role=self.role,
            query=query,
            passages=passages,
            parent=self._parent,
            error=self.error,
            note=self._thought,
        )
        self.error = None
        self._found[normal_query(query)] = hop.passages
        return hop


@contextmanager
def searching(
    program: MultiHopProgram, evidence: Evidence, role: str, most: int, **more: Any
) -> Iterator[Searching]:
    """``Searching`` for the block, found by the tools in it; the retriever's own failures come out
    of it as they were. ``more`` are further keys of ``dspy.context``."""
    here = Searching(program, evidence, role, most)
    try:
        with dspy.context(**{SEARCHING: here}, **more):
            yield here
    except Thrown as thrown:
        raise thrown.fault from None


def under_way() -> Searching:
    """The searching of the question under way."""
    here = dspy.settings.get(SEARCHING)
    if not isinstance(here, Searching):
        raise ProgramError("the search tool works inside an agent's question only")
    return here


class Acting(Step):
    """A step by which an agent decides what to do next; its thought becomes the note of the hops
    that it leads to."""

    def __init__(
        self, signature: type[dspy.Signature], role: str, fallback: Mapping[str, Any], thought: str
    ) -> None:
        """``thought`` is the output field to keep."""
        super().__init__(signature, role, fallback)
        self.thought = thought

    def forward(self, *, think: bool = False, **inputs: Any) -> dspy.Prediction:
        reply = super().forward(think=think, **inputs)
        under_way().said(reply.get(self.thought) or "", reply.get("error"))
        return reply
