"""Scripted answers in place of an LM: for tests, benches and demonstrations of control policies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import dspy
from dspy.adapters.base import Adapter
from dspy.utils.exceptions import AdapterParseError

Script = Callable[[type[dspy.Signature], Mapping[str, Any]], "Mapping[str, Any] | None"]
"""Given signature and inputs, the outputs; None stands for a reply that does not parse."""


class ScriptedAdapter(Adapter):  # type: ignore[misc]
    """Answers every call from a function, after ``latency`` seconds; no LM is called."""

    def __init__(self, script: Script, latency: float = 0.0) -> None:
        super().__init__()
        self.script = script
        self.latency = latency

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptedAdapter:
        return self

    def __call__(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        if self.latency:
            time.sleep(self.latency)
        outputs = self.script(signature, inputs)
        if outputs is None:
            raise AdapterParseError(
                adapter_name="ScriptedAdapter", signature=signature, lm_response="(scripted)"
            )
        if "reasoning" in signature.output_fields:
            outputs = {"reasoning": "", **outputs}
        return [dict(outputs)]


class NoEngine:
    """An engine for an LM that an answering adapter bypasses; it refuses to be called."""

    provider = "none"

    def complete(self, request: Any) -> Any:
        raise RuntimeError("this LM has no engine: its adapter answers by itself")

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: Mapping[str, Any]) -> NoEngine:
        return cls()


def stand_in(name: str) -> dspy.LM:
    """An LM object by name only: DSPy wants one, an answering adapter never calls it."""
    return dspy.LM(name, engine=NoEngine(), cache=False)
