"""cot: one call that reasons, no retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, fingerprint
from programs.cot import ChainOfThought
from programs.direct import Direct


@pytest.mark.parametrize("think", [(), ("writer",)])
def test_it_reasons_once_whatever_the_budget_says(words: Any, think: tuple[str, ...]) -> None:
    asked: list[list[str]] = []

    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(list(signature.output_fields))
        return {"reasoning": "Ida Moor painted it.", "answer": "Ida Moor"}

    program = ChainOfThought(words, HopBudget(think=think))
    with dspy.context(lm=stand_in("s/lm"), adapter=ScriptedAdapter(script), disable_history=True):
        prediction = program(question="Who painted Blue Harbour?")
    assert prediction.answer == "Ida Moor"
    assert asked == [["reasoning", "answer"]]
    assert words.queries == []


def test_it_is_another_pipeline_than_direct(words: Any) -> None:
    assert fingerprint(ChainOfThought(words)) != fingerprint(Direct(words))
