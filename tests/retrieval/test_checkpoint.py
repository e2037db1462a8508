"""Checkpoints are known by their weights, and say so when they aren't there."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path

import pytest

from benchmarks import Benchmark
from retrieval import IndexFault, add_passages, build_index, open_index
from retrieval.checkpoint import checkpoint, checkpoint_of

QUERY = "Who founded the company?"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A checkpoint folder of the user's: the default one, trained with [MASK] augmentation."""
    folder = tmp_path / "own"
    shutil.copytree(checkpoint().folder, folder)
    metadata = json.loads((folder / "artifact.metadata").read_text())
    del metadata["hopsmith_no_augmentation"]
    metadata["query_maxlen"] = 24
    (folder / "artifact.metadata").write_text(json.dumps(metadata))
    return folder


def test_the_default_is_built_once_and_not_augmented() -> None:
    spec = checkpoint()
    assert spec == checkpoint("minilm")
    assert (spec.dim, spec.augment, len(spec.weights)) == (384, False, 64)
    assert "/" not in json.dumps(spec.identity)


def test_a_trained_checkpoint_pads_its_queries_with_masks(own: Path) -> None:
    from retrieval.encoder import encoder

    assert checkpoint(str(own)).augment
    short, other = encoder(str(own)).queries(["river", "a much longer question than that"])
    assert short.shape == other.shape == (24, 384)
    plain, longer = encoder().queries(["river", "a much longer question than that"])
    assert len(plain) < len(longer) < 24


def test_an_index_finds_a_folder_by_its_weights_and_says_when_it_is_gone(
    own: Path, world: Benchmark, tmp_path: Path
) -> None:
    with (own / "model.safetensors").open("r+b") as weights:
        weights.seek(-4, 2)
        weights.write(struct.pack("<f", random.random() * 1e-3))  # unlike any earlier run's
    index = tmp_path / "index"
    build_index(world.corpus[:12], index, checkpoint=str(own))
    assert str(tmp_path) not in (index / "manifest.json").read_text()
    expected = [p.id for p in open_index(index).search([QUERY], 3)[0]]
    moved = tmp_path / "moved"
    own.rename(moved)
    with pytest.raises(IndexFault, match=r"own, which isn't found here: .*--checkpoint"):
        open_index(index)
    found = open_index(index, checkpoint=str(moved))
    assert [p.id for p in found.search([QUERY], 3)[0]] == expected
    assert found.identity["encoder"]["name"] == "own"
    assert [p.id for p in open_index(index).search([QUERY], 3)[0]] == expected
    report = add_passages(index, world.corpus[12:14], checkpoint=str(moved))
    assert report.passages == 14


def test_a_checkpoint_that_differs_is_refused_by_what_differs(own: Path) -> None:
    identity = checkpoint().identity
    with pytest.raises(IndexFault, match=r"query_maxlen, augment differ"):
        checkpoint_of(identity, given=str(own))


def test_an_unknown_name_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(IndexFault, match=r"no folder here and can't be fetched"):
        checkpoint("nobody/nothing")
    with pytest.raises(IndexFault, match=r"no model\.safetensors"):
        checkpoint(str(tmp_path))
