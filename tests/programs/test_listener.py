"""A question's listener is told of each step while it happens."""

from __future__ import annotations

from typing import Any

import dspy

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import stand_in
from programs import build
from programs.evidence import Evidence
from programs.program import LISTENER, MultiHopProgram


def told(program: MultiHopProgram, world: Benchmark, question: str) -> tuple[list[Any], Any]:
    events: list[Any] = []
    every = [q for questions in world.questions.values() for q in questions]
    with dspy.context(
        lm=stand_in("oracle/gold"),
        adapter=OracleAdapter(every),
        disable_history=True,
        **{LISTENER: lambda event, values: events.append((event, dict(values)))},
    ):
        prediction = program(question=question)
    return events, prediction


def test_hops_are_told_before_the_answer_and_again_when_filled_in(
    world: Benchmark, words: Any
) -> None:
    question = next(q for q in world.questions["dev"] if q.kind == "bridge")
    events, prediction = told(build("decompose", words), world, question.question)
    assert events[0][0] == "started"
    assert events[0][1]["ledger"] is prediction.usage
    assert events[1] == ("asking", {"role": "planner"})
    hops = [values["hop"] for name, values in events if name == "hop"]
    first = [hop for hop in hops if hop.id == 0]
    assert [hop.answer for hop in first] == [None, prediction.evidence.hops[0].answer]
    assert first[0].passages
    latest = {hop.id: hop for hop in hops}
    assert tuple(latest[i] for i in sorted(latest)) == prediction.evidence.hops
    searched = next(i for i, (name, _) in enumerate(events) if name == "hop")
    assert ("asking", {"role": "resolver"}) in events[searched:]


def test_a_nested_programs_hops_are_told_apart(world: Benchmark, words: Any) -> None:
    class Outer(MultiHopProgram):
        info = build("single_shot", words).info

        def __init__(self, retriever: Any) -> None:
            super().__init__(retriever)
            self.inner = build("single_shot", retriever)

        def solve(self, question: str, evidence: Evidence) -> Any:
            from programs.evidence import Conclusion

            found = self.inner(question=question)
            evidence.extend(found.evidence)
            return Conclusion(found.answer)

    question = world.questions["dev"][0].question
    events, _ = told(Outer(words), world, question)
    assert [v["program"] for name, v in events if name == "hop"] == [1, 1, 0]


def test_without_a_listener_nothing_is_told() -> None:
    assert Evidence().add(role="writer", query="q").id == 0
