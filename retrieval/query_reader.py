"""colbert-ai's model made quick at reading one query of some twenty tokens on the CPU.

- Weights in half precision: so few tokens leave a matrix product waiting for its weights to come
  from memory. At half the bytes they come in half the time; they are widened on the way, and sums
  stay float32. Token vectors keep a cosine of 0.999999 to those of whole weights. From about a
  hundred tokens on (passages) it gains nothing.
- The transformer as a trace: of the time that is left, half went by in Python between its layers.
  A trace that doesn't give the same vectors as the transformer is not taken.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch

WITH_KERNELS = ("fbgemm", "x86", "onednn")
"""Engines of torch's that multiply half-precision weights; others (ARM) read whole ones."""
SAME = 1e-4
"""Difference of a traced vector's values that is rounding."""


def quick_reader(model: Any, samples: Sequence[tuple[Any, Any]]) -> Any:
    """The model once more, sharing all that it can with ``model``; ``model`` itself where it isn't
    on the CPU. ``samples`` are token ids and attention masks of single queries, of several lengths,
    that a trace is made and tried with."""
    if model.device.type != "cpu":
        return model
    twin = copy.copy(model)
    twin._modules = dict(model._modules)
    shared = {id(p): p for p in model.model.parameters()}
    twin.model = copy.deepcopy(model.model, shared)
    if torch.backends.quantized.engine in WITH_KERNELS:
        _halve(twin.model)
    inner = twin.model.LM
    trace = _traced(inner, samples)
    if trace is not None:
        setattr(twin.model, twin.model.base_model_prefix, _Transformer(inner, trace))
    return twin


class HalfLinear(torch.nn.Module):
    """An ``nn.Linear`` on the CPU that can't be trained."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.packed = torch.ops.quantized.linear_prepack_fp16(linear.weight, linear.bias)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16(vectors, self.packed)
        return out


def _halve(module: torch.nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is torch.nn.Linear and child.weight.dtype == torch.float32:
            setattr(module, name, HalfLinear(child))
        else:
            _halve(child)


class _Transformer(torch.nn.Module):
    """Reads one query by the trace, several by the transformer."""

    def __init__(self, inner: torch.nn.Module, trace: Any) -> None:
        super().__init__()
        self.inner = inner
        self.trace = trace

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[Any, ...]:
        if len(input_ids) == 1:
            return (self.trace(input_ids, attention_mask),)
        return (self.inner(input_ids, attention_mask=attention_mask)[0],)


class _First(torch.nn.Module):
    """A transformer's token vectors alone, which is what can be traced."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(input_ids, attention_mask=attention_mask)[0]
        return out


def _traced(inner: torch.nn.Module, samples: Sequence[tuple[Any, Any]]) -> Any:
    """A trace that gives what the transformer gives for every sample; None where there is none."""
    plain = _First(inner).eval()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trace = torch.jit.trace(plain, samples[0], check_trace=False)
            same = all(torch.allclose(trace(*s), plain(*s), atol=SAME) for s in samples)
        except (RuntimeError, ValueError, TypeError, AttributeError):
            return None
    return trace if same else None
