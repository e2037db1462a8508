"""Many equal scores: the cut is by id, wherever it falls."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval import Passage, build_index, open_index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hundred passages of one text, added in the reverse order of their ids."""
    folder = tmp_path_factory.mktemp("ties") / "index"
    same = [Passage(f"q{i:03}", "Same", "identical words here") for i in range(300, 0, -1)]
    build_index(same, folder)
    return folder


@pytest.mark.parametrize("engine", ["bm25", "dense", "exact"])
@pytest.mark.parametrize("k", [1, 3, 200, 300])
def test_equal_scores_are_ordered_and_cut_by_id(index: Path, engine: str, k: int) -> None:
    found = open_index(index, engine=engine).search(["identical words"], k)[0]
    assert [p.id for p in found] == [f"q{i:03}" for i in range(1, k + 1)]
