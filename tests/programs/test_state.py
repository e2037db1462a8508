"""State: budget and parts survive, optimizers' marks hide no predictor, shapes are checked."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from programs import HopBudget, StateError, build
from programs.state import own_predictors, strip, unfreeze
from signatures import Resolve


def test_compiled_marks_lose_nothing(words: Any) -> None:
    program = build("decompose", words)
    whole = set(program.dump_state()["predictors"])
    program._compiled = True
    for step in program.steps.values():
        step._compiled = True
    assert set(program.dump_state()["predictors"]) == whole
    unfreeze(program)
    assert not program._compiled


def test_a_changed_signature_is_refused_field_by_field(words: Any) -> None:
    program = build("decompose", words)
    state = program.dump_state()
    program.resolver.signature = Resolve.append("source", dspy.OutputField(), type_=int)
    before = program.budget
    with pytest.raises(StateError, match=r"signature of resolver: saved fields .*source"):
        program.load_state(state)
    assert program.budget == before


def test_all_differences_are_named_at_once(words: Any) -> None:
    state = build("single_shot", words).dump_state()
    with pytest.raises(StateError) as told:
        build("decompose", words).load_state(state)
    assert "planner" in str(told.value)
    assert "synthesizer" in str(told.value)


def test_rewritten_instructions_load(words: Any) -> None:
    program = build("decompose", words)
    program.planner.signature = program.planner.signature.with_instructions("Plan well.")
    other = build("decompose", words)
    other.load_state(program.dump_state())
    assert other.planner.signature.instructions == "Plan well."


def test_no_key_is_in_a_state(words: Any) -> None:
    program = build("decompose", words)
    program.planner.lm = dspy.LM("openai/gpt-4.1-mini", api_key="sk-planted")
    assert "sk-planted" not in str(program.dump_state())


def test_candidates_left_by_optimizers_are_stripped(words: Any) -> None:
    program = build("decompose", words)
    program.candidate_programs = [{"program": program}]
    strip(program)
    assert not hasattr(program, "candidate_programs")


def test_predictors_have_plain_names(words: Any) -> None:
    names = set(own_predictors(build("decompose", words)))
    assert names == {"final", "lister", "planner", "repairer", "resolver", "synthesizer"}


def test_with_budget_leaves_the_original_alone(words: Any) -> None:
    program = build("decompose", words)
    assert program.with_budget(HopBudget(passages=9)).budget.passages == 9
    assert program.budget.passages == 5
