"""Every method is held to the contract in ``programs/program.py``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args, get_origin

import dspy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import STOP_REASONS, HopBudget, fingerprint, methods
from programs import build as build_method
from programs.errors import ProgramError
from programs.evidence import normal_query
from programs.registry import check_roles
from programs.step import Step

METHODS = sorted(methods())
SMALL = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def graph_of_the_world(world: Benchmark, knowledge_of: Any) -> None:
    """What methods that walk a graph are given."""
    KNOWLEDGE["world"] = knowledge_of(world)


KNOWLEDGE: dict[str, Any] = {}


def build(name: str, retriever: Any, budget: HopBudget | None = None) -> Any:
    return build_method(name, retriever, budget, knowledge=KNOWLEDGE["world"])


def ask(program: Any, question: str, adapter: Any) -> dspy.Prediction:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def check(prediction: dspy.Prediction, budget: HopBudget) -> None:
    assert prediction.stop_reason in STOP_REASONS
    if prediction.answer is None:
        assert prediction.stop_reason in ("unanswerable", "error")
    else:
        assert prediction.answer.strip()
    assert prediction.usage.total.lm_calls <= budget.lm_calls
    hops = prediction.evidence.hops
    for hop in hops:
        assert hop.parent is None or hop.parent < hop.id
        assert len(hop.passages) <= budget.passages
    searched = [normal_query(q) for q in prediction.evidence.queries]
    assert len(searched) == len(set(searched))


def outputs_of(draw: Any, signature: type[dspy.Signature]) -> Mapping[str, Any] | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    return {name: draw(values(field.annotation)) for name, field in signature.output_fields.items()}


def values(annotation: Any) -> st.SearchStrategy[Any]:
    text = st.sampled_from(
        [
            "",
            "null",
            "Ada Quill",
            "1948",
            "yes",
            "What is {answer_1}?",
            "{answer_9}",
            "x" * 300,
            "?",
        ]
    )
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(-3, 30)
    if annotation is float:
        return st.floats(0, 1)
    if get_origin(annotation) is list:
        numbers = int in get_args(annotation)
        return st.lists(st.integers(-3, 70) if numbers else text, max_size=12)
    if type(None) in get_args(annotation):
        return st.one_of(st.none(), text)
    choices = [a for a in get_args(annotation) if isinstance(a, str)]
    return st.sampled_from(choices) if choices else text


@pytest.mark.parametrize("name", METHODS)
def test_steps_ask_in_roles_that_can_have_an_lm_of_their_own(name: str, words: Any) -> None:
    roles = {m.role for _, m in build(name, words).named_sub_modules(Step)}
    assert roles
    check_roles(roles)
    with pytest.raises(ProgramError, match="no step asks as 'plannr'; roles are actor, asker, "):
        check_roles([*roles, "plannr"])


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    @SMALL
    @given(script=st.data(), cap=st.integers(1, 12))
    def test_ends_within_its_budget_on_any_output(
        self, name: str, world: Benchmark, words: Any, script: st.DataObject, cap: int
    ) -> None:
        budget = replace(methods()[name].default_budget(), lm_calls=cap)
        adapter = ScriptedAdapter(lambda s, _: outputs_of(script.draw, s))
        program = build(name, words, budget)
        prediction = ask(program, world.questions["dev"][0].question, adapter)
        check(prediction, budget)
        assert prediction.usage.total.lm_calls <= cap

    def test_an_lm_that_never_parses_ends_with_a_reason(
        self, name: str, world: Benchmark, words: Any
    ) -> None:
        program = build(name, words)
        prediction = ask(
            program, world.questions["dev"][0].question, ScriptedAdapter(lambda *_: None)
        )
        check(prediction, program.budget)
        assert prediction.answer is None
        assert prediction.usage.total.parse_failures == prediction.usage.total.lm_calls

    def test_the_oracle_answers_single_questions(
        self, name: str, world: Benchmark, words: Any
    ) -> None:
        if not methods()[name].info.oracle:
            pytest.skip("the oracle can't answer for it")
        single = next(q for q in world.questions["dev"] if q.kind == "single")
        program = build(name, words)
        prediction = ask(program, single.question, OracleAdapter([single]))
        check(prediction, program.budget)
        assert prediction.answer == single.answer

    def test_later_hops_follow_from_earlier_ones(
        self, name: str, world: Benchmark, words: Any
    ) -> None:
        if not methods()[name].info.oracle or name == "coverage_anchor":
            pytest.skip("the oracle can't answer for it, or all its searches are one wave")
        bridge = next(q for q in world.questions["dev"] if q.kind == "bridge")
        hops = ask(build(name, words), bridge.question, OracleAdapter([bridge])).evidence.hops
        waves = {hop.parent for hop in hops}
        assert len(hops) == 1 or waves - {None}

    def test_passages_knob_is_respected_exactly(
        self, name: str, world: Benchmark, words: Any
    ) -> None:
        if "passages" not in {k.name for k in methods()[name].knobs}:
            pytest.skip("reads no passages")
        for k in (1, 3):
            program = build(name, words, replace(methods()[name].default_budget(), passages=k))
            question = world.questions["dev"][0]
            prediction = ask(program, question.question, OracleAdapter([question]))
            searched = [h for h in prediction.evidence.hops if h.passages and h.source == "search"]
            assert all(len(h.passages) == k for h in searched)

    def test_state_round_trip_keeps_budget_and_demonstrations(self, name: str, words: Any) -> None:
        program = build(name, words, HopBudget(passages=7, think=("writer",)))
        predictor = program.predictors()[0]
        predictor.demos = [dspy.Example(question="q", answer="a")]
        other = build(name, words)
        assert fingerprint(other) != fingerprint(program)
        other.load_state(program.dump_state())
        assert other.budget == program.budget
        assert fingerprint(other) == fingerprint(program)

    def test_a_copy_shares_the_retriever_and_nothing_else(self, name: str, words: Any) -> None:
        program = build(name, words)
        copied = copy.deepcopy(program)
        assert copied.retriever is program.retriever
        copied.predictors()[0].demos.append(dspy.Example(question="q"))
        assert not program.predictors()[0].demos

    def test_an_empty_question_is_refused(self, name: str, words: Any) -> None:
        from programs import QuestionError

        with pytest.raises(QuestionError, match="empty"):
            ask(build(name, words), "  ", ScriptedAdapter(lambda *_: None))

    def test_each_predictor_has_its_own_signature_or_role(self, name: str, words: Any) -> None:
        steps = build(name, words).steps
        assert all(step.role for step in steps.values())
        shapes = [(tuple(s.signature.fields), s.signature.instructions) for s in steps.values()]
        assert len(shapes) == len(set(shapes))
