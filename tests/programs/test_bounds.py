"""What a program reads of its budget: a bound that it is said not to read changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from programs import HopBudget, build, methods
from programs.bounds import bounds_read, bounds_set, roles
from programs.budget import HANDED_ON, LIMITS
from programs.knowledge import Knowledge
from tests.programs.test_router import ask

EVERY = frozenset(f.name for f in fields(HopBudget))
Build = Callable[..., Any]


@pytest.fixture
def made(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> Callable[..., Any]:
    knowledge = knowledge_of(world)
    return lambda name, budget=None, **given: build(
        name, words, budget, knowledge=knowledge, **given
    )


def test_a_method_reads_its_knobs_its_defaults_and_what_every_search_has(made: Build) -> None:
    search = {"passages", "retrieve", "context_passages", "context_tokens", "lm_calls", "think"}
    assert bounds_read(made("single_shot")) == search
    assert bounds_read(made("decompose")) == search | {"sub_queries", "candidates"}
    assert bounds_read(made("hiq_static")) >= {"depth", "expansions", "candidates", "sub_queries"}
    assert bounds_read(made("direct")) == {"lm_calls", "think"}
    assert "sub_queries" not in bounds_read(made("hiq"))
    assert "sub_queries" in bounds_read(made("hiq", decomposition="static"))


def test_what_its_parts_read_a_method_reads(made: Build) -> None:
    read = bounds_read(made("router"))
    assert {"passages", "retrieve", "hops", "sub_queries", "candidates"} <= read
    assert not {"depth", "expansions"} & read
    assert {"hops", "candidates", "passages"} <= bounds_read(made("graph"))
    other = HopBudget(**{name: low + 1 for name, (low, _) in LIMITS.items()}, think=("writer",))
    same = other.handed_on(HopBudget(), own=other)
    assert {n for n in EVERY if getattr(same, n) == getattr(other, n)} == set(HANDED_ON)
    assert other.handed_on(HopBudget(), own=HopBudget()) == other


@pytest.mark.parametrize("name", sorted(n for n, c in methods().items() if c.info.oracle))
def test_a_bound_that_is_not_read_changes_nothing(name: str, made: Build, world: Benchmark) -> None:
    plain = made(name)
    unread = EVERY - bounds_read(plain)
    changed = {n: LIMITS[n][0] for n in unread}
    other = made(name, replace(plain.budget, **changed))
    assert bounds_set(other) == {n for n in unread if changed[n] != getattr(plain.budget, n)}
    for question in world.questions["dev"][:3]:
        oracle = OracleAdapter([question])
        told = [ask(program, oracle, question.question) for program in (plain, other)]
        assert told[0].answer == told[1].answer
        assert told[0].usage.total.lm_calls == told[1].usage.total.lm_calls
        assert [h.query for h in told[0].evidence.hops] == [h.query for h in told[1].evidence.hops]


def test_the_roles_of_a_program_are_its_steps_and_those_of_its_parts(made: Build) -> None:
    assert roles(made("decompose")) == {"planner", "resolver", "synthesizer", "writer"}
    assert {"router", "controller", "walker", "planner"} <= roles(made("router"))
