"""A step that fails is written into a hop, whatever came of the question all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import build

QUESTION = "Who employs the painter of Blue Harbour?"


def failing(*roles: str, after: int = 0) -> ScriptedAdapter:
    """An LM whose replies to some roles do not parse, from their call ``after`` on."""
    calls = dict.fromkeys(roles, 0)

    def script(
        signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        role = getattr(dspy.settings.caller_modules[-1], "role", "")
        if role in calls:
            calls[role] += 1
            if calls[role] > after:
                return None
        told = {
            "follow_up": "Who painted Blue Harbour?",
            "sub_questions": ["Who painted Blue Harbour?", "Who employs {answer_1}?"],
            "kind": "bridge",
            "next_tool_name": "search",
            "next_tool_args": {"query": "Blue Harbour"},
        }
        return {name: told.get(name, "Ida Moor") for name in signature.output_fields}

    return ScriptedAdapter(script)


@pytest.mark.parametrize(
    ("method", "role", "after"),
    [
        ("self_ask", "asker", 1),
        ("react", "actor", 0),
        ("decompose", "planner", 0),
        ("decompose", "synthesizer", 0),
        ("single_shot", "writer", 0),
    ],
)
def test_a_failed_step_is_kept_by_a_hop(words: Any, method: str, role: str, after: int) -> None:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=failing(role, after=after)):
        prediction = build(method, words)(question=QUESTION)
    if method != "single_shot":
        assert prediction.answer == "Ida Moor"
    told = [hop.error for hop in prediction.evidence.hops if hop.error]
    assert told
    if method not in ("react", "single_shot"):
        assert any(line.startswith(f"{role}: ") for line in told)


def test_a_failure_that_a_hop_has_kept_is_not_told_twice(words: Any) -> None:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=failing("resolver")):
        prediction = build("self_ask", words)(question=QUESTION)
    assert all("resolver: " not in (hop.error or "") for hop in prediction.evidence.hops)
    assert prediction.evidence.errors
