"""Each rule of ``metrics.attribution`` on a two-hop chain, in the order of the rules."""

from dataclasses import replace
from typing import Any

import pytest

from metrics import (
    STAGES,
    GoldStep,
    Record,
    Step,
    Usage,
    attribute,
    attribution_table,
    broken_stage,
    is_wrong,
)

GOLD = (
    GoldStep("film", "Who directed the film Heat?", "Michael Mann"),
    GoldStep("mann", "In which city was {answer_1} born?", "Chicago"),
)
FIRST = Step("Who directed the film Heat?", ("film", "x"), "Michael Mann", "planner", "resolved")
SECOND = Step("birthplace of Michael Mann", ("mann", "y"), "Chicago", "planner", "resolved")


def made(*steps: Step, answer: str | None = "Boston", **fields: Any) -> Record:
    given: dict[str, Any] = {
        "id": "q",
        "question": "In which city was the director of Heat born?",
        "answers": ("Chicago",),
        "supporting": ("film", "mann"),
        "gold": GOLD,
        "ordered": True,
        "usage_by_role": {"resolver": Usage(lm_calls=2)},
        "stop_reason": "answered",
    }
    ranked = tuple(dict.fromkeys(p for s in steps for p in s.passages))
    return Record(answer=answer, steps=steps, ranked=ranked, **{**given, **fields})


def stage_and_hop(record: Record) -> tuple[str, int | None]:
    broken = attribute(record)
    assert broken is not None
    return broken.stage, broken.hop


def test_a_right_answer_broke_nowhere_even_over_a_broken_chain() -> None:
    assert broken_stage(made(FIRST, answer="chicago")) is None
    assert broken_stage(made(answer=None, answerable=False)) is None


def test_a_failure_is_an_error_and_one_for_want_of_budget_is_budget() -> None:
    assert broken_stage(made(FIRST, answer=None, error="ReadTimeout: 30 s")) == "error"
    assert broken_stage(made(FIRST, answer=None, error="the budget left no answer")) == "budget"
    assert broken_stage(made(answer=None, answerable=False, error="ReadTimeout")) == "error"


def test_an_answer_to_an_unanswerable_question_is_read_wrongly_or_made_up_at_the_end() -> None:
    blank = replace(SECOND, answer=None, status="unresolved")
    assert broken_stage(made(FIRST, SECOND, answerable=False)) == "reading"
    assert broken_stage(made(FIRST, blank, answerable=False)) == "synthesis"
    assert broken_stage(made(FIRST, answerable=False)) == "reading"


def test_nothing_is_said_without_gold_passages() -> None:
    nameless = tuple(replace(hop, passage=None) for hop in GOLD)
    assert broken_stage(made(FIRST, gold=nameless)) == "unknown"
    assert broken_stage(made(FIRST, gold=(), supporting=(), ordered=False)) == "unknown"


def test_a_budget_that_ended_before_the_chain_did_is_to_blame_at_the_first_hop_left() -> None:
    blank = replace(SECOND, answer=None, status="unresolved")
    assert stage_and_hop(made(FIRST, stop_reason="budget")) == ("budget", 2)
    assert stage_and_hop(made(FIRST, blank, stop_reason="budget")) == ("budget", 2)
    assert stage_and_hop(made(FIRST, SECOND, stop_reason="budget")) == ("synthesis", None)


def test_a_wrong_entity_at_one_hop_is_to_blame_for_the_next_ones_missing_passage() -> None:
    wrong = replace(FIRST, answer="Al Pacino")
    led_astray = Step("birthplace of Al Pacino", ("pacino",), "New York", "planner", "resolved")
    broken = attribute(made(wrong, led_astray, answer="New York"))
    assert broken is not None
    assert (broken.stage, broken.hop, broken.never_retrieved) == ("reading", 1, (2,))


def test_a_hop_that_no_query_asked_for_is_the_plans_fault() -> None:
    again = Step("Who acted in the film Heat?", ("x",), "Al Pacino", "planner", "resolved")
    assert stage_and_hop(made(FIRST, again)) == ("planning", 2)
    off_topic = Step("weather today", ("x",), None, "planner")
    assert stage_and_hop(made(off_topic, replace(off_topic, query="news"))) == ("planning", 1)


def test_a_query_with_the_hops_entity_or_words_makes_it_the_retrievers_fault() -> None:
    not_found = replace(SECOND, passages=("y",), answer=None, status="unresolved")
    assert stage_and_hop(made(FIRST, not_found)) == ("retrieval", 2)
    nowhere = replace(FIRST, passages=("x",), answer=None, status="unresolved")
    assert stage_and_hop(made(nowhere, SECOND)) == ("retrieval", 1)


def test_one_search_that_cannot_know_the_second_hops_entity_never_asked_for_it() -> None:
    single = Step("In which city was the director of Heat born?", ("film",), "Boston", "writer")
    record = made(single, usage_by_role={"writer": Usage(lm_calls=1)})
    assert stage_and_hop(record) == ("planning", 2)


def test_a_query_for_the_other_side_of_a_comparison_did_not_ask_for_this_one() -> None:
    gold = (
        GoldStep("A", "In which year was Tikruprix founded?", "1939"),
        GoldStep("B", "In which year was Dimousall founded?", "1935"),
    )
    one = Step("In which year was Tikruprix founded?", ("A",), "1939", "planner", "resolved")
    assert stage_and_hop(made(one, gold=gold)) == ("planning", 2)
    both = Step("Was Tikruprix founded before Dimousall?", ("A",), "1939", "writer")
    assert stage_and_hop(made(both, gold=gold)) == ("retrieval", 2)


def test_gold_that_was_all_there_is_reading_for_a_program_that_resolves_nothing() -> None:
    single = Step("director of Heat", ("film", "mann"), "Boston", "writer")
    assert broken_stage(made(single, usage_by_role={"writer": Usage(lm_calls=1)})) == "reading"
    quiet = [replace(s, answer=None) for s in (FIRST, SECOND)]
    assert broken_stage(made(*quiet, usage_by_role={})) == "reading"


def test_a_retrieved_hop_without_its_entity_is_reading_at_that_hop() -> None:
    assert stage_and_hop(made(FIRST, replace(SECOND, answer="Boston"))) == ("reading", 2)
    assert stage_and_hop(made(FIRST, replace(SECOND, answer=None), answer=None)) == ("reading", 2)


def test_a_passage_that_only_another_hops_query_found_is_no_help_to_the_reader() -> None:
    early = replace(FIRST, passages=("film", "mann"))
    blind = replace(SECOND, passages=("y",), answer=None, status="unresolved")
    assert stage_and_hop(made(early, blind)) == ("retrieval", 2)
    unasked = replace(blind, query="Who acted in the film Heat?")
    assert stage_and_hop(made(early, unasked)) == ("planning", 2)


def test_a_hop_is_resolved_when_the_next_one_is_whatever_name_it_went_by() -> None:
    alias = replace(FIRST, answer="M. K. M.")
    assert stage_and_hop(made(alias, SECOND)) == ("synthesis", None)


def test_a_resolved_chain_with_another_final_answer_is_synthesis() -> None:
    assert stage_and_hop(made(FIRST, SECOND)) == ("synthesis", None)


def loose(*steps: Step, **fields: Any) -> Record:
    gold = (GoldStep("film"), GoldStep("mann"))
    return made(*steps, gold=gold, ordered=False, **fields)


def test_data_without_sub_questions_tells_planning_from_retrieval_by_the_number_of_queries() -> (
    None
):
    missed = replace(SECOND, passages=("y",))
    assert stage_and_hop(loose(FIRST)) == ("planning", 2)
    assert stage_and_hop(loose(FIRST, replace(FIRST, passages=("z",)))) == ("planning", 2)
    assert stage_and_hop(loose(FIRST, missed)) == ("retrieval", 2)


def test_data_without_sub_questions_tells_reading_from_synthesis_by_the_steps_answers() -> None:
    misread = replace(SECOND, answer="Boston")
    assert broken_stage(loose(FIRST, misread)) == "reading"
    assert broken_stage(loose(FIRST, SECOND)) == "synthesis"
    assert broken_stage(loose(FIRST, misread, kind="comparison")) == "synthesis"
    assert broken_stage(loose(FIRST, misread, answers=("yes",), answer="no")) == "synthesis"
    blank = replace(SECOND, answer=None)
    assert broken_stage(loose(FIRST, blank, kind="comparison")) == "reading"


def test_supporting_passages_stand_in_where_there_are_no_hops() -> None:
    broken = attribute(made(FIRST, gold=(), ordered=False))
    assert broken is not None
    assert (broken.stage, broken.never_retrieved) == ("planning", (2,))


def test_the_table_counts_each_wrong_answer_once_by_hop_count() -> None:
    one = made(FIRST, gold=GOLD[:1])
    records = [one, made(FIRST, SECOND), made(FIRST, SECOND, answer="Chicago"), made(FIRST)]
    table = attribution_table(records)
    assert list(table) == ["1", "2", "all"]
    assert table["2"]["n"] == 3
    assert table["2"]["wrong"] == 2
    assert table["2"]["synthesis"] == 1
    assert table["all"]["wrong"] == sum(map(is_wrong, records)) == 3
    assert all(sum(row[s] for s in STAGES) == row["wrong"] for row in table.values())


@pytest.mark.parametrize("by", ["hops", "supporting", "kind"])
def test_the_table_of_nothing_has_its_total_row(by: Any) -> None:
    assert attribution_table([], by)["all"]["n"] == 0
