"""Every engine is held to the contract in ``retrieval/contract.py``."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, synthetic
from retrieval import (
    BaseRetriever,
    IndexFault,
    Passage,
    QueryError,
    Retriever,
    build_index,
    open_index,
)
from retrieval.conformance import CHECKS, QUERIES, Subject
from retrieval.engines import ENGINES

APPROXIMATE = ("two-stage", "plaid")
"""A filter may bring passages that weren't among the candidates without it."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(e, marks=pytest.mark.slow) if e == "plaid" else e for e in ENGINES],
)
def engine(request: pytest.FixtureRequest) -> str:
    """PLAID compiles C++."""
    return str(request.param)


@pytest.fixture(scope="module")
def corpus(engine: str, world: Benchmark) -> Sequence[Passage]:
    """Enough passages for PLAID to cluster."""
    return synthetic(30, 150, seed=3).corpus if engine == "plaid" else world.corpus


@pytest.fixture(scope="module")
def folder(
    engine: str, corpus: Sequence[Passage], small_index: Path, tmp_path_factory: Any
) -> Path:
    """An index of the corpus that the engine can search."""
    if engine != "plaid":
        return small_index
    made: Path = tmp_path_factory.mktemp("plaid") / "index"
    build_index(corpus, made, engine=engine)
    return made


@pytest.fixture(scope="module")
def retriever(engine: str, folder: Path) -> BaseRetriever:
    return open_index(folder, engine=engine)


def ids(results: list[list[Any]]) -> list[list[str]]:
    return [[p.id for p in found] for found in results]


@pytest.mark.parametrize("check", CHECKS)
def test_every_engine_keeps_the_contract(
    retriever: BaseRetriever, corpus: Sequence[Passage], check: str
) -> None:
    note = CHECKS[check](Subject(retriever, size=len(corpus)))
    assert not note


def test_it_is_a_retriever_with_an_identity(retriever: BaseRetriever, engine: str) -> None:
    assert isinstance(retriever, Retriever)
    assert retriever.identity["engine"] == engine


def test_a_fresh_one_agrees_whatever_it_was_asked_before(
    retriever: BaseRetriever, engine: str, folder: Path
) -> None:
    other = open_index(folder, engine=engine)
    forwards = [ids(retriever.search([q], 5)) for q in QUERIES]
    backwards = [ids(other.search([q], 5)) for q in reversed(QUERIES)]
    assert forwards == backwards[::-1]


def test_reload_equals_build_and_a_moved_folder_loads(
    retriever: BaseRetriever, engine: str, folder: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    again = open_index(moved, engine=engine)
    assert ids(again.search(QUERIES, 5)) == ids(retriever.search(QUERIES, 5))
    assert again.corpus_hash == retriever.corpus_hash


def test_a_wrong_manifest_is_refused(engine: str, folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    manifest = broken / "manifest.json"
    for text, mend in (
        ("{", "can't be read"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1}', "can't be read"),
    ):
        manifest.write_text(text)
        with pytest.raises(IndexFault, match=mend):
            open_index(broken, engine=engine)
    manifest.unlink()
    with pytest.raises(IndexFault, match="hopsmith index"):
        open_index(broken, engine=engine)


def test_a_corpus_of_one_passage_is_searched(engine: str, world: Benchmark, tmp_path: Path) -> None:
    build_index(world.corpus[:1], tmp_path / "one", engine=engine)
    (found,) = open_index(tmp_path / "one").search(["anything at all"], 5)
    assert [p.id for p in found] == [world.corpus[0].id]


def with_columns(corpus: Sequence[Passage]) -> list[Passage]:
    """With a year to each passage and a source to every other one."""
    return [
        replace(p, metadata={"year": 2000 + i % 25, **({"source": f"{i % 4}.md"} if i % 2 else {})})
        for i, p in enumerate(corpus)
    ]


@pytest.fixture(scope="module")
def dated_index(world: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dated") / "index"
    build_index(with_columns(world.corpus), folder)
    return folder


@pytest.fixture(scope="module")
def dated(
    engine: str, corpus: Sequence[Passage], dated_index: Path, tmp_path_factory: Any
) -> BaseRetriever:
    if engine == "plaid":
        dated_index = tmp_path_factory.mktemp("dated-plaid") / "index"
        build_index(with_columns(corpus), dated_index, engine=engine)
    return open_index(dated_index, engine=engine)


def test_a_filter_gives_k_passages_in_the_order_that_they_have_without_it(
    dated: BaseRetriever, engine: str, corpus: Sequence[Passage]
) -> None:
    newer = dated.where("year>=2012")
    everything = dated.search(QUERIES, len(corpus))
    matching = [[p for p in found if p.metadata["year"] >= 2012] for found in everything]
    for found, expected in zip(newer.search(QUERIES, 6), matching, strict=True):
        assert all(p.metadata["year"] >= 2012 for p in found)
        assert [p.rank for p in found] == [1, 2, 3, 4, 5, 6]
        if engine not in APPROXIMATE:
            assert [p.id for p in found] == [p.id for p in expected[:6]]
    every = newer.search(QUERIES, 900)
    assert [{p.id for p in one} for one in every] == [{p.id for p in one} for one in matching]


def test_filters_join_and_may_leave_fewer_than_k_or_nothing(dated: BaseRetriever) -> None:
    both = dated.where("year>=2010", "source=1.md")
    chained = dated.where("source=1.md").where("year>=2010")
    assert ids(both.search(QUERIES, 50)) == ids(chained.search(QUERIES, 50))
    assert both.corpus_hash == chained.corpus_hash != dated.corpus_hash
    assert both.identity == dated.identity
    assert dated.where("year>3000").search(QUERIES, 5) == [[] for _ in QUERIES]


def test_a_filtered_retriever_keeps_the_contract(dated: BaseRetriever) -> None:
    narrow = dated.where("year<2015")
    expected = ids(narrow.search(QUERIES, 5))
    assert copy.deepcopy(narrow) is narrow
    again = pickle.loads(pickle.dumps(narrow))
    assert ids(again.search(QUERIES, 5)) == expected
    assert again.corpus_hash == narrow.corpus_hash
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda q: narrow.search([q], 5)[0], QUERIES * 3))
    assert ids(found) == expected * 3
    assert ids(dated.search(QUERIES, 5)) == ids(open_index_again(dated).search(QUERIES, 5))


def open_index_again(retriever: BaseRetriever) -> BaseRetriever:
    again: BaseRetriever = pickle.loads(pickle.dumps(retriever))
    return again


@pytest.mark.parametrize(
    ("condition", "mend"), [("yaer=2020", "there are id, source, title, year"), ("year", "not COL")]
)
def test_a_filter_that_means_nothing_is_refused(
    dated: BaseRetriever, condition: str, mend: str
) -> None:
    with pytest.raises(QueryError, match=mend):
        dated.where(condition)
