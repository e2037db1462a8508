"""Plans are data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.plans import parse_plan, waves


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        ([], "at least one"),
        (None, "at least one"),
        ("Who?", "list"),
        (["Who is {answer_1}?"], "does not come before"),
        (["Who?", "Where is {answer_3}?"], "does not come before"),
        (["Who?", "who?"], "repeats"),
        (["Who?", 7], "not a question in words"),
        (["Who?", "{answer_1}"], "not a question in words"),
        (["A?", "B?", "C?", "D?", "E?"], "at most 4"),
    ],
)
def test_faults_are_named(plan: object, fault: str) -> None:
    steps, told = parse_plan(plan, 4)
    assert steps == ()
    assert told is not None
    assert fault in told


def test_answers_go_into_their_places() -> None:
    steps, _ = parse_plan(["Who?", "When was {answer_1} born, and where is #1?"], 4)
    assert steps[1].filled({0: "Ada"}) == "When was Ada born, and where is Ada?"
    assert "sub-question 1" in steps[1].filled({0: None})


def test_independent_sub_questions_are_one_wave() -> None:
    steps, _ = parse_plan(["A?", "B?", "C of {answer_1}?", "D of {answer_3} and {answer_2}?"], 6)
    assert waves(steps) == [[0, 1], [2], [3]]


texts = st.one_of(
    st.text(max_size=30), st.sampled_from(["Who {answer_1}?", "x {answer_2}", "#1 y"])
)


@given(st.lists(texts, max_size=8))
def test_any_plan_is_carried_out_or_refused(plan: list[str]) -> None:
    steps, fault = parse_plan(plan, 6)
    assert bool(steps) != bool(fault)
    if steps:
        done: set[int] = set()
        for wave in waves(steps):
            for i in wave:
                assert set(steps[i].needs) <= done
            done |= set(wave)
        assert done == set(range(len(steps)))
