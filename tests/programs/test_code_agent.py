"""code_agent and rlm: LMs that write code which searches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, bubblewrap, fingerprint
from programs.code_agent import CodeAgent
from programs.interpreter import Limits, Sandbox
from programs.repl import LEFT_OUT, Ran, bare, transcript
from programs.rlm import RLM

QUESTION = "Who is the mayor of the city where Ida Moor was born?"
pytestmark = pytest.mark.skipif(bubblewrap.why_not() is not None, reason=bubblewrap.why_not() or "")
METHODS: list[type[Any]] = [CodeAgent, RLM]
both = pytest.mark.parametrize("method", METHODS)


class Script:
    """Code in order for the coder, "written" for the writer, an echo from the sub-LM."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.shown: list[str] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if "reply" in signature.output_fields:
            return {"reply": f"echo {inputs['prompt']}"}
        history = inputs.get("steps", inputs.get("repl_history", ""))
        self.shown.append(history.format() if hasattr(history, "entries") else history)
        if "code" not in signature.output_fields:
            return {"answer": "written"}
        code = self.codes.pop(0)
        return {"thought": f"thought of {code}", "code": code}


def ask(program: Any, script: Any, question: str = QUESTION, **more: Any) -> dspy.Prediction:
    adapter = script if isinstance(script, OracleAdapter) else ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True, **more):
        return program(question=question)


@both
class TestBoth:
    def test_queries_of_the_code_become_hops(self, method: Any, words: Any) -> None:
        script = Script(
            "found = search('birthplace of Ida Moor')\nprint(found[0]['title'])",
            "a, b = search_batched(['mayor of Tamsin', 'mayor of Norvale'])\nprint(len(a), len(b))",
            "SUBMIT('Ada Quill')",
        )
        prediction = ask(method(words), script)
        assert (prediction.answer, prediction.stop_reason) == ("Ada Quill", "answered")
        first, second, third = prediction.evidence.hops
        assert [h.refined for h in (second, third)] == ["mayor of Tamsin", "mayor of Norvale"]
        assert (first.parent, second.parent, third.parent) == (None, first.id, first.id)
        assert first.passages[0].title in script.shown[1]
        assert "5 5" in script.shown[2]
        assert prediction.usage.by_role["coder"].lm_calls == 3

    def test_a_repeated_query_gives_the_same_and_is_no_second_hop(
        self, method: Any, words: Any
    ) -> None:
        script = Script("print(search('Ida Moor') == search(' ida moor? '))", "SUBMIT('x')")
        prediction = ask(method(words), script)
        assert "True" in script.shown[1]
        assert words.queries == ["Ida Moor"]
        assert len(prediction.evidence.hops) == 1

    def test_searches_beyond_the_cap_fail_inside_the_code(self, method: Any, words: Any) -> None:
        script = Script("for n in range(9): search(f'query {n}')", "print('on')", "SUBMIT('x')")
        program = method(words, HopBudget(hops=1, sub_queries=2))
        prediction = ask(program, script)
        assert len(prediction.evidence.hops) == 4
        assert "no search is left" in script.shown[1]
        assert prediction.answer == "x"

    def test_what_a_batch_has_found_is_not_lost_at_the_cap(self, method: Any, words: Any) -> None:
        script = Script(
            "print([len(f) for f in search_batched(['Ida', ' ', 'Orla'])])", "SUBMIT(1)"
        )
        ask(method(words, HopBudget(hops=0, sub_queries=1)), script)
        assert "[5, 0, 0]" in script.shown[1]

    def test_steps_that_run_out_end_with_budget_and_the_writers_answer(
        self, method: Any, words: Any
    ) -> None:
        script = Script(*["print(1)"] * 4)
        prediction = ask(method(words, HopBudget(hops=1)), script)
        assert (prediction.answer, prediction.stop_reason) == ("written", "budget")
        assert len(script.codes) == 1

    def test_calls_that_run_out_end_with_budget(self, method: Any, words: Any) -> None:
        script = Script(*["print(search('Ida Moor'))"] * 5)
        prediction = ask(method(words, HopBudget(lm_calls=3)), script)
        assert (prediction.answer, prediction.stop_reason) == ("written", "budget")
        assert prediction.usage.total.lm_calls == 3

    def test_an_error_in_the_code_is_what_it_sees_next(self, method: Any, words: Any) -> None:
        script = Script("1/0", "def", "SUBMIT('x')")
        prediction = ask(method(words), script)
        assert prediction.answer == "x"
        assert "ZeroDivisionError" in script.shown[1]
        assert "SyntaxError" in script.shown[2] or "invalid syntax" in script.shown[2]

    def test_a_retriever_that_fails_is_no_error_of_the_code(self, method: Any, words: Any) -> None:
        class Broken(type(words)):  # type: ignore[misc]
            def _search(self, *_: Any) -> Any:
                raise OSError("the disk is gone")

        with pytest.raises(OSError, match="the disk is gone"):
            ask(method(Broken(words.passages)), Script("search('Ida Moor')"))

    def test_a_copy_searches_with_its_own_budget(self, method: Any, words: Any) -> None:
        copied = copy.deepcopy(method(words))
        copied.budget = HopBudget(passages=1)
        (hop,) = ask(copied, Script("search('Ida Moor')", "SUBMIT('x')")).evidence.hops
        assert len(hop.passages) == 1

    def test_the_sandbox_is_part_of_what_a_program_is(self, method: Any, words: Any) -> None:
        assert method(words).arguments == {"sandbox": "auto"}
        assert fingerprint(method(words, sandbox="none")) != fingerprint(method(words))

    def test_an_interpreter_factory_in_the_context_goes_first(
        self, method: Any, words: Any
    ) -> None:
        made: list[Any] = []

        def factory() -> Any:
            made.append(Sandbox()())
            return made[-1]

        script = Script("print(1)", "SUBMIT('x')")
        assert ask(method(words), script, interpreter_factory=factory).answer == "x"
        assert len(made) == 1

    def test_killed_code_costs_no_question(self, method: Any, words: Any) -> None:
        program = method(words)
        program.sandbox = Sandbox(limits=Limits(seconds=0.5))
        script = Script("search('Ida Moor')\nwhile True: pass", "SUBMIT('x')")
        prediction = ask(program, script)
        assert prediction.answer in ("x", "written")
        assert len(prediction.evidence.hops) == 1

    def test_with_the_oracle_it_answers_chains(
        self, method: Any, chains: Benchmark, rare_words: Callable[[Benchmark], Any]
    ) -> None:
        questions = [q for q in chains.questions["dev"] if q.answerable][:4]
        program = method(rare_words(chains))
        oracle = OracleAdapter(questions)
        assert [ask(program, oracle, q.question).answer for q in questions] == [
            q.answer for q in questions
        ]


def test_killed_code_is_told_and_the_next_step_starts_anew(words: Any) -> None:
    program = CodeAgent(words)
    program.sandbox = Sandbox(limits=Limits(seconds=0.5))
    script = Script("x = 1\nwhile True: pass", "print(x)", "SUBMIT('x')")
    prediction = ask(program, script)
    assert prediction.answer == "x"
    assert "all variables are gone" in script.shown[1]
    assert "NameError" in script.shown[2]


def test_the_code_asks_the_sub_lm_and_is_metered(words: Any) -> None:
    script = Script("print(llm_query('one'), llm_query_batched(['two', 'three']))", "SUBMIT('x')")
    prediction = ask(RLM(words), script)
    assert "echo one" in script.shown[1]
    assert "echo three" in script.shown[1]
    assert prediction.usage.by_role["sub"].lm_calls == 3


def test_calls_of_the_code_itself_respect_the_cap(words: Any) -> None:
    script = Script("print(llm_query_batched([str(n) for n in range(19)]))")
    prediction = ask(RLM(words, HopBudget(lm_calls=5)), script)
    assert prediction.usage.total.lm_calls == 5
    assert (prediction.answer, prediction.stop_reason) == ("written", "budget")


def test_an_rlms_history_is_bounded_the_oldest_outputs_go_first(words: Any) -> None:
    script = Script(*[f"print('{n} ' + 'word ' * 300)" for n in range(4)], "SUBMIT('x')")
    ask(RLM(words, HopBudget(hops=4, context_tokens=1000)), script)
    assert script.shown[-1].count(LEFT_OUT) == 2
    assert script.shown[-1].index(LEFT_OUT) < script.shown[-1].index("3 word")


@both
def test_a_coder_that_never_parses_is_no_cap(method: Any, words: Any) -> None:
    def script(signature: type[dspy.Signature], _: Any) -> Mapping[str, Any] | None:
        return None if "code" in signature.output_fields else {"answer": "written"}

    prediction = ask(method(words), script)
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")
    assert prediction.evidence.errors


def test_code_loses_its_fence() -> None:
    assert bare("Here:\n```python\nx = 1\n```\nDone.") == "x = 1"
    assert bare("```\nx = 1") == "x = 1"
    assert bare(" x = 1 ") == "x = 1"
    assert bare(None) == ""


def test_a_transcript_leaves_out_the_oldest_outputs_first() -> None:
    steps = [Ran(f"t{n}", f"c{n}", "word " * 100) for n in range(3)]
    shown = transcript(steps, 320)
    assert shown.count(LEFT_OUT) == 1
    assert shown.index(LEFT_OUT) < shown.index("word")
    assert all(f"c{n}" in shown for n in range(3))
    assert "characters more" in transcript(steps, 50)
    assert transcript([], 50) == ""
