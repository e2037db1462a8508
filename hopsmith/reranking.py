"""``--rerank``: which reranker a retriever is put under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopsmith.errors import HopsmithError
from retrieval import BaseRetriever

NONE, LM, CROSS_ENCODER = "none", "lm", "cross-encoder"
CANDIDATES = {LM: 10, CROSS_ENCODER: 30}
"""Passages that are reranked where it isn't said how many."""


def reranked(retriever: BaseRetriever, asked: str, candidates: int | None = None) -> BaseRetriever:
    """The retriever under ``none``, ``lm`` or ``cross-encoder:NAME`` (a folder or a hub name).
    Raises ``HopsmithError``, ``IndexFault``."""
    kind, _, name = asked.partition(":")
    if kind not in (NONE, LM, CROSS_ENCODER) or bool(name) != (kind == CROSS_ENCODER):
        raise HopsmithError(f"--rerank {asked!r}: there are none, lm and cross-encoder:NAME")
    if kind == NONE:
        return retriever
    return _under(retriever, _reranker(kind, name), candidates or CANDIDATES[kind])


def reranked_as(
    retriever: BaseRetriever, measured: Mapping[str, Any] | None, asked: str | None = None
) -> BaseRetriever:
    """The retriever under the reranker that an export was ``measured`` with; ``asked`` says where
    its cross-encoder lies, when it isn't found by itself. Raises ``IndexFault``."""
    if not measured:
        return retriever
    if measured.get("kind") == LM:
        return _under(retriever, _reranker(LM, ""), int(measured["candidates"]))
    from retrieval.cross_encoder import cross_encoder_of

    name = (asked or "").partition(":")[2] or None
    return _under(retriever, cross_encoder_of(measured, name), int(measured["candidates"]))


def _reranker(kind: str, name: str) -> Any:
    if kind == LM:
        from programs.reranking import LMReranker

        return LMReranker()
    from retrieval.cross_encoder import cross_encoder

    return cross_encoder(name)


def _under(retriever: BaseRetriever, reranker: Any, candidates: int) -> BaseRetriever:
    from retrieval.rerank import Reranked

    return Reranked(retriever, reranker, candidates)
