"""bench eval: what an evaluation costs beyond the searching that it does.

Questions are asked by the oracle, whose own time is left out, and kept on disk as ``eval`` keeps
them. The same searches are then run bare. The two take turns in blocks, each with no query encoded
beforehand, so that a noisy machine is noisy to both; the ratio is the median over blocks.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from benchmarks import Question
from benchmarks.scripted import stand_in
from hopsmith.bench_methods import TimedOracle
from hopsmith.errors import HopsmithError
from hopsmith.serving.bench import GROWTH_WITHIN, resident
from optimize.answers import AnswerStore
from optimize.evaluate import evaluate
from optimize.passages import PassageFile
from optimize.run import PASSAGES, ROWS
from programs import build
from programs.fan_out import WIDTH
from retrieval import Passage, Retriever

BLOCK = 50
"""Questions asked before the same searches are run bare."""
RATIO_WITHIN = 1.5
QUARTERS = 4


class Recording:
    """A retriever that remembers what it was asked."""

    def __init__(self, inner: Retriever) -> None:
        self._inner = inner
        self.asked: list[tuple[list[str], int, int | None]] = []

    def search(
        self, queries: Sequence[str], k: int, pool: int | None = None
    ) -> list[list[Passage]]:
        self.asked.append((list(queries), k, pool))
        return self._inner.search(queries, k, pool)

    def __deepcopy__(self, memo: dict[int, Any]) -> Recording:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass(frozen=True)
class EvalReport:
    """What ``hopsmith bench eval`` says; memory in MiB, memory-mapped files left out where the
    system tells them apart."""

    method: str
    questions: int
    searches: int
    queries: int
    lm_calls: int
    own: tuple[float, ...]
    """Seconds a block, retrieval included and the oracle's left out."""
    bare: tuple[float, ...]
    """Seconds of the same searches alone."""
    memory: tuple[float, ...]
    """After each quarter of the questions."""

    @property
    def ratio(self) -> float:
        return statistics.median(o / b for o, b in zip(self.own, self.bare, strict=True))

    @property
    def growth(self) -> float:
        """Between the first quarter and the last, as a share."""
        return self.memory[-1] / self.memory[0] - 1

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "questions": self.questions,
            "searches": self.searches,
            "queries": self.queries,
            "lm_calls": self.lm_calls,
            "own_ms": round(1000 * sum(self.own) / self.questions, 2),
            "bare_ms": round(1000 * sum(self.bare) / self.questions, 2),
            "ratio": round(self.ratio, 3),
            "memory_mib": [round(m, 1) for m in self.memory],
            "memory_growth": round(self.growth, 4),
            "ratio_within": self.ratio <= RATIO_WITHIN,
            "memory_flat": self.growth <= GROWTH_WITHIN,
        }


def bench_eval(
    method: str,
    questions: Sequence[Question],
    retriever: Any,
    say: Callable[[int, int], None] = lambda done, total: None,
) -> EvalReport:
    """Ask the questions one at a time, each one's calls one after another, and search bare in
    turns; ``say`` is told (done, total). Raises ``HopsmithError`` for a method that searches
    nothing."""
    recording = Recording(retriever)
    program = build(method, recording)
    oracle = TimedOracle(questions, 0.0)
    own, bare, memory = list[float](), list[float](), list[float]()
    searches = queries = calls = 0
    blocks = [questions[at : at + BLOCK] for at in range(0, len(questions), BLOCK)]
    with tempfile.TemporaryDirectory() as folder:
        store = AnswerStore(Path(folder) / ROWS)
        texts = PassageFile(Path(folder) / PASSAGES)
        _forget(retriever)
        retriever.search(["warm up"], 5)
        done = 0
        for block in blocks:
            _forget(retriever)
            with dspy.context(
                lm=stand_in("bench/lm"), adapter=oracle, disable_history=True, **{WIDTH: 1}
            ):
                start = time.perf_counter()
                evaluate(program, block, store=store, keep=texts.keep, workers=1)
                wall = time.perf_counter() - start
            own.append(wall - sum(call.end - call.start for call in oracle.calls))
            _forget(retriever)
            start = time.perf_counter()
            for asked in recording.asked:
                retriever.search(*asked)
            bare.append(time.perf_counter() - start)
            if not recording.asked:
                raise HopsmithError(f"{method} searches nothing: bench a method that does")
            calls += len(oracle.calls)
            searches += len(recording.asked)
            queries += sum(len(asked) for asked, _, _ in recording.asked)
            oracle.calls.clear()
            recording.asked.clear()
            done += len(block)
            say(done, len(questions))
            while len(memory) < QUARTERS * done // len(questions):
                memory.append(_memory())
    return EvalReport(
        method, len(questions), searches, queries, calls, tuple(own), tuple(bare), tuple(memory)
    )


def _forget(retriever: Any) -> None:
    """No query is known encoded."""
    encoder = getattr(getattr(retriever, "index", None), "encoder", None)
    if encoder is not None:
        encoder.forget_queries()


def _memory() -> float:
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    return resident(os.getpid())
