"""direct: one call, no retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget
from programs.direct import Direct
from programs.faults import StopRun


def ask(program: Direct, adapter: Any, question: str = "Who painted Blue Harbour?") -> Any:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def test_one_call_with_the_question_alone_and_no_search(words: Any) -> None:
    shown: list[dict[str, Any]] = []

    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> dict[str, Any]:
        shown.append(dict(inputs))
        return {"answer": "Ida Moor"}

    prediction = ask(Direct(words, HopBudget(lm_calls=1)), ScriptedAdapter(script))
    assert (prediction.answer, prediction.stop_reason) == ("Ida Moor", "answered")
    assert shown == [{"question": "Who painted Blue Harbour?"}]
    assert words.queries == []
    assert prediction.evidence.hops == ()


def test_thinking_is_a_knob(words: Any) -> None:
    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": "thought" if "reasoning" in signature.output_fields else "said"}

    assert ask(Direct(words), ScriptedAdapter(script)).answer == "said"
    assert ask(Direct(words, HopBudget(think=("writer",))), ScriptedAdapter(script)).answer == (
        "thought"
    )


def test_an_empty_answer_is_an_abstention(words: Any) -> None:
    prediction = ask(Direct(words), ScriptedAdapter(lambda *_: {"answer": " "}))
    assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")


@pytest.mark.parametrize("calls", [1, 40])
def test_a_reply_that_never_parses_is_an_error_within_the_budget(words: Any, calls: int) -> None:
    prediction = ask(Direct(words, HopBudget(lm_calls=calls)), ScriptedAdapter(lambda *_: None))
    assert (prediction.answer, prediction.stop_reason) == (None, "error")
    assert prediction.error
    assert prediction.usage.total.lm_calls == min(calls, 2)


def test_the_oracle_refuses(world: Benchmark, words: Any) -> None:
    question = world.questions["dev"][0]
    with pytest.raises(StopRun, match="real --lm"):
        ask(Direct(words), OracleAdapter([question]), question.question)
