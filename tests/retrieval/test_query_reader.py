"""The model made quick at reading a query gives the vectors of the whole one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.encoder import Encoder, encoder, query_tokens
from retrieval.query_reader import HalfLinear, _traced, quick_reader

QUERIES = [
    "river",
    "Who founded the studio that made Aurora?",
    "word " * 300,
    "¿Ünïcode 北京?",
    "a.b-c",
]


def plain(coder: Encoder, text: str) -> Any:
    ids, mask = query_tokens(coder._loaded(), coder.spec, [text])
    with torch.inference_mode():
        return coder._loaded().query(ids, mask)[0].numpy()


def same(found: Any, whole: Any) -> None:
    assert found.shape == whole[: len(found)].shape
    cosines = (found * whole[: len(found)]).sum(1)
    read = np.linalg.norm(whole[: len(found)], axis=1) > 0.5
    assert cosines[read].min() > 0.99999


@settings(deadline=None, max_examples=30)
@given(st.one_of(st.sampled_from(QUERIES), st.text(min_size=1, max_size=200)))
def test_vectors_are_those_of_the_whole_model(text: str) -> None:
    coder = encoder()
    coder.forget_queries()
    same(coder.queries([text])[0], plain(coder, text))


def test_a_batch_is_read_as_one_by_one() -> None:
    coder = encoder()
    coder.forget_queries()
    together = coder.queries(QUERIES)
    coder.forget_queries()
    for text, vectors in zip(QUERIES, together, strict=True):
        same(coder.queries([text])[0], vectors)


@pytest.mark.parametrize("augment", [False, True])
def test_a_checkpoint_of_ones_own_is_read_the_same(
    tmp_path: Path, tiny_checkpoint: Callable[..., Path], augment: bool
) -> None:
    coder = encoder(str(tiny_checkpoint(tmp_path / "tiny", augment=augment)))
    assert coder.spec.augment is augment
    for text in QUERIES:
        same(coder.queries([text])[0], plain(coder, text))


def test_passages_are_read_with_whole_weights() -> None:
    coder = encoder()
    coder.queries(["river"])
    assert not any(isinstance(m, HalfLinear) for m in coder._loaded().modules())


class Forked(torch.nn.Module):
    """Does another thing with longer input, which a trace can't know."""

    def forward(self, input_ids: Any, attention_mask: Any) -> tuple[Any]:
        if input_ids.shape[1] > 3:
            return (attention_mask * 2.0,)
        return (attention_mask * 1.0,)


class Untraceable(torch.nn.Module):
    def forward(self, input_ids: Any, attention_mask: Any) -> tuple[Any]:
        raise RuntimeError("no")


@pytest.mark.parametrize("inner", [Forked(), Untraceable()])
def test_a_trace_that_gives_something_else_is_not_taken(inner: torch.nn.Module) -> None:
    samples = [(torch.ones(1, n, dtype=torch.long), torch.ones(1, n)) for n in (2, 5)]
    assert _traced(inner, samples) is None


def test_elsewhere_than_on_the_cpu_the_model_stays_as_it_is() -> None:
    class Far:
        device = torch.device("meta")

    model = Far()
    assert quick_reader(model, []) is model
