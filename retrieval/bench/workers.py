"""What runs in the bench's processes: the bare encoding, a build, an engine's rounds."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from retrieval.bench.records import DEPTHS, REFERENCE, BuildRow, Contender, Cost
from retrieval.build import build_index
from retrieval.encoder import encoder
from retrieval.index import open_index
from retrieval.manifest import Manifest
from retrieval.passage import Passage
from retrieval.plaid import FOLDER, build_plaid
from retrieval.segment import Segment, content

Search = Callable[[list[str], int], list[list[str]]]


@dataclass(frozen=True, slots=True)
class Round:
    """One engine over some questions, one by one and as a batch."""

    single_seconds: list[float]
    batch_seconds: float
    single: list[list[str]]
    """Ids found, best first."""
    batch: list[list[str]]
    peak_mb: float


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def cost(self) -> Cost:
        return Cost(time.perf_counter() - self._wall, _cpu() - self._cpu)


def end_with_parent() -> None:
    """Let this process end when the bench does, however that ends: a build goes on for an hour."""

    def watch(parent: BaseProcess) -> None:
        parent.join()
        os._exit(1)

    parent = parent_process()
    if parent is not None:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()


def encode(corpus: list[Passage], checkpoint: str | None) -> Cost:
    """The encoding of the passages, and nothing else; the encoder is loaded before."""
    coder = encoder(checkpoint)
    coder.passages(["warm up"])
    clock = _Clock()
    texts = [w for ws in coder.windows([content(p) for p in corpus]) for w in ws]
    coder.passages(texts)
    return clock.cost()


def build(corpus: list[Passage], out: Path, vectors: str, checkpoint: str | None) -> BuildRow:
    """An index of the two-stage engine, which has the parts for all others but PLAID."""
    encoder(checkpoint).passages(["warm up"])
    clock = _Clock()
    report = build_index(
        corpus, out, engine="two-stage", checkpoint=checkpoint, vectors=vectors, overwrite=True
    )
    return BuildRow(
        index=vectors,
        **asdict(clock.cost()),
        bytes_per_passage=report.bytes_per_passage,
        peak_mb=peak_mb(),
    )


def build_words(corpus: list[Passage], out: Path) -> None:
    """An index without vectors, where only BM25 is measured."""
    build_index(corpus, out, engine="bm25", overwrite=True)


def add_plaid(source: Path, out: Path, built: BuildRow) -> BuildRow:
    """An index for PLAID from one that is there, so that nothing is encoded twice: costs are those
    of ``built`` and of what comes on top."""
    clock = _Clock()
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(source, out)
    manifest = Manifest.read(out)
    assert manifest.encoder is not None
    (entry,) = manifest.segments
    dim = int(manifest.encoder["dim"])
    index = open_index(out).index
    segment = Segment(out / "segments" / entry.name, index.codec, dim)
    build_plaid(segment, dim)
    manifest.engine = "plaid"
    manifest.write(out)
    cost = clock.cost()
    size = sum(f.stat().st_size for f in (segment.folder / FOLDER).rglob("*") if f.is_file())
    return BuildRow(
        index="plaid",
        seconds=built.seconds + cost.seconds,
        cpu_seconds=built.cpu_seconds + cost.cpu_seconds,
        bytes_per_passage=size / entry.passages,
        peak_mb=max(built.peak_mb, peak_mb()),
    )


_held: dict[str, Search] = {}


def hold(folder: Path, contender: Contender, checkpoint: str | None) -> None:
    """Open the engine of this process and search once."""
    search = _reference(folder, checkpoint) if contender.engine == REFERENCE else None
    _held["search"] = search or _ours(folder, contender.engine, checkpoint)
    _held["search"](["warm up"], max(DEPTHS))


def measure(queries: Sequence[str]) -> Round:
    """One round by the engine that is held."""
    search, depth = _held["search"], max(DEPTHS)
    single, seconds = [], []
    for query in queries:
        started = time.perf_counter()
        single += search([query], depth)
        seconds.append(time.perf_counter() - started)
    started = time.perf_counter()
    batch = search(list(queries), depth)
    return Round(seconds, time.perf_counter() - started, single, batch, peak_mb())


def _reference(folder: Path, checkpoint: str | None) -> Search:
    from retrieval.bench.reference import Reference

    return Reference(folder, checkpoint).search


def _ours(folder: Path, engine: str, checkpoint: str | None) -> Search:
    """Each call encodes its queries anew."""
    retriever = open_index(folder, engine=engine, checkpoint=checkpoint)

    def search(queries: list[str], k: int) -> list[list[str]]:
        if engine != "bm25":
            retriever.index.encoder.forget_queries()
        return [[p.id for p in found] for found in retriever.search(queries, k)]

    return search


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The most that this process had in memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def load_average() -> float | None:
    """Of the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def machine() -> dict[str, Any]:
    """What numbers depend on."""
    import platform
    from importlib.metadata import version

    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "colbert-ai", "bm25s")},
    }
