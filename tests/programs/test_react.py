"""react: dspy.ReAct with the search tool."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget
from programs.faults import StopRun
from programs.react import LEFT_OUT, NO_QUERY, NONE_LEFT, SEARCHED_BEFORE, ReAct, Trajectory
from retrieval import Passage

QUESTION = "Who is the mayor of the city where Ida Moor was born?"


class Script:
    """Queries in order for the actor (None finishes), "written" for whoever answers."""

    def __init__(self, *queries: str | None) -> None:
        self.queries = list(queries)
        self.trajectories: list[str] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.trajectories.append(inputs.get("trajectory", ""))
        if "next_tool_name" not in signature.output_fields:
            return {"answer": "written"}
        query = self.queries.pop(0)
        return {
            "next_thought": f"thought about {query}",
            "next_tool_name": "finish" if query is None else "search",
            "next_tool_args": {"query": query or ""},
        }


def ask(program: ReAct, adapter: Any, question: str = QUESTION) -> dspy.Prediction:
    if isinstance(adapter, Script):
        adapter = ScriptedAdapter(adapter)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def test_searches_become_hops_in_a_chain_with_the_thoughts_that_led_to_them(words: Any) -> None:
    script = Script("birthplace of Ida Moor", "mayor of Tamsin", None)
    prediction = ask(ReAct(words), script)
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")
    first, second = prediction.evidence.hops
    assert (first.refined, second.refined) == ("birthplace of Ida Moor", "mayor of Tamsin")
    assert (first.parent, second.parent) == (None, first.id)
    assert second.note == "thought about mayor of Tamsin"
    assert prediction.usage.by_role["actor"].lm_calls == 3
    assert prediction.usage.by_role["writer"].lm_calls == 1


def test_the_actor_sees_what_its_searches_brought(words: Any) -> None:
    script = Script("birthplace of Ida Moor", None)
    prediction = ask(ReAct(words), script)
    (hop,) = prediction.evidence.hops
    assert script.trajectories[0] == ""
    assert all(p.text in script.trajectories[1] for p in hop.passages)
    assert script.trajectories[1].ids == tuple(p.id for p in hop.passages)


def test_a_query_searched_before_is_refused_and_no_hop(words: Any) -> None:
    script = Script("birthplace of Ida Moor", "Birthplace of  Ida Moor?", None)
    prediction = ask(ReAct(words), script)
    assert len(prediction.evidence.hops) == 1
    assert words.queries == ["birthplace of Ida Moor"]
    assert SEARCHED_BEFORE in script.trajectories[2]


def test_a_long_query_searched_before_is_refused_too(words: Any) -> None:
    long = "birthplace of Ida Moor " * 40
    prediction = ask(ReAct(words), script := Script(long, long, None))
    assert len(prediction.evidence.hops) == 1
    assert SEARCHED_BEFORE in script.trajectories[2]


def test_a_query_without_a_word_is_said_to_be_none(words: Any) -> None:
    script = Script(" ?! ", None)
    prediction = ask(ReAct(words), script)
    assert prediction.evidence.hops == ()
    assert NO_QUERY in script.trajectories[1]


def test_the_cap_on_searches_ends_with_budget(words: Any) -> None:
    script = Script("one", "two", "three", "four")
    prediction = ask(ReAct(words, HopBudget(hops=1)), script)
    assert [h.refined for h in prediction.evidence.hops] == ["one", "two"]
    assert (prediction.answer, prediction.stop_reason) == ("written", "budget")
    assert NONE_LEFT in script.trajectories[3]
    assert script.queries == ["four"]


def test_finishing_right_at_the_cap_is_no_cap(words: Any) -> None:
    prediction = ask(ReAct(words, HopBudget(hops=1)), Script("one", "two", None))
    assert prediction.stop_reason == "answered"


def test_the_answer_may_take_the_reserved_call(words: Any) -> None:
    prediction = ask(ReAct(words, HopBudget(lm_calls=3)), Script("one", None))
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")
    assert prediction.usage.total.lm_calls == 3


def test_calls_run_out_inside_the_loop_and_the_writer_answers(words: Any) -> None:
    prediction = ask(ReAct(words, HopBudget(lm_calls=2)), Script("one", "two"))
    assert (prediction.answer, prediction.stop_reason) == ("written", "budget")
    assert len(prediction.evidence.hops) == 1


def test_a_retriever_that_fails_is_no_observation(words: Any) -> None:
    class Broken(type(words)):  # type: ignore[misc]
        def _search(self, *_: Any) -> Any:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        ask(ReAct(Broken(words.passages)), Script("one"))


def test_a_fault_that_stops_the_run_passes_through(words: Any) -> None:
    class Refusing(ScriptedAdapter):
        def __call__(self, *_: Any, **__: Any) -> Any:
            fault = ValueError("no key")
            fault.stops_run = True  # type: ignore[attr-defined]
            raise fault

    with pytest.raises(StopRun, match="no key"):
        ask(ReAct(words), Refusing(lambda *_: None))


def test_a_copy_searches_with_its_own_budget(words: Any) -> None:
    program = ReAct(words)
    copied = copy.deepcopy(program)
    copied.budget = HopBudget(passages=1)
    (hop,) = ask(copied, Script("one", None)).evidence.hops
    assert len(hop.passages) == 1
    (hop,) = ask(program, Script("one", None)).evidence.hops
    assert len(hop.passages) == 5


def test_an_actor_that_never_parses_finishes_and_says_why(words: Any) -> None:
    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Any:
        return None if "next_tool_name" in signature.output_fields else {"answer": "written"}

    prediction = ask(ReAct(words), ScriptedAdapter(script))
    assert prediction.answer == "written"
    (hop,) = prediction.evidence.hops
    assert (hop.status, hop.passages) == ("error", ())


def test_the_oldest_observations_are_left_out_first() -> None:
    class Seen(str):
        ids: tuple[str, ...] = ()

    steps: dict[str, Any] = {}
    for n in range(3):
        seen = Seen("word " * 100)
        seen.ids = (f"p{n}",)
        steps |= {f"thought_{n}": f"t{n}", f"tool_name_{n}": "search"}
        steps |= {f"tool_args_{n}": {"query": f"q{n}"}, f"observation_{n}": seen}
    shown = Trajectory.of(steps, 320)
    assert shown.count(LEFT_OUT) == 1
    assert shown.ids == ("p1", "p2")
    assert all(f"Thought: t{n}\nsearch: q{n}" in shown for n in range(3))
    assert Trajectory.of(steps, 10).ids == ("p2",)


def test_with_the_oracle_it_beats_one_search(chains: Benchmark, rare_words: Any) -> None:
    questions = [q for q in chains.questions["dev"] if q.answerable][:12]
    program = ReAct(rare_words(chains))
    with dspy.context(
        lm=stand_in("oracle/gold"), adapter=OracleAdapter(questions), disable_history=True
    ):
        right = sum(program(question=q.question).answer == q.answer for q in questions)
    assert right == len(questions)


def test_passages_of_a_dropped_observation_are_not_shown_to_the_oracle(words: Any) -> None:
    assert isinstance(words.passages[0], Passage)
    program = ReAct(words, HopBudget(context_tokens=16, hops=2))
    script = Script("one", "two", None)
    prediction = ask(program, script)
    assert prediction.answer == "written"
    assert LEFT_OUT in script.trajectories[-1]
