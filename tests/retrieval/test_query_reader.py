"""The model made quick at one query gives the whole one's vectors, or isn't taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.checkpoint import checkpoint
from retrieval.encoder import FEW, WORTH_IT, Encoder, query_tokens
from retrieval.query_reader import HalfLinear, Traced, quick_reader

QUERIES = [
    "river",
    "Who founded the studio that made Aurora?",
    "word " * 300,
    "¿Ünïcode 北京?",
    "a.b-c",
]


def quick(coder: Encoder) -> Encoder:
    """It, after so many queries that the quick reader is there."""
    for n in range(WORTH_IT + 1):
        coder.queries([f"query {n}"])
    return coder


@pytest.fixture(scope="module")
def coder() -> Encoder:
    return quick(Encoder(checkpoint()))


def plain(coder: Encoder, text: str) -> Any:
    ids, mask = query_tokens(coder._loaded(), coder.spec, [text])
    with torch.inference_mode():
        return coder._loaded().query(ids, mask)[0].numpy()


def assert_same(found: Any, whole: Any) -> None:
    np.testing.assert_allclose(found, whole, atol=2e-3)
    kept = np.linalg.norm(whole, axis=1) > 0
    assert (found * whole).sum(1)[kept].min() > 0.99999


def test_it_is_made_when_it_is_worth_it() -> None:
    coder = Encoder(checkpoint())
    coder.queries([f"batch {n}" for n in range(WORTH_IT + 9)])
    for n in range(WORTH_IT):
        coder.queries([f"query {n}"])
    assert coder._reader is None
    coder.queries(["one more"])
    reader: Any = coder._reader
    kinds = {type(m) for m in reader.modules()}
    assert {Traced, HalfLinear} <= kinds
    assert not {Traced, HalfLinear} & {type(m) for m in coder._loaded().modules()}


@settings(deadline=None, max_examples=30)
@given(text=st.one_of(st.sampled_from(QUERIES), st.text(min_size=1, max_size=200)))
def test_vectors_are_those_of_the_whole_model(coder: Encoder, text: str) -> None:
    coder.forget_queries()
    assert_same(coder.queries([text])[0], plain(coder, text))


def test_many_at_once_are_read_as_one_by_one(coder: Encoder) -> None:
    coder.forget_queries()
    together = coder.queries(QUERIES)
    assert len(QUERIES) > FEW
    coder.forget_queries()
    for text, vectors in zip(QUERIES, together, strict=True):
        assert_same(coder.queries([text])[0], vectors)


@pytest.mark.parametrize("augment", [False, True])
def test_a_checkpoint_of_ones_own_is_read_the_same(
    tmp_path: Path, tiny_checkpoint: Callable[..., Path], augment: bool
) -> None:
    own = quick(Encoder(checkpoint(str(tiny_checkpoint(tmp_path / "tiny", augment=augment)))))
    assert own.spec.augment is augment
    assert own._reader
    for text in QUERIES:
        assert_same(own.queries([text])[0], plain(own, text))


class Forked(torch.nn.Module):
    """Does another thing with longer input, which a trace can't know."""

    def forward(self, input_ids: Any, attention_mask: Any) -> tuple[Any]:
        doubled = attention_mask * (2.0 if input_ids.shape[1] > 3 else 1.0)
        return (doubled.unsqueeze(-1),)


class Failing(torch.nn.Module):
    def forward(self, input_ids: Any, attention_mask: Any) -> tuple[Any]:
        if torch._C._get_tracing_state() is not None:
            raise KeyError("no")
        return (attention_mask.unsqueeze(-1),)


class ReadsWeights(torch.nn.Module):
    """Has a layer whose weights it multiplies with itself, as fused layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(1, 4)

    def forward(self, input_ids: Any, attention_mask: Any) -> tuple[Any]:
        return (attention_mask.unsqueeze(-1) @ self.dense.weight.T,)


class Large(torch.nn.Module):
    """Has weights beyond half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(1, 4, bias=False)
        with torch.no_grad():
            self.dense.weight.copy_(torch.tensor([[1e5], [1.0], [3e5], [-1e6]]))

    def forward(self, input_ids: Any, attention_mask: Any) -> tuple[Any]:
        return (self.dense(attention_mask.unsqueeze(-1)),)


class Wrapped(torch.nn.Module):
    """What colbert-ai puts around a transformer."""

    base_model_prefix = "inner"

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    @property
    def LM(self) -> Any:
        return self.inner


class Model(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module, device: str = "cpu") -> None:
        super().__init__()
        self.model = Wrapped(inner)
        self.device = torch.device(device)

    def query(self, ids: Any, mask: Any) -> Any:
        return self.model.LM(ids, attention_mask=mask)[0]


SAMPLES = [(torch.ones(1, n, dtype=torch.long), torch.ones(1, n)) for n in (2, 5)]


@pytest.mark.parametrize("inner", [Forked(), Failing()])
def test_one_that_gives_something_else_or_fails_is_not_taken(inner: torch.nn.Module) -> None:
    assert quick_reader(Model(inner), SAMPLES) is None


@pytest.mark.parametrize("inner", [ReadsWeights(), Large()])
def test_whole_weights_stay_where_half_ones_do_not_do(inner: torch.nn.Module) -> None:
    model = Model(inner)
    wanted = [model.query(*sample) for sample in SAMPLES]
    reader = quick_reader(model, SAMPLES)
    assert not any(isinstance(m, HalfLinear) for m in reader.modules())
    for sample, vectors in zip(SAMPLES, wanted, strict=True):
        torch.testing.assert_close(reader.query(*sample), vectors)
        torch.testing.assert_close(model.query(*sample), vectors)


@pytest.fixture
def no_kernels() -> Iterator[None]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "onednn"
    yield
    torch.backends.quantized.engine = before


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.skipif(
    "onednn" not in torch.backends.quantized.supported_engines, reason="torch has no onednn here"
)
def test_a_processor_without_the_kernels_reads_whole_weights() -> None:
    own = quick(Encoder(checkpoint()))
    assert own._reader
    assert not any(isinstance(m, HalfLinear) for m in own._reader.modules())
    assert_same(own.queries([QUERIES[1]])[0], plain(own, QUERIES[1]))


def test_elsewhere_than_on_the_cpu_there_is_none() -> None:
    assert quick_reader(Model(ReadsWeights(), device="meta"), SAMPLES) is None
