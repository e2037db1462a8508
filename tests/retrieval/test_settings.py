"""Settings of the default engine: what they do, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import Benchmark
from retrieval import IndexFault, build_index, open_index
from retrieval.engines import DEFAULTS, IndexRetriever


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pool": 0}, "pool must be a whole number from 1"),
        ({"pool": 2.5}, "pool must be a whole number from 1"),
        ({"pool": True}, "pool must be a whole number from 1"),
        ({"fusion_constant": -1}, "fusion_constant must be a number from 0"),
        ({"lexical_weight": "much"}, "lexical_weight must be a number from 0"),
        ({"pooled_weight": float("nan")}, "pooled_weight must be a number from 0"),
        ({"lexical_share": 1.5}, "lexical_share must be a number from 0 to 1"),
        ({"maxsim_weight": 0, "lexical_weight": 0}, "above 0"),
        ({"candidates": 5}, "no setting .*candidates.*pool"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    settings: dict[str, Any], said: str, small_index: Path, world: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(IndexFault, match=said):
        open_index(small_index, engine="two-stage", **settings)
    with pytest.raises(IndexFault, match=said):
        build_index(world.corpus, tmp_path / "index", settings=settings)
    assert not (tmp_path / "index").exists()


def test_an_index_of_words_alone_takes_no_setting(world: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(IndexFault, match="bm25 has no setting pool"):
        build_index(world.corpus, tmp_path / "index", engine="bm25", settings={"pool": 9})


def test_a_setting_is_part_of_the_identity_and_none_is_the_default(small_index: Path) -> None:
    plain = open_index(small_index, engine="two-stage", pool=None)
    other = open_index(small_index, engine="two-stage", pool=20, pooled_weight=0.5)
    assert plain.identity["settings"] == DEFAULTS
    assert other.identity["settings"] == {**DEFAULTS, "pool": 20, "pooled_weight": 0.5}


def fused(**settings: float) -> list[int]:
    """Passages 4, 3, 2, 1 by MaxSim; 1, 2 by words; 3, 4 by pooled vectors."""
    retriever = IndexRetriever(None, "two-stage", {"fusion_constant": 0, **settings})  # type: ignore[arg-type]
    numbers, _ = retriever._fused(
        np.array([4, 3, 2, 1]), np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, 2]), np.array([3, 4])
    )
    return [int(n) for n in numbers]


def test_weights_say_whose_order_counts() -> None:
    assert fused(lexical_weight=0) == [4, 3, 2, 1]
    assert fused(maxsim_weight=0) == [1, 2, 4, 3]
    assert fused(maxsim_weight=0, lexical_weight=0, pooled_weight=1) == [3, 4, 2, 1]
    assert fused() == [1, 4, 2, 3]


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_candidates_of_either_kind_may_be_left_out(small_index: Path, share: float) -> None:
    retriever = open_index(small_index, engine="two-stage", lexical_share=share, pool=8)
    for found in retriever.search(["Who founded the company?", "zzz"], 12):
        assert len(found) == 12
