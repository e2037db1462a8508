"""Where a command's graph comes from: ``--graph``, the file beside the index, or the facts that a
benchmark brings."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import Benchmark
from hopsmith.session import cached_index
from hopsmith.settings import Settings
from programs import method
from programs.knowledge import Knowledge
from retrieval import Passage, Retriever
from retrieval.contract import ReadsCorpus

if TYPE_CHECKING:
    from programs.knowledge.store import GraphStore


@dataclass(frozen=True)
class GraphPlace:
    """Where to look for a graph."""

    graph: str | None = None
    """A file or a database URL."""
    index: str | Path | None = None
    """Whose file beside it is taken, when ``graph`` is None."""
    benchmark: Benchmark | None = None
    """Whose own facts are taken, when there is no ``index``."""

    @classmethod
    def of(cls, settings: Settings, benchmark: Benchmark | None = None) -> GraphPlace:
        return cls(settings.graph, settings.index, benchmark)

    def open(self, retriever: Retriever) -> Knowledge | None:
        """The graph, held to what is searched; None where there is none. Raises ``GraphError``."""
        from programs.knowledge.store import GraphStore, beside

        if self.graph is not None:
            return opened(GraphStore(self.graph), retriever)
        if self.index is not None:
            place = beside(self.index)
            there = place is not None and place.is_file()
            return opened(GraphStore(str(place)), retriever) if there else None
        if self.benchmark is None or not self.benchmark.triples:
            return None
        return opened(GraphStore(benchmark_graph(self.benchmark)), retriever)

    def for_method(self, name: str, retriever: Retriever) -> Knowledge | None:
        """The graph, for a method that takes one. Where there is none and the method can't do
        without, ``programs.build`` says what to do."""
        return self.open(retriever) if method(name).info.graph else None


def opened(store: GraphStore, retriever: Retriever) -> Knowledge:
    """A graph over the passages that are searched: triples of passages that have changed or gone
    are left out, and said so. Raises ``GraphError`` for a graph of another corpus."""
    from programs.knowledge import GraphError
    from programs.knowledge.store import digest

    noted = store.noted()
    same = noted.get("corpus") == getattr(retriever, "corpus_hash", None)
    if same:
        return Knowledge(store)
    if not isinstance(retriever, ReadsCorpus):
        print(
            "hopsmith: the graph was not made of the corpus as it is now, and what is searched "
            "can't list its passages: triples of passages that have changed are not left out",
            file=sys.stderr,
        )
        return Knowledge(store)
    live = {p.id: digest(p) for p in retriever.corpus()}
    held = store.digests()
    stale = [i for i, known in held.items() if live.get(i) != known]
    if held and len(stale) == len(held):
        raise GraphError(
            f"the graph at {store.name} is of another corpus: hopsmith graph --index DIR makes "
            "one of this index"
        )
    lacking = len(live) - (len(held) - len(stale))
    if stale or lacking:
        print(
            f"hopsmith: {len(stale):,} of the graph's {len(held):,} passages are not what is "
            "searched (changed, gone or filtered out): their triples are left out; "
            f"{lacking:,} passages searched are not in the graph: hopsmith graph reads them",
            file=sys.stderr,
        )
    return Knowledge(store, stale)


def benchmark_graph(benchmark: Benchmark) -> Path:
    """The graph of a benchmark's own facts, beside its cached index; made when it isn't there."""
    from programs.knowledge.given import Given, write_given
    from programs.knowledge.store import SUFFIX, GraphStore

    index = cached_index(benchmark)
    marks = hashlib.sha256(repr(sorted(map(repr, benchmark.triples))).encode()).hexdigest()[:12]
    path = index.with_name(f"{index.name}-{marks}{SUFFIX}")
    if path.is_file():
        return path
    making = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        store = GraphStore(making, create=True)
        store.sync(benchmark.corpus, corpus_hash_of(benchmark.corpus))
        write_given(store, [Given(triple) for triple in benchmark.triples])
        os.replace(making, path)
    finally:
        making.unlink(missing_ok=True)
    return path


def corpus_hash_of(corpus: Iterable[Passage]) -> str:
    from retrieval.corpus import CorpusHash

    total = CorpusHash()
    for passage in corpus:
        total.add(passage)
    return total.hex
