"""A Qdrant collection (local mode) keeps the contract and ranks as two-stage does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import Benchmark
from retrieval import (
    BaseRetriever,
    IndexFault,
    QueryError,
    build_index,
    open_index,
    open_retriever,
)
from retrieval.conformance import CHECKS, QUERIES, Subject
from retrieval.qdrant import build_qdrant
from retrieval.qdrant.connection import close_clients

pytest.importorskip("qdrant_client", reason="Qdrant's client is an extra")


@pytest.fixture(scope="module")
def folder(world: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A collection of the world's corpus."""
    root = tmp_path_factory.mktemp("qdrant")
    build_qdrant(world.corpus, root / "index", url=str(root / "database"), collection="world")
    yield root / "index"
    close_clients()


@pytest.fixture(scope="module")
def retriever(folder: Path) -> BaseRetriever:
    return open_retriever(folder)


@pytest.fixture(scope="module")
def dated(
    folder: Path, world: Benchmark, tmp_path_factory: pytest.TempPathFactory
) -> tuple[BaseRetriever, BaseRetriever]:
    """Twenty passages with metadata, in Qdrant and here."""
    corpus = [
        replace(
            p,
            metadata={
                "year": 2000 + i,
                "serial": 1234567890123456700 + i,
                "share": i / 4,
                "open": i % 3 == 0,
                "tags": ["a", "b"][: i % 3],
                **({"kind": "odd"} if i % 2 else {}),
            },
        )
        for i, p in enumerate(world.corpus[:20])
    ]
    root = tmp_path_factory.mktemp("dated")
    url = str(folder.parent / "database")
    build_qdrant(corpus, root / "far", url=url, collection="dated")
    build_index(corpus, root / "near", engine="two-stage")
    return open_retriever(root / "far"), open_index(root / "near")


@pytest.mark.parametrize("check", CHECKS)
def test_a_collection_keeps_the_contract(
    retriever: BaseRetriever, world: Benchmark, check: str
) -> None:
    assert not CHECKS[check](Subject(retriever, size=len(world.corpus)))


@pytest.mark.parametrize(("k", "pool"), [(5, None), (5, 10), (12, 1), (40, None), (3, 20)])
def test_it_ranks_as_the_local_two_stage_engine(
    retriever: BaseRetriever, small_index: Path, world: Benchmark, k: int, pool: int | None
) -> None:
    queries = [*QUERIES, *(q.question for q in world.questions["dev"])]
    far = retriever.search(queries, k, pool)
    near = open_index(small_index, engine="two-stage").search(queries, k, pool)
    for a, b in zip(far, near, strict=True):
        assert [p.id for p in a] == [p.id for p in b]
        assert [p.text for p in a] == [p.text for p in b]
        assert [p.score for p in a] == pytest.approx([p.score for p in b], abs=1e-5)


def test_its_corpus_is_the_local_ones(
    retriever: BaseRetriever, small_index: Path, world: Benchmark
) -> None:
    local = open_index(small_index)
    assert retriever.corpus_hash == local.corpus_hash
    assert retriever.identity["encoder"] == local.identity["encoder"]
    assert {p.id for p in retriever.corpus()} == {p.id for p in world.corpus}  # type: ignore[attr-defined]


def test_what_it_cant_do_is_refused_with_the_mend(folder: Path, retriever: BaseRetriever) -> None:
    with pytest.raises(IndexFault, match="can't be searched with exact"):
        open_retriever(folder, engine="exact")
    with pytest.raises(QueryError, match="no passage has the column 'year'"):
        retriever.where("year>=2020")
    with pytest.raises(QueryError, match="orders text"):
        retriever.where("title>=b")


@pytest.mark.parametrize(
    "conditions",
    [
        ("year>=2012",),
        ("year<2010", "kind=odd"),
        ("kind!=odd",),
        ("open=true",),
        ("year=2003",),
        ("year=2003.0",),
        ("serial=1234567890123456705",),
        ("serial!=1234567890123456705",),
        ("share=2",),
        ("tags=b",),
        ("kind=odd", "kind!=odd"),
        ("title!=nothing", "year<=2020"),
    ],
)
def test_its_filters_are_the_local_ones(
    dated: tuple[BaseRetriever, BaseRetriever], conditions: tuple[str, ...]
) -> None:
    far, near = (retriever.where(*conditions) for retriever in dated)
    assert far.corpus_hash == near.corpus_hash
    for a, b in zip(far.search(QUERIES, 20), near.search(QUERIES, 20), strict=True):
        assert [p.id for p in a] == [p.id for p in b]


def test_a_filtered_one_keeps_the_contract(dated: tuple[BaseRetriever, BaseRetriever]) -> None:
    far, near = (retriever.where("year>=2003") for retriever in dated)
    for name in ("batch_equals_single", "large_k", "ranks", "copies", "pickles"):
        assert not CHECKS[name](Subject(far, size=len(near))), name  # type: ignore[arg-type]
    assert far.identity == dated[0].identity
