"""Carried answers: what goes together and what doesn't."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from programs.carried import Carried, Variant, carry, variants
from programs.plans import PlanStep

WHO = [Carried("Ida", 0, {0: "Ida"}), Carried("Orla", 0, {0: "Orla"})]
BOTH = PlanStep("Did {answer_1} live in {answer_2}?", (0, 1))


def test_each_answer_is_a_way_to_ask_best_first() -> None:
    step = PlanStep("Where was {answer_1} born?", (0,))
    ways = variants(1, step, {0: WHO}, 5)
    assert [w.query for w in ways] == ["Where was Ida born?", "Where was Orla born?"]
    assert [w.parent for w in ways] == [0, 0]
    assert variants(1, step, {0: WHO}, 1) == ways[:1]


def test_answers_that_rest_on_different_candidates_do_not_go_together() -> None:
    where = [
        Carried("Tamm", 1, {0: "Ida", 1: "Tamm"}),
        Carried("Ulm", 2, {0: "Orla", 1: "Ulm"}),
    ]
    ways = variants(2, BOTH, {0: WHO, 1: where}, 5)
    assert [w.query for w in ways] == ["Did Ida live in Tamm?", "Did Orla live in Ulm?"]
    assert [w.parent for w in ways] == [1, 2]


def test_a_step_whose_answer_was_not_found_is_asked_without_it() -> None:
    ways = variants(2, BOTH, {0: WHO[:1], 1: [Carried(None, 4)]}, 5)
    assert [w.query for w in ways] == ["Did Ida live in the answer to sub-question 2?"]
    assert ways[0].parent == 4


def test_one_query_may_rest_on_several_choices() -> None:
    years = [Carried(y, 1, {0: w, 1: y}) for y in ("1948", "1950") for w in ("Ida", "Orla")]
    ways = variants(2, PlanStep("What was in {answer_2}?", (1,)), {1: years}, 1)
    assert [w.given[0] for w in ways] == ["Ida", "Orla"]
    assert {w.query for w in ways} == {"What was in 1948?"}


def test_a_step_that_needs_nothing_is_asked_once() -> None:
    assert variants(0, PlanStep("Who?"), {}, 3) == [Variant(0, "Who?", None, {})]


def test_answers_are_taken_in_turns_and_equal_ones_of_equal_descent_once() -> None:
    ida, orla = (Variant(1, f"{n}?", 0, {0: n}) for n in ("Ida", "Orla"))
    carried = carry(1, [(ida, 1, ["Tamm", "tamm", "Bonn"]), (orla, 2, ["Tamm"])])
    assert [(c.answer, c.hop) for c in carried] == [("Tamm", 1), ("Tamm", 2), ("Bonn", 1)]
    assert carried[0].given == {0: "Ida", 1: "Tamm"}


def test_nothing_found_is_carried_as_none() -> None:
    (carried,) = carry(1, [(Variant(1, "?", 0, {0: "Ida"}), 3, [])])
    assert (carried.answer, carried.hop, carried.given) == (None, 3, {0: "Ida"})


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
    st.lists(st.lists(st.sampled_from("xyz"), max_size=3), min_size=3, max_size=3),
    st.integers(1, 4),
)
def test_any_answers_leave_at_least_one_way_and_no_more_than_the_limit(
    first: list[str], then: list[list[str]], limit: int
) -> None:
    found = {0: carry(0, [(Variant(0, "?", None, {}), 0, first)])}
    ways = variants(1, PlanStep("of {answer_1}", (0,)), found, limit)
    found[1] = carry(1, [(w, n + 1, then[n % 3]) for n, w in enumerate(ways)])
    last = variants(2, BOTH, found, limit)
    assert 1 <= len({way.query for way in last}) <= limit
    for way in last:
        assert way.query.startswith(f"Did {way.given[0]} live in")
