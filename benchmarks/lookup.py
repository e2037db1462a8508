"""LookupRetriever: a perfect search without an index, for benches of what methods add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.needs import need_of
from benchmarks.question import Question
from retrieval import BaseRetriever, Passage
from retrieval.corpus import CorpusHash


class LookupRetriever(BaseRetriever):
    """Finds the gold passage that a sub-question of one known question asks for, and what comes
    first in the corpus beside it; the question itself, and anything else, finds the latter only.
    """

    def __init__(self, question: Question, corpus: Sequence[Passage]) -> None:
        self._question = question
        self._gold: Mapping[str, Passage] = {p.id: p for p in corpus if p.id in question.supporting}
        self._others = [p for p in corpus if p.id not in self._gold]
        self._hash = CorpusHash()
        for passage in corpus:
            self._hash.add(passage)

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [self._one(query, k) for query in queries]

    def _one(self, query: str, k: int) -> list[Passage]:
        need = None if query == self._question.question else need_of(self._question, query)
        wanted = [self._question.hops[n].passage for n in need.targets] if need else []
        gold = [self._gold[i] for i in dict.fromkeys(wanted) if i in self._gold]
        return [p.ranked(n, 1 / n) for n, p in enumerate([*gold, *self._others][:k], 1)]

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"engine": "lookup"}

    @property
    def corpus_hash(self) -> str:
        return self._hash.hex
