"""Which bound a question ran into is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy
import pytest

from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import build, methods
from programs.program import DEADLINE

QUESTION = "Who is the mayor of the city where Ida Moor was born?"


def never_done(queries: Sequence[str]) -> ScriptedAdapter:
    """An LM that is never satisfied: each time another query, and no end of its own accord."""
    asked = iter(queries)

    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        query = next(asked)
        known = {
            "kind": "bridge",
            "done": False,
            "sufficient": False,
            "next_query": query,
            "follow_up": query,
            "thought": query,
            "next_tool_name": "search",
            "next_tool_args": {"query": query},
            "code": f"search({query!r})",
        }
        return {name: known.get(name, "") for name in signature.output_fields}

    return ScriptedAdapter(script)


def ask(method: str, retriever: Any, **bounds: int) -> dspy.Prediction:
    budget = replace(methods()[method].default_budget(), **bounds)
    titles = [passage.title for passage in retriever.passages]
    with dspy.context(lm=stand_in("scripted/lm"), adapter=never_done(titles)):
        return build(method, retriever, budget)(question=QUESTION)


@pytest.mark.parametrize("method", ["agentic", "ircot", "self_ask", "react", "iterative_chain"])
@pytest.mark.parametrize("hops", [0, 3])
def test_hops_are_respected_exactly_and_named(words: Any, method: str, hops: int) -> None:
    wide = {"passages": 1, "context_passages": 1000, "context_tokens": 100_000}
    prediction = ask(method, words, hops=hops, **wide)
    assert len(words.queries) == len(prediction.evidence.queries) == hops + 1
    assert prediction.cap == f"hops={hops}"


def test_calls_are_named(words: Any) -> None:
    assert ask("agentic", words, lm_calls=2).cap == "lm_calls=2"


def test_a_full_pool_is_no_hop_cap(words: Any) -> None:
    assert ask("ircot", words, context_passages=6, context_tokens=9000).cap == "context_passages=6"


def test_a_deadline_is_named(words: Any) -> None:
    with dspy.context(**{DEADLINE: 0}):
        assert ask("agentic", words).cap == "deadline"


def test_a_router_tells_its_parts_cap(words: Any) -> None:
    prediction = ask("router", words)
    assert (prediction.route, prediction.cap) == ("agentic", "hops=4")


@pytest.mark.parametrize("nothing", ["", "null", "Unknown."])
@pytest.mark.parametrize("bounds", [{"hops": 1}, {"lm_calls": 2}])
def test_a_writer_that_states_nothing_at_a_cap_abstains(
    words: Any, nothing: str, bounds: dict[str, int]
) -> None:
    def script(signature: type[dspy.Signature], _: Mapping[str, Any]) -> Mapping[str, Any]:
        more = {"done": False, "next_query": f"Ida Moor {len(words.queries)}"}
        return {name: more.get(name, nothing) for name in signature.output_fields}

    budget = replace(methods()["agentic"].default_budget(), **bounds)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script)):
        prediction = build("agentic", words, budget)(question=QUESTION)
    assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")
    assert prediction.cap == ",".join(f"{name}={value}" for name, value in bounds.items())


def test_an_end_of_its_own_has_none(words: Any) -> None:
    assert "cap" not in ask("single_shot", words)


def test_hops_of_a_router_are_its_parts(words: Any) -> None:
    assert ask("router", words, hops=2).cap == "hops=2"
