"""Reranking: a retriever's first passages in the order of a reranker that reads each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from retrieval.contract import BaseRetriever, ReadsCorpus, identity_of
from retrieval.errors import QueryError
from retrieval.passage import Passage
from retrieval.where import Condition

MOST_CANDIDATES = 200


class Reranker(Protocol):
    """Puts passages in order. Thread-safe, and pickled by what it was made from."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What its order depends on, as JSON values; no path, host or secret."""

    def order(
        self, queries: Sequence[str], found: Sequence[Sequence[Passage]]
    ) -> list[Sequence[int]]:
        """For each query the places of its passages, best first. A query's order depends on its own
        passages alone. Places that are left out follow in the order given."""


class Reranked(BaseRetriever):
    """A retriever whose first ``candidates`` passages a reranker puts in order; later ones follow
    as they were. Scores stay those of the retriever below, so that those of different queries
    compare, as with two-stage retrieval; the rank is what the reranker said."""

    def __init__(self, base: BaseRetriever, reranker: Reranker, candidates: int) -> None:
        if not 2 <= candidates <= MOST_CANDIDATES:
            raise QueryError(
                f"from 2 to {MOST_CANDIDATES} candidates can be reranked, not {candidates}"
            )
        self.base = base
        self.reranker = reranker
        self.candidates = candidates

    def __reduce__(self) -> tuple[Any, ...]:
        return (Reranked, (self.base, self.reranker, self.candidates))

    def __len__(self) -> int:
        return len(self.base)  # type: ignore[arg-type]

    def where(self, *conditions: str | Condition) -> Reranked:
        return Reranked(self.base.where(*conditions), self.reranker, self.candidates)

    def corpus(self) -> Iterator[Passage]:
        if not isinstance(self.base, ReadsCorpus):
            raise QueryError(f"{type(self.base).__name__} can't list its passages")
        return self.base.corpus()

    @property
    def identity(self) -> Mapping[str, Any]:
        rerank = {**self.reranker.identity, "candidates": self.candidates}
        return {**identity_of(self.base), "rerank": rerank}

    @property
    def corpus_hash(self) -> str:
        return self.base.corpus_hash

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        found = self.base.search(queries, max(k, self.candidates), pool)
        heads = [one[: self.candidates] for one in found]
        out = []
        for one, order in zip(found, self.reranker.order(queries, heads), strict=True):
            head = min(len(one), self.candidates)
            best = [one[i] for i in whole(order, head)] + one[head:]
            out.append([p.ranked(rank, p.score) for rank, p in enumerate(best[:k], 1)])
        return out


def whole(order: Iterable[int], n: int) -> list[int]:
    """``order`` as a permutation of ``range(n)``: repeated and impossible places left out, lacking
    ones added at the end."""
    known = dict.fromkeys(i for i in order if 0 <= i < n)
    return [*known, *(i for i in range(n) if i not in known)]
