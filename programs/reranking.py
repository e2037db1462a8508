"""LMReranker: the LM orders a retriever's first passages. A ``retrieval.rerank.Reranker``.

It asks in the role ``reranker``, within the question under way: its calls are counted by that
question's meter and written to its ledger. Where the meter has none left, or the reply can't be
used, the passages keep the order that they came in. Optimizers do not see it: it belongs to the
retriever, and its prompt is fixed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dspy

from programs.errors import OutOfBudget
from programs.fan_out import fan_out
from programs.step import Step
from retrieval import Passage
from signatures import RENDERING_VERSION, Rerank, render, signature_hash
from signatures.rendering import CHARS_PER_TOKEN

TOKENS = 200
"""Of each passage, at most, that the LM reads."""
log = logging.getLogger("hopsmith.reranker")


class LMReranker:
    """One call a query. ``tokens`` bounds what is shown of each passage."""

    def __init__(self, tokens: int = TOKENS) -> None:
        self.tokens = tokens
        self._step = Step(Rerank, role="reranker", fallback={"order": []})

    def __reduce__(self) -> tuple[Any, ...]:
        return (LMReranker, (self.tokens,))

    @property
    def identity(self) -> Mapping[str, Any]:
        return {
            "kind": "lm",
            "signature": signature_hash(Rerank),
            "rendering": RENDERING_VERSION,
            "tokens": self.tokens,
        }

    def order(
        self, queries: Sequence[str], found: Sequence[Sequence[Passage]]
    ) -> list[Sequence[int]]:
        return fan_out([partial(self._one, q, p) for q, p in zip(queries, found, strict=True)])

    def _one(self, query: str, passages: Sequence[Passage]) -> Sequence[int]:
        if len(passages) < 2:
            return range(len(passages))
        room = int(self.tokens * CHARS_PER_TOKEN)
        shown = [replace(p, text=p.text[: max(1, room - len(p.title))]) for p in passages]
        context = render(shown, max_passages=len(shown), max_tokens=len(shown) * (self.tokens + 8))
        try:
            with dspy.context(trace=None):
                reply = self._step(context=context, query=query)
        except OutOfBudget:
            return range(len(passages))
        if reply.get("error"):
            log.warning("passages keep their order: %s", reply.error)
        return [number - 1 for number in reply.order or [] if isinstance(number, int)]
