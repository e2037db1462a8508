"""colbert-ai's model made quick at reading one query of some twenty tokens on the CPU.

- Weights in half precision: so few tokens leave a matrix product waiting for its weights to come
  from memory. At half the bytes they come in half the time; they are widened on the way, and sums
  stay float32.
- The transformer as a trace: of the time that is left, half went by in Python between its layers.

Making one takes about a second. One that doesn't give the model's vectors (the default's keep a
cosine of 0.999999) isn't taken.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch

COSINE = 0.9999
"""Least cosine to the model's own token vectors."""


def quick_reader(model: Any, samples: Sequence[tuple[Any, Any]]) -> Any:
    """The model once more, for one query at a time, sharing what it can with ``model``. None where
    that isn't on the CPU or can't be made quick. ``samples`` are token ids and attention masks of
    single queries, of several lengths, that it is made and tried with."""
    if model.device.type != "cpu":
        return None
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [model.query(*sample) for sample in samples]
        for half in (True, False):
            try:
                reader = _made(model, samples[0], half=half)
                read = [reader.query(*sample) for sample in samples]
            except Exception:  # a CPU without the kernels, a model of any code
                continue
            if all(map(_same, read, wanted)):
                return reader
    return None


class HalfLinear(torch.nn.Module):
    """An ``nn.Linear`` on the CPU that can't be trained."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().clone()  # weights out of range are cut in place
        self.packed = torch.ops.quantized.linear_prepack_fp16(weight, linear.bias)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16(vectors, self.packed)
        return out


class Traced(torch.nn.Module):
    """A transformer as colbert-ai calls it."""

    def __init__(self, trace: Any) -> None:
        super().__init__()
        self.trace = trace

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[Any]:
        return (self.trace(input_ids, attention_mask),)


class _First(torch.nn.Module):
    """A transformer's token vectors alone, which is what can be traced."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(input_ids, attention_mask=attention_mask)[0]
        return out


def _made(model: Any, sample: tuple[Any, Any], *, half: bool) -> Any:
    twin = copy.copy(model)
    twin._modules = dict(model._modules)
    shared = {id(p): p for p in model.model.parameters()}
    twin.model = copy.deepcopy(model.model, shared)
    if half:
        _halve(twin.model)
    trace = torch.jit.trace(_First(twin.model.LM).eval(), sample, check_trace=False)
    setattr(twin.model, twin.model.base_model_prefix, Traced(trace))
    return twin


def _halve(module: torch.nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is torch.nn.Linear and child.weight.dtype == torch.float32:
            setattr(module, name, HalfLinear(child))
        else:
            _halve(child)


def _same(read: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether token vectors are the same to rounding; those left out are zeros."""
    if read.shape != wanted.shape:
        return False
    lengths, own = wanted.norm(dim=-1), read.norm(dim=-1)
    level = torch.allclose(lengths, own, atol=1 - COSINE)
    cosines = torch.nn.functional.cosine_similarity(read, wanted, dim=-1)
    return level and bool((cosines[lengths > 0] > COSINE).all())
