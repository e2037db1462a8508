"""GoldenRetriever: a question's gold passages in place of a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.question import Question
from retrieval import BaseRetriever, Passage
from retrieval.corpus import CorpusHash


class GoldenRetriever(BaseRetriever):
    """Answers a benchmark's question with its supporting passages, in the order of the gold chain.

    ``corpus`` is where the passages are found; gold passages that it lacks stay out. Raises
    ``BenchmarkError`` for a query that is none of the questions.
    """

    def __init__(self, questions: Sequence[Question], corpus: Iterable[Passage]) -> None:
        wanted = {i for q in questions for i in q.supporting}
        self._passages: Mapping[str, Passage] = {p.id: p for p in corpus if p.id in wanted}
        self._gold: Mapping[str, tuple[str, ...]] = {q.question: q.supporting for q in questions}
        if wanted and not self._passages:
            raise BenchmarkError(
                "none of the questions' gold passages is in the corpus: give the one they were "
                "written for (--corpus, or --index)"
            )

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [self._one(query, k) for query in queries]

    def _one(self, query: str, k: int) -> list[Passage]:
        if query not in self._gold:
            raise BenchmarkError(
                f"no gold passages are known for {query!r}: golden reads a benchmark's questions "
                "only, and asks nothing else"
            )
        found = [self._passages[i] for i in self._gold[query] if i in self._passages]
        return [p.ranked(rank, 1.0) for rank, p in enumerate(found[:k], 1)]

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"engine": "golden"}

    @property
    def corpus_hash(self) -> str:
        total = CorpusHash()
        for passage in self._passages.values():
            total.add(passage)
        return total.hex
