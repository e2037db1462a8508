"""Fingerprint: SHA-256 over everything that an answer depends on, and nothing else.

Method, constructor arguments and parts, per-predictor signature and demos, budget, adapter, LM
name and parameters by role, retriever settings, rendering version. No key, path, host or port: the
same pipeline has the same fingerprint wherever it runs. The corpus has its own hash beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dspy

from programs.metered import MeteredAdapter
from programs.program import MultiHopProgram
from programs.state import own_predictors
from programs.step import ROLE_LMS
from retrieval.contract import identity_of
from signatures import RENDERING_VERSION, signature_hash

SECRET_OR_PLACE = (
    *("api_key", "api_base", "base_url", "headers", "extra_headers", "model_list"),
    "timeout",
)
"""Parameters of an LM that change no answer: keys, addresses, patience."""


def describe(program: MultiHopProgram) -> dict[str, Any]:
    """A program as JSON values: what it is, without LM, adapter and retriever."""
    knowledge = getattr(program, "knowledge", None)
    return {
        **({} if knowledge is None else {"graph": dict(knowledge.identity)}),
        "method": program.info.name,
        "arguments": program.arguments,
        "budget": program.budget.to_json(),
        "predictors": {
            name: {
                "signature": signature_hash(predictor.signature),
                "demos": [_demo(demo) for demo in predictor.demos],
                "decisions": predictor.fields,
            }
            for name, predictor in own_predictors(program).items()
        },
        "parts": {name: describe(part) for name, part in program.parts.items()},
    }


def content_hash(program: MultiHopProgram) -> str:
    """64 hex digits over the program alone: not LM, adapter, retriever or what a graph holds."""

    def bare(about: Mapping[str, Any]) -> dict[str, Any]:
        parts = {name: bare(part) for name, part in about["parts"].items()}
        return {**{k: v for k, v in about.items() if k != "graph"}, "parts": parts}

    return digest(bare(describe(program)))


def identity(program: MultiHopProgram) -> dict[str, Any]:
    """All that the fingerprint covers, with LM and adapter as ``dspy.settings`` has them now."""
    lms = {"default": dspy.settings.lm, **(dspy.settings.get(ROLE_LMS) or {})}
    return {
        "program": describe(program),
        "adapter": adapter_identity(dspy.settings.adapter),
        "lms": {role: lm_identity(lm) for role, lm in lms.items()},
        "retriever": identity_of(program.retriever),
        "rendering": RENDERING_VERSION,
    }


def fingerprint(program: MultiHopProgram) -> str:
    """64 hex digits; see the module docstring."""
    return digest(identity(program))


def digest(value: Any) -> str:
    """SHA-256 of canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def lm_identity(lm: Any) -> dict[str, Any] | None:
    """Name and parameters of an LM; never a key, path, host or port."""
    if lm is None:
        return None
    parameters = {
        k: v
        for k, v in sorted(getattr(lm, "kwargs", {}).items())
        if v is not None and k not in SECRET_OR_PLACE
    }
    return {"name": lm.model, "type": getattr(lm, "model_type", "chat"), **parameters}


def adapter_identity(adapter: Any) -> dict[str, Any]:
    """An adapter's class, and what it declares of itself (``identity``) besides."""
    if isinstance(adapter, MeteredAdapter):
        adapter = adapter.inner
    if adapter is None:
        return {"class": "JSONAdapter"}
    declared = getattr(adapter, "identity", None)
    return {"class": type(adapter).__name__, **(declared if isinstance(declared, Mapping) else {})}


def _demo(demo: Any) -> dict[str, Any]:
    fields = demo.toDict() if hasattr(demo, "toDict") else dict(demo)
    return {str(k): v for k, v in fields.items()}
