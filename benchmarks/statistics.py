"""Statistics of a benchmark: those of PAR²-RAG's table 5, and its kinds and hops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.question import Benchmark


@dataclass(frozen=True)
class Statistics:
    """What a benchmark consists of."""

    name: str
    queries: int
    docs: int
    """Passages of the corpus."""
    average_words: float
    """Words (split at white space) of a passage's text; 0 for an empty corpus."""
    splits: dict[str, int]
    kinds: dict[str, int]
    hops: dict[int, int]
    """Questions by number of gold hops."""
    supporting: dict[int, int]
    """Questions by number of gold passages."""
    answerable: int
    faults: int
    """Records left out, or usable with something wrong about them: ``Benchmark.faults``."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, keys as strings."""
        numbers = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return numbers | {"average_words": round(self.average_words, 2)}


def _plain(value: Any) -> Any:
    return {str(k): n for k, n in value.items()} if isinstance(value, dict) else value


def statistics(benchmark: Benchmark) -> Statistics:
    """Counts over all splits; reads the corpus once."""
    asked = [q for questions in benchmark.questions.values() for q in questions]
    docs = words = 0
    for passage in benchmark.corpus:
        docs += 1
        words += len(passage.text.split())
    return Statistics(
        name=benchmark.name,
        queries=len(asked),
        docs=docs,
        average_words=words / docs if docs else 0.0,
        splits={split: len(questions) for split, questions in benchmark.questions.items()},
        kinds=dict(sorted(Counter(q.kind for q in asked).items())),
        hops=_counts(len(q.hops) for q in asked),
        supporting=_counts(len(q.supporting) for q in asked),
        answerable=sum(bool(q.answerable) for q in asked),
        faults=len(benchmark.faults),
    )


def _counts(numbers: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(numbers).items()))
