"""What ``hopsmith bench retrieval`` measures: engines over the same corpus and questions.

Each build and each engine runs in a process of its own, so that peak memory is its own and no cache
is warm. Speed includes the encoding of queries; the encoder is loaded before the clock starts.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from retrieval.build import build_index
from retrieval.encoder import encoder
from retrieval.errors import QueryError
from retrieval.index import open_index
from retrieval.passage import Passage
from retrieval.segment import content

DEPTHS = (2, 5, 10, 20)
BATCH = 32
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BenchQuestion:
    """A query and the ids of the passages that answer it."""

    query: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Contender:
    """What is measured: an engine over vectors kept in one way."""

    engine: str
    vectors: str = "float16"


CONTENDERS = (
    Contender("exact"),
    Contender("two-stage"),
    Contender("two-stage", "pq"),
    Contender("dense"),
    Contender("bm25"),
)


@dataclass(frozen=True, slots=True)
class BuildRow:
    """One way to keep vectors, built once."""

    vectors: str
    seconds: float
    ratio: float
    """To the bare encoding of the same passages by the same encoder."""
    bytes_per_passage: float
    """Token and pooled vectors on disk."""
    peak_mb: float


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One engine over all questions."""

    engine: str
    vectors: str
    recall: dict[int, float]
    """Mean of |top k ∩ gold| / |gold| by k."""
    recall_5_margin: float
    """Half of recall@5's 95% interval (normal approximation over questions)."""
    all_support_5: float
    """Share of questions with all gold passages among the first five."""
    single_qps: float
    """Queries a second, one call a query."""
    batch_qps: float
    """The same in calls of 32."""
    differ: int
    """Questions whose order of ids differs between single and batched calls."""
    peak_mb: float
    """Resident, memory-mapped pages included."""


@dataclass(frozen=True, slots=True)
class BenchReport:
    """One run of the bench."""

    passages: int
    questions: int
    encoding_seconds: float
    builds: list[BuildRow]
    searches: list[SearchRow]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Plain values; depths become keys such as ``recall@5``."""
        out = asdict(self)
        for row in out["searches"]:
            row.update({f"recall@{k}": v for k, v in row.pop("recall").items()})
        return out


def bench_retrieval(
    corpus: Sequence[Passage],
    questions: Sequence[BenchQuestion],
    *,
    contenders: Sequence[Contender] = CONTENDERS,
    checkpoint: str | None = None,
    say: Callable[[str], None] | None = None,
) -> BenchReport:
    """Build an index for each way to keep vectors, and search it with each engine.

    ``say`` is told of each step. Indexes are made in a temporary folder and removed. Raises
    ``QueryError`` when there is no question, or one without gold.
    """
    if not questions or not all(q.gold for q in questions):
        raise QueryError("the bench needs questions, each with at least one gold passage")
    tell = say or (lambda _: None)
    load = _load_average()
    with tempfile.TemporaryDirectory(prefix="hopsmith-bench-") as folder:
        tell(f"encoding {len(corpus)} passages")
        encoding = _apart(_encode, list(corpus), checkpoint)
        builds = []
        for vectors in dict.fromkeys(c.vectors for c in contenders):
            tell(f"building with {vectors} vectors (encoding alone took {encoding:.0f} s)")
            out = Path(folder) / vectors
            builds.append(_apart(_build, list(corpus), out, vectors, checkpoint, encoding))
        searches = []
        for contender in contenders:
            tell(f"searching with {contender.engine} over {contender.vectors}")
            out = Path(folder) / contender.vectors
            searches.append(_apart(_search, out, contender, list(questions)))
    return BenchReport(
        passages=len(corpus),
        questions=len(questions),
        encoding_seconds=encoding,
        builds=builds,
        searches=searches,
        machine={
            "cores": os.cpu_count(),
            "load_before": load,
            "load_after": _load_average(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "colbert-ai", "bm25s")},
        },
    )


def table(report: BenchReport) -> str:
    """The report as lines for people."""
    lines = [
        f"{report.passages} passages, {report.questions} questions, "
        f"encoding alone {report.encoding_seconds:.1f} s",
        f"{'vectors':<10}{'build s':>9}{'ratio':>7}{'B/passage':>11}{'peak MB':>9}",
    ]
    lines += [
        f"{b.vectors:<10}{b.seconds:>9.1f}{b.ratio:>7.2f}{b.bytes_per_passage:>11.0f}"
        f"{b.peak_mb:>9.0f}"
        for b in report.builds
    ]
    depths = "".join(f"{f'R@{k}':>7}" for k in DEPTHS)
    lines.append(
        f"{'engine':<11}{'vectors':<9}{depths}{'±R@5':>7}{'all@5':>7}{'q/s':>8}"
        f"{f'q/s x{BATCH}':>10}{'differ':>8}{'peak MB':>9}"
    )
    for s in report.searches:
        recalls = "".join(f"{s.recall[k]:>7.3f}" for k in DEPTHS)
        lines.append(
            f"{s.engine:<11}{s.vectors:<9}{recalls}{s.recall_5_margin:>7.3f}"
            f"{s.all_support_5:>7.3f}{s.single_qps:>8.1f}{s.batch_qps:>10.1f}"
            f"{s.differ:>8}{s.peak_mb:>9.0f}"
        )
    return "\n".join(lines)


def _apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def _encode(corpus: list[Passage], checkpoint: str | None) -> float:
    """Seconds to encode the passages, and nothing else."""
    coder = encoder(checkpoint)
    coder.passages(["warm up"])
    started = time.perf_counter()
    texts = [w for ws in coder.windows([content(p) for p in corpus]) for w in ws]
    coder.passages(texts)
    return time.perf_counter() - started


def _build(
    corpus: list[Passage], out: Path, vectors: str, checkpoint: str | None, encoding: float
) -> BuildRow:
    encoder(checkpoint).passages(["warm up"])
    started = time.perf_counter()
    report = build_index(corpus, out, engine="two-stage", checkpoint=checkpoint, vectors=vectors)
    seconds = time.perf_counter() - started
    return BuildRow(
        vectors=vectors,
        seconds=seconds,
        ratio=seconds / encoding,
        bytes_per_passage=report.bytes_per_passage,
        peak_mb=_peak_mb(),
    )


def _search(folder: Path, contender: Contender, questions: list[BenchQuestion]) -> SearchRow:
    retriever = open_index(folder, engine=contender.engine)
    coder = retriever.index.encoder
    depth = max(DEPTHS)
    queries = [q.query for q in questions]
    retriever.search(["warm up"], depth)

    coder.forget_queries()
    started = time.perf_counter()
    single = [retriever.search([query], depth)[0] for query in queries]
    single_seconds = time.perf_counter() - started

    coder.forget_queries()
    started = time.perf_counter()
    batched = [
        found
        for start in range(0, len(queries), BATCH)
        for found in retriever.search(queries[start : start + BATCH], depth)
    ]
    batch_seconds = time.perf_counter() - started

    ids = [[p.id for p in found] for found in single]
    shares = {
        k: np.array(
            [
                len(q.gold.intersection(found[:k])) / len(q.gold)
                for q, found in zip(questions, ids, strict=True)
            ]
        )
        for k in DEPTHS
    }
    spread = float(shares[5].std(ddof=1)) if len(questions) > 1 else 0.0
    return SearchRow(
        engine=contender.engine,
        vectors=contender.vectors,
        recall={k: float(share.mean()) for k, share in shares.items()},
        recall_5_margin=1.96 * spread / len(questions) ** 0.5,
        all_support_5=float((shares[5] == 1).mean()),
        single_qps=len(queries) / single_seconds,
        batch_qps=len(queries) / batch_seconds,
        differ=sum(a != [p.id for p in b] for a, b in zip(ids, batched, strict=True)),
        peak_mb=_peak_mb(),
    )


def _peak_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _load_average() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
