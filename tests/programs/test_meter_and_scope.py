"""Meter, scope, fan_out and steps: the traps of DSPy under concurrency, copying and failing."""

from __future__ import annotations

import threading
import time
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import Cancelled, HopBudget, Meter, OutOfBudget, Step, build, fan_out
from programs.faults import StopRun
from programs.program import CANCEL, DEADLINE
from programs.scope import Scope, entering
from programs.step import ROLE_LMS
from signatures import Answer, Resolve


def context(script: Any, **more: Any) -> Any:
    return dspy.context(
        lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script), disable_history=True, **more
    )


def test_meter_keeps_one_call_for_the_final_answer() -> None:
    meter = Meter(3)
    meter.spend()
    meter.spend()
    with pytest.raises(OutOfBudget):
        meter.spend()
    meter.spend(final=True)
    with pytest.raises(OutOfBudget):
        meter.spend(final=True)
    assert meter.used == 3


def test_meter_counts_exactly_under_threads() -> None:
    meter = Meter(101)
    refused = []

    def work() -> None:
        for _ in range(50):
            try:
                meter.spend()
            except OutOfBudget:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.used == 100
    assert len(refused) == 100


def test_limits_pass_through_code_that_swallows_exceptions() -> None:
    for signal in (OutOfBudget, Cancelled, StopRun):
        assert not issubclass(signal, Exception)


def test_fan_out_keeps_order_whatever_ends_first() -> None:
    gates = [threading.Event() for _ in range(3)]

    def task(i: int) -> int:
        if i < 2:
            gates[i + 1].wait(5)
        gates[i].set()
        return i

    assert fan_out([lambda i=i: task(i) for i in range(3)]) == [0, 1, 2]


def test_fan_out_joins_traces_in_task_order() -> None:
    gates = [threading.Event() for _ in range(3)]

    def script(signature: Any, inputs: Any) -> Any:
        i = int(inputs["question"])
        if i < 2:
            gates[i + 1].wait(5)
        gates[i].set()
        return {"answer": inputs["question"]}

    step = Step(Answer, "writer", {"answer": ""})
    with context(script, trace=[]):
        fan_out([lambda i=i: step(context="c", question=str(i)) for i in range(3)])
        asked = [inputs["question"] for _, inputs, _ in dspy.settings.trace]
    assert asked == ["0", "1", "2"]


def test_fan_out_raises_the_first_failure_in_task_order() -> None:
    def fail(i: int) -> None:
        raise ValueError(str(i))

    with pytest.raises(ValueError, match="1"):
        fan_out([lambda: None, lambda: fail(1), lambda: fail(2)])


def test_fan_out_shares_the_scope() -> None:
    scope = Scope("q", Meter(100))
    with entering(scope):
        fan_out([lambda: scope.meter.spend() for _ in range(10)])
    assert scope.meter.used == 10


def test_fan_out_runs_one_after_another_when_calls_are_short() -> None:
    scope = Scope("q", Meter(4))
    names = []
    with entering(scope):
        fan_out([lambda: names.append(threading.current_thread().name) for _ in range(3)])
    assert len(set(names)) == 1


def test_a_bad_reply_is_asked_again_with_what_was_wrong() -> None:
    seen: list[set[str]] = []

    def script(signature: Any, inputs: Any) -> Any:
        seen.append(set(inputs))
        return None if len(seen) == 1 else {"answer": "ok"}

    with context(script):
        reply = Step(Resolve, "resolver", {"answer": None})(context="c", question="q")
    assert reply.answer == "ok"
    assert "format_problem" not in seen[0]
    assert "format_problem" in seen[1]


def test_two_bad_replies_give_the_fallback_and_say_so() -> None:
    with context(lambda *_: None):
        reply = Step(Resolve, "resolver", {"answer": None})(context="c", question="q")
    assert reply.answer is None
    assert "fields asked for" in reply.error


def test_a_fallback_must_have_every_output() -> None:
    from programs import ProgramError

    with pytest.raises(ProgramError, match="answer"):
        Step(Resolve, "resolver", {})


def test_thinking_adds_reasoning_and_leaves_the_signature_as_it_was() -> None:
    seen: list[list[str]] = []

    def script(signature: Any, inputs: Any) -> Any:
        seen.append(list(signature.output_fields))
        return {"answer": "a"}

    step = Step(Resolve, "resolver", {"answer": None})
    with context(script):
        step(context="c", question="q", think=True)
        step(context="c", question="q")
    assert seen == [["reasoning", "answer"], ["answer"]]
    assert list(step.signature.output_fields) == ["answer"]


def test_a_role_lm_is_used_at_call_time_and_never_stored() -> None:
    class Named(ScriptedAdapter):
        def __call__(self, lm: Any, *args: Any, **more: Any) -> Any:
            return [{"answer": lm.model}]

    own = stand_in("other/lm")
    step = Step(Resolve, "resolver", {"answer": None})
    with dspy.context(
        lm=stand_in("scripted/lm"), adapter=Named(lambda *_: None), **{ROLE_LMS: {"resolver": own}}
    ):
        assert step(context="c", question="q").answer == "other/lm"
    assert step.lm is None


def test_a_deadline_gives_the_best_answer_so_far(world: Benchmark, words: Any) -> None:
    question = next(q for q in world.questions["dev"] if len(q.hops) == 2 and q.kind == "bridge")
    calls: list[int] = []

    def script(signature: Any, inputs: Any) -> Any:
        calls.append(1)
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who is A?", "Where is {answer_1}?"]}
        time.sleep(0.3)
        return {"answer": "found first"}

    with context(script, **{DEADLINE: 0.2}):
        prediction = build("decompose", words)(question=question.question)
    assert prediction.stop_reason == "budget"
    assert prediction.answer == "found first"
    assert len(calls) == 2


def test_a_cancelled_question_ends_at_its_next_call(words: Any) -> None:
    cancel = threading.Event()

    def script(signature: Any, inputs: Any) -> Any:
        cancel.set()
        return {"kind": "single", "sub_questions": ["a question"]}

    with context(script, **{CANCEL: cancel}), pytest.raises(Cancelled):
        build("decompose", words)(question="a question?")


def test_nested_programs_share_the_meter(words: Any) -> None:
    from programs.program import MultiHopProgram

    class Twice(MultiHopProgram):
        info = build("single_shot", words).info

        def __init__(self, retriever: Any, budget: HopBudget | None = None, **parts: Any) -> None:
            super().__init__(retriever, budget)
            self.inner = build("single_shot", retriever, HopBudget(lm_calls=40))

        def solve(self, question: str, evidence: Any) -> Any:
            from programs.evidence import Conclusion

            for i in range(5):
                got = self.inner(question=f"{question} {i}")
                evidence.extend(got.evidence)
            return Conclusion(got.answer)

    with context(lambda *_: {"answer": "a"}):
        prediction = Twice(words, HopBudget(lm_calls=3))(question="q")
    assert prediction.usage.total.lm_calls <= 3
