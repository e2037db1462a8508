"""PLAID: what colbert-ai would do by itself is kept from happening."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import Benchmark, synthetic
from retrieval import (
    IndexFault,
    Passage,
    add_passages,
    build_index,
    compact,
    compiled,
    delete_passages,
    open_index,
)
from retrieval.plaid import FOLDER, knobs

NEW = Passage("new", "Quorvan Tulip", "The Quorvan tulip is grown in glasshouses by Aldis Merk.")
QUERY = "Who grows the Quorvan tulip?"


@pytest.mark.parametrize(
    ("lacking", "said"),
    [("c++", r"a C\+\+ compiler"), ("ninja", "lacks ninja"), ("Python.h", "Python's headers")],
)
def test_what_is_missing_to_compile_is_said_before_anything_is_encoded(
    lacking: str,
    said: str,
    world: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    which, is_file = shutil.which, Path.is_file
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(
        shutil, "which", lambda name, **k: None if name == lacking else which(name, **k) or "/x"
    )
    monkeypatch.setattr(Path, "is_file", lambda p: p.name != lacking and is_file(p))
    monkeypatch.setattr(
        "retrieval.encoder.Encoder.passages", lambda *_: pytest.fail("nothing is to be encoded")
    )
    with pytest.raises(IndexFault, match=rf"{said}.*apt install.*two-stage"):
        build_index(world.corpus, tmp_path / "index", engine="plaid")
    assert os.listdir(tmp_path) == []


def test_an_index_of_another_engine_has_no_plaid_part(small_index: Path) -> None:
    with pytest.raises(IndexFault, match="--engine plaid"):
        open_index(small_index, engine="plaid")


def test_a_small_corpus_is_scored_exactly(world: Benchmark, tmp_path: Path) -> None:
    build_index(world.corpus, tmp_path / "index", engine="plaid")
    assert not list((tmp_path / "index").rglob(FOLDER))
    found = open_index(tmp_path / "index").search([QUERY, "a museum"], 7)
    expected = open_index(tmp_path / "index", engine="exact").search([QUERY, "a museum"], 7)
    for one, other in zip(found, expected, strict=True):
        assert [p.id for p in one] == [p.id for p in other]
        assert [p.score for p in one] == pytest.approx([p.score for p in other], abs=1e-5)


def test_knobs_follow_k() -> None:
    sizes = {n: knobs(n) for n in (1, 10, 11, 100, 101, 5000)}
    assert list(sizes.values()) == sorted(sizes.values(), key=lambda s: (s[0], -s[1], s[2]))
    assert all(ndocs >= 4 * n for n, (_, _, ndocs) in sizes.items())


@pytest.fixture(scope="module")
def corpus() -> Sequence[Passage]:
    return synthetic(30, 150, seed=3).corpus


@pytest.fixture(scope="module")
def built(corpus: Sequence[Passage], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plaid") / "index"
    build_index(corpus, folder, engine="plaid")
    return folder


@pytest.mark.slow
def test_a_build_leaves_the_process_and_the_machine_out_of_it(
    built: Path, corpus: Sequence[Passage], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    random.seed(7)
    state, method = random.getstate(), multiprocessing.get_start_method(allow_none=True)
    environment = dict(os.environ)
    build_index(corpus, tmp_path / "index", engine="plaid")
    open_index(tmp_path / "index").search([QUERY], 5)
    assert random.getstate() == state
    assert multiprocessing.get_start_method(allow_none=True) == method
    assert dict(os.environ) == environment
    assert not multiprocessing.active_children()
    assert capfd.readouterr().out == ""
    for name in ("metadata.json", "plan.json"):
        (text,) = (p.read_text() for p in (tmp_path / "index").rglob(f"{FOLDER}/{name}"))
        assert "/" not in text
        assert corpus[0].title not in text
        assert json.loads(text)["num_partitions"] > 1


@pytest.mark.slow
def test_it_ranks_nearly_as_exact_maxsim(built: Path, corpus: Sequence[Passage]) -> None:
    queries = [f"What is said of {p.title}?" for p in corpus[:20]]
    found = open_index(built).search(queries, 5, pool=100)
    exact = open_index(built, engine="exact").search(queries, 5)
    assert np.mean([f[0].id == e[0].id for f, e in zip(found, exact, strict=True)]) > 0.8
    for one, other in zip(found, exact, strict=True):
        known = {p.id: p.score for p in other}
        for p in one:
            assert p.score == pytest.approx(known.get(p.id, p.score), abs=0.08)


@pytest.mark.slow
def test_k_may_grow_from_call_to_call(built: Path) -> None:
    retriever = open_index(built)
    assert [len(retriever.search([QUERY], k)[0]) for k in (3, 50, 150, 5)] == [3, 50, 150, 5]


@pytest.mark.slow
def test_it_follows_additions_deletions_and_compaction(
    built: Path, corpus: Sequence[Passage], tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(built, folder)
    add_passages(folder, [NEW])
    assert open_index(folder).search([QUERY], 3)[0][0].id == "new"
    gone = open_index(folder).search(["a museum in a city"], 1)[0][0].id
    delete_passages(folder, [gone])
    for _ in range(2):
        retriever = open_index(folder)
        every = retriever.search([QUERY], 900)[0]
        assert every[0].id == "new"
        assert {p.id for p in every} == {p.id for p in corpus} - {gone} | {"new"}
        compact(folder)
    assert len(list(folder.rglob(f"{FOLDER}/metadata.json"))) == 1


@pytest.mark.slow
def test_a_lock_that_a_killed_compile_left_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.compiled_scorers()
    left = compiled.extensions_folder() / compiled.EXTENSIONS[0] / "lock"
    left.touch()
    monkeypatch.setattr(compiled, "_done", False)
    from colbert.modeling.colbert import ColBERT

    monkeypatch.delattr(ColBERT, "loaded_extensions")
    compiled.compiled_scorers()
    assert not left.exists()


@pytest.mark.slow
def test_a_compiler_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho 'scorer.cpp:1: error: no such luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("HOPSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_done", False)
    from colbert.modeling.colbert import ColBERT

    monkeypatch.delattr(ColBERT, "loaded_extensions", raising=False)
    with pytest.raises(IndexFault, match=r"don't compile \(.*two-stage"):
        compiled.compiled_scorers()
