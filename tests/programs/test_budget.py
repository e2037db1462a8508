"""HopBudget: reading, bounds, caps and knobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs import BudgetError, HopBudget, Knob, build
from programs.agentic import Agentic
from programs.budget import LIMITS


def test_a_budget_reads_from_the_command_line() -> None:
    budget = HopBudget.parse("passages=3, hops=2,think=planner+resolver")
    assert (budget.passages, budget.hops, budget.think) == (3, 2, ("planner", "resolver"))


@pytest.mark.parametrize("text", ["passages", "passages=x", "speed=3", "passages=0", "hops=-1"])
def test_a_bad_budget_is_refused_by_name(text: str) -> None:
    with pytest.raises(BudgetError, match="budget: "):
        HopBudget.parse(text)


@given(st.fixed_dictionaries({n: st.integers(*LIMITS[n]) for n in LIMITS}))
def test_a_budget_survives_json(values: dict[str, int]) -> None:
    budget = HopBudget(**values, think=("b", "a"))
    assert HopBudget.from_json(budget.to_json()) == budget


def test_caps_only_lower() -> None:
    assert HopBudget(hops=4).capped({"hops": 9, "passages": 2}) == HopBudget(hops=4, passages=2)
    with pytest.raises(BudgetError, match="no bound"):
        HopBudget().capped({"speed": 1})


def test_thinking_is_a_knob() -> None:
    knob = Knob("think.planner", (False, True))
    budget = knob.apply(HopBudget(think=("writer",)), True)
    assert budget.think == ("planner", "writer")
    assert knob.read(budget) is True
    assert knob.apply(budget, False).think == ("writer",)


def test_a_part_goes_as_far_as_its_own_default_unless_it_is_told(words: Any) -> None:
    assert build("router", words, HopBudget(hops=4)).agentic.budget.hops == 4
    assert build("router", words, HopBudget(hops=2)).agentic.budget.hops == 2
    assert build("router", words, HopBudget(hops=4, passages=2)).agentic.budget.passages == 2
    assert build("router", words, HopBudget(hops=5)).agentic.budget.hops == 5
    wide = build("router", words, HopBudget(hops=4)).agentic.budget
    assert wide.context_passages == Agentic.default_budget().context_passages


def test_another_budget_goes_to_the_parts_where_it_differs(words: Any) -> None:
    program = build("router", words)
    other = program.with_budget(replace(program.budget, passages=2))
    assert other.agentic.budget == replace(program.agentic.budget, passages=2)
    assert other.decompose.budget.passages == 2
    assert program.agentic.budget.passages == 5


def test_roles_that_think_are_handed_on_and_the_parts_own_stay(words: Any) -> None:
    program = build("router", words)
    program.decompose.budget = replace(program.decompose.budget, think=("resolver",))
    thinking = program.with_budget(replace(program.budget, think=("planner",)))
    assert thinking.decompose.budget.think == ("planner", "resolver")
    back = thinking.with_budget(replace(thinking.budget, think=()))
    assert back.decompose.budget.think == ("resolver",)
