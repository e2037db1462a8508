"""A checkpoint in training is colbert-ai's: its vectors, its loss, its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from retrieval import IndexFault
from retrieval.checkpoint import CheckpointSpec, checkpoint
from retrieval.encoder import Encoder
from retrieval.late_interaction import LateInteraction, maxsim, mixed

QUERIES = ["Where is the river Tamsin?", "Who founded it, and when?", "A prize"]
PASSAGES = [
    "Tamsin. The Tamsin is a river in Norvale, known for its salmon.",
    "Ada Quill. Ada Quill founded Norvale Systems.",
    "Paris.",
    "The prize of the city is given once in four years, to a mayor; or to no one at all.",
    "Salmon swim upstream.",
    "Quill! ... !",
]


@pytest.fixture(scope="module")
def spec(
    tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Callable[..., Path]
) -> CheckpointSpec:
    return checkpoint(str(tiny_checkpoint(tmp_path_factory.mktemp("tiny") / "tiny")))


@pytest.mark.parametrize("frozen", [0, 1, 2])
@pytest.mark.parametrize("augment", [False, True])
def test_its_vectors_are_the_encoders(
    tmp_path: Path, tiny_checkpoint: Callable[..., Path], frozen: int, augment: bool
) -> None:
    spec = checkpoint(str(tiny_checkpoint(tmp_path / "tiny", augment=augment)))
    assert spec.augment is augment
    model, encoder = LateInteraction(spec, frozen=frozen), Encoder(spec)
    for _ in range(2):  # the second time from the cache of frozen layers
        for mine, theirs in (
            (model.queries(QUERIES), encoder.queries(QUERIES)),
            (model.passages(PASSAGES), encoder.passages(PASSAGES)),
        ):
            assert [v.shape for v in mine] == [v.shape for v in theirs]
            for own, other in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(own, other.astype(np.float32), atol=5e-3)


@pytest.mark.parametrize("negatives", [1, 2])
def test_its_loss_and_gradients_are_colbert_ais(spec: CheckpointSpec, negatives: int) -> None:
    import torch

    model = LateInteraction(spec, negatives=negatives)
    nway = negatives + 1
    queries = QUERIES[: len(PASSAGES) // nway]
    passages = [PASSAGES[i * nway : (i + 1) * nway] for i in range(len(queries))]
    vectors = model._query(queries)
    docs, kept = model._docs(PASSAGES)
    theirs = model.model
    scores = theirs.score(vectors.repeat_interleave(nway, 0).contiguous(), docs, kept)
    labels = torch.zeros(len(queries), dtype=torch.long)
    expected = torch.nn.functional.cross_entropy(scores.view(-1, nway), labels)
    expected = expected + theirs.compute_ib_loss(vectors, docs, kept)
    found = model.loss(queries, passages)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    for mine, other in zip(
        torch.autograd.grad(found, model.parameters()),
        torch.autograd.grad(expected, model.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-2)


def test_frozen_layers_get_no_gradient_and_the_others_do(spec: CheckpointSpec) -> None:
    model = LateInteraction(spec, frozen=1)
    model.loss(QUERIES[:2], [PASSAGES[:2], PASSAGES[2:4]]).backward()
    trained = {n for n, p in model.model.model.named_parameters() if p.grad is not None}
    assert trained == set(model.weights())
    assert all("encoder.layer.1." in name or name == "linear.weight" for name in trained)


def test_more_frozen_layers_than_there_are_is_refused(spec: CheckpointSpec) -> None:
    with pytest.raises(IndexFault, match="has 2 layers; lower --frozen"):
        LateInteraction(spec, frozen=3)


def test_a_saved_checkpoint_encodes_as_the_model_did(spec: CheckpointSpec, tmp_path: Path) -> None:
    model = LateInteraction(spec, frozen=1)
    weights = model.weights()
    model.put({name: value + 0.01 for name, value in weights.items()})
    model.save(tmp_path / "out", {"hopsmith_trained_from": spec.name})
    written = checkpoint(str(tmp_path / "out"))
    assert (written.dim, written.augment, written.doc_maxlen) == (24, False, 64)
    assert written.weights != spec.weights
    assert str(spec.folder) not in (tmp_path / "out" / "artifact.metadata").read_text()
    assert str(spec.folder) not in (tmp_path / "out" / "config.json").read_text()
    for own, other in zip(
        model.passages(PASSAGES), Encoder(written).passages(PASSAGES), strict=True
    ):
        np.testing.assert_allclose(own, other.astype(np.float32), atol=5e-3)


def test_a_new_projection_keeps_what_it_can_of_the_products(
    spec: CheckpointSpec, tmp_path: Path
) -> None:
    model = LateInteraction(spec)
    before = maxsim(model.queries(QUERIES), model.passages(PASSAGES))
    model.project(16, PASSAGES)
    assert model.passages(PASSAGES)[0].shape[1] == model.dim == 16
    after = maxsim(model.queries(QUERIES), model.passages(PASSAGES))
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.9
    model.save(tmp_path / "out", {})
    assert checkpoint(str(tmp_path / "out")).dim == 16
    assert json.loads((tmp_path / "out" / "artifact.metadata").read_text())["dim"] == 16
    assert Encoder(checkpoint(str(tmp_path / "out"))).queries(QUERIES)[0].shape[1] == 16
    with pytest.raises(IndexFault, match="has 16 dimensions; give fewer"):
        model.project(32, PASSAGES)


def test_mixed_weights_lie_between(spec: CheckpointSpec) -> None:
    base = LateInteraction(spec).weights()
    tuned = {name: value + 1 for name, value in base.items()}
    half = mixed(base, tuned, 0.5)
    assert all((half[name] - base[name] - 0.5).abs().max() < 1e-5 for name in base)


def test_weights_of_another_model_are_refused(spec: CheckpointSpec) -> None:
    with pytest.raises(IndexFault, match="another model"):
        LateInteraction(spec).put(LateInteraction(spec, frozen=1).weights())
