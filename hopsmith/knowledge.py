"""Where a command's graph comes from: ``--graph``, the file beside the index, or the facts that a
benchmark brings."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import Benchmark
from hopsmith.session import cached_index
from programs import MethodInfo
from programs.knowledge import Knowledge
from retrieval import Passage, Retriever
from retrieval.contract import ReadsCorpus
from retrieval.wire import is_url

if TYPE_CHECKING:
    from programs.knowledge.store import GraphStore


def knowledge_for(
    method: MethodInfo,
    retriever: Retriever,
    *,
    graph: str | None = None,
    index: str | Path | None = None,
    benchmark: Benchmark | None = None,
) -> Knowledge | None:
    """The graph that a method is to walk, held to the index that is searched; None where it takes
    none, or none is there (and ``programs.build`` says what to do). Raises ``GraphError``."""
    if not method.graph:
        return None
    from programs.knowledge.store import GraphStore, beside

    if graph is not None:
        return opened(GraphStore(graph), retriever)
    if index is not None:
        path = None if is_url(index) else beside(Path(index))
        return opened(GraphStore(path), retriever) if path and path.is_file() else None
    if benchmark is None or not benchmark.triples:
        return None
    return opened(GraphStore(benchmark_graph(benchmark)), retriever)


def opened(store: GraphStore, retriever: Retriever) -> Knowledge:
    """A graph over the passages that are searched: triples of passages that have changed or gone
    are left out, and said so. Raises ``GraphError`` for a graph of another corpus."""
    from programs.knowledge import GraphError
    from programs.knowledge.store import digest

    noted = store.noted()
    same = noted.get("corpus") == getattr(retriever, "corpus_hash", None)
    if same or not isinstance(retriever, ReadsCorpus):
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
