"""What tests of programs share: a retriever good enough for ceilings, without an encoder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from benchmarks import Benchmark, synthetic
from retrieval import BaseRetriever, Passage


class RareWordRetriever(BaseRetriever):
    """Ranks by the rarity of shared words, those of the title twice."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = list(passages)
        self.words = [set(words(p.text)) for p in self.passages]
        self.titles = [set(words(p.title)) for p in self.passages]
        self.seen = Counter(w for own in self.words for w in own)

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return [self._one(set(words(query)), k) for query in queries]

    def _one(self, query: set[str], k: int) -> list[Passage]:
        def weight(shared: set[str]) -> float:
            return sum(
                math.log(1 + len(self.passages) / (1 + self.seen[w])) for w in sorted(shared)
            )

        scored = [
            (weight(query & self.words[i]) + weight(query & self.titles[i]), p)
            for i, p in enumerate(self.passages)
        ]
        best = sorted(scored, key=lambda pair: (-pair[0], pair[1].id))[:k]
        return [p.ranked(n, score) for n, (score, p) in enumerate(best, 1)]

    @property
    def identity(self) -> dict[str, object]:
        return {"engine": "rare words"}

    @property
    def corpus_hash(self) -> str:
        return "rare words"


def words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


@pytest.fixture(scope="session")
def chains() -> Benchmark:
    """Enough questions over enough passages that methods differ."""
    return synthetic(120, 200, seed=5)


@pytest.fixture(scope="session")
def rare_words() -> Callable[[Benchmark], RareWordRetriever]:
    return lambda benchmark: RareWordRetriever(benchmark.corpus)
