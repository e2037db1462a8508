"""A synthetic corpus of any size that always holds the same world, and questions about that world:
what changes with the size is what else there is to find."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

from benchmarks.errors import BenchmarkError
from benchmarks.question import Benchmark
from benchmarks.synthetic import stream_passages, synthetic
from retrieval import Passage

CORE = 500
"""Passages of the world that is asked about."""
QUESTIONS = 600
LOOKUPS = 300


@cache
def _core(seed: int) -> Benchmark:
    return synthetic(QUESTIONS, CORE, seed)


def growing(size: int, seed: int = 0) -> Iterator[Passage]:
    """``size`` passages: the world that is asked about, then other worlds, whose names may repeat.
    Raises ``BenchmarkError`` when the world doesn't fit."""
    if size < CORE:
        raise BenchmarkError(f"a growing corpus has at least {CORE} passages, got {size}")
    yield from _core(seed).corpus
    yield from stream_passages(size - CORE, seed + 1)


def lookups(limit: int | None = None, seed: int = 0) -> list[tuple[str, str]]:
    """Sub-questions of the world's gold chains, answers filled in, each with the id of the passage
    that answers it; at most ``limit`` (300)."""
    found: dict[str, str] = {}
    for split in _core(seed).questions.values():
        for question in split:
            answers = [hop.answer for hop in question.hops]
            for hop in question.hops:
                asked = hop.filled(answers)
                if asked and hop.passage and "{" not in asked:
                    found.setdefault(asked, hop.passage)
    return list(islice(found.items(), limit or LOOKUPS))
