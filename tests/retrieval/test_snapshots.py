"""A reader sees the index as it was when it was opened, whatever is done to it since."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import Benchmark
from retrieval import (
    BaseRetriever,
    IndexFault,
    Passage,
    add_passages,
    build_index,
    compact,
    delete_passages,
    open_index,
)
from retrieval.engines import ENGINES

NEW = Passage("new", "Quorvan Tulip", "The Quorvan tulip is grown in glasshouses by Aldis Merk.")
GONE = 5
"""Place in the corpus of the passage that is deleted."""
QUERIES = ["Who grows the Quorvan tulip?", "Which river runs through the city?"]


@pytest.fixture(params=[e for e in ENGINES if e != "plaid"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def index(small_index: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    shutil.copytree(small_index, folder)
    return folder


@pytest.fixture(scope="module")
def at_once(world: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world without ``GONE`` and with ``NEW``, built in one go."""
    folder = tmp_path_factory.mktemp("at-once") / "index"
    corpus = [p for i, p in enumerate(world.corpus) if i != GONE]
    build_index([*corpus, NEW], folder)
    return folder


def found(retriever: BaseRetriever, k: int = 8) -> list[list[str]]:
    return [[p.id for p in one] for one in retriever.search(QUERIES, k)]


def add(folder: Path) -> None:
    add_passages(folder, [NEW])


def delete(folder: Path) -> None:
    delete_passages(folder, [open_index(folder, engine="bm25").search(QUERIES, 1)[1][0].id])


CHANGES: dict[str, list[Callable[[Path], object]]] = {
    "add": [add],
    "delete": [delete],
    "all": [add, delete, compact],
}


@pytest.mark.parametrize("changes", CHANGES)
def test_a_reader_opened_before_a_change_sees_the_old_state(
    index: Path, engine: str, changes: str, small_index: Path
) -> None:
    before = open_index(index, engine=engine)
    for change in CHANGES[changes]:
        change(index)
    after = open_index(index, engine=engine)
    assert found(before) == found(open_index(small_index, engine=engine))
    assert found(after) != found(before)
    assert after.corpus_hash != before.corpus_hash


def test_grown_thinned_and_compacted_equals_built_at_once(
    index: Path, engine: str, world: Benchmark, at_once: Path
) -> None:
    add_passages(index, [NEW])
    delete_passages(index, [world.corpus[GONE].id])
    expected = open_index(at_once, engine=engine)
    grown = open_index(index, engine=engine)
    compact(index)
    compacted = open_index(index, engine=engine)
    assert found(grown) == found(compacted) == found(expected)
    assert grown.corpus_hash == compacted.corpus_hash == expected.corpus_hash
    assert len(compacted) == len(expected) == len(world.corpus)


def test_what_was_deleted_can_be_added_again(index: Path, world: Benchmark) -> None:
    before = open_index(index)
    passage = world.corpus[3]
    delete_passages(index, [passage.id])
    add_passages(index, [passage])
    after = open_index(index)
    assert after.corpus_hash == before.corpus_hash
    assert found(after) == found(before)


def test_a_pickle_from_before_a_change_opens_the_index_as_it_is_now(
    index: Path, engine: str
) -> None:
    kept = pickle.dumps(open_index(index, engine=engine))
    add(index)
    assert pickle.loads(kept).search(QUERIES, 1)[0][0].id == "new"


def test_searches_beside_changes_see_one_state_or_the_other(index: Path, engine: str) -> None:
    states = {}
    with ThreadPoolExecutor(2) as pool:
        for change in (add, delete, compact):
            old = open_index(index, engine=engine)
            states[old.corpus_hash] = found(old)
            changing = pool.submit(change, index)
            seen: list[tuple[str, list[list[str]]]] = []
            while not changing.done() or not seen:
                reader = open_index(index, engine=engine)
                seen.append((reader.corpus_hash, found(reader)))
            changing.result()
            new = open_index(index, engine=engine)
            states[new.corpus_hash] = found(new)
            assert all(states[corpus] == ids for corpus, ids in seen)


def test_the_last_passage_cannot_be_deleted(tmp_path: Path) -> None:
    build_index([NEW], tmp_path / "one", engine="bm25")
    with pytest.raises(ValueError, match="empty"):
        delete_passages(tmp_path / "one", ["new"])
    assert len(open_index(tmp_path / "one")) == 1


def test_changing_what_is_no_index_is_refused(tmp_path: Path) -> None:
    for change in (add, compact):
        with pytest.raises(IndexFault, match="hopsmith index"):
            change(tmp_path)
    assert list(tmp_path.iterdir()) == []
