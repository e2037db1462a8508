"""Hop metrics on a chain made by hand."""

from dataclasses import replace

import pytest

from metrics import GoldStep, Record, Step, metric, summarise
from metrics.chain import hop_times, resolved_hops, same_entity

CHAIN = (
    GoldStep("film", "Who directed Heat?", "Michael Mann"),
    GoldStep("mann", "Where was {answer_1} born?", "Chicago"),
    GoldStep("city", "Who founded {answer_2}?", "Jean Baptiste Point du Sable"),
)


def chain(*steps: Step, gold: tuple[GoldStep, ...] = CHAIN, ordered: bool = True) -> Record:
    ranked = tuple(dict.fromkeys(p for s in steps for p in s.passages))
    return Record(
        id="q", question="?", answer="x", gold=gold, ordered=ordered, steps=steps, ranked=ranked
    )


def score(name: str, record: Record) -> float | None:
    return metric(name).score(record)


def test_hop_recall_counts_hops_whose_passage_any_query_found() -> None:
    record = chain(Step("a", ("x", "mann")), Step("b", ("film",)))
    assert score("hop_recall", record) == pytest.approx(2 / 3)


def test_order_wants_a_hop_no_earlier_than_those_it_refers_to() -> None:
    right = chain(Step("a", ("film",)), Step("b", ("mann",)), Step("c", ("city",)))
    backwards = chain(Step("a", ("city",)), Step("b", ("mann",)), Step("c", ("film",)))
    at_once = chain(Step("a", ("city", "mann", "film")))
    assert score("hop_recall_in_order", right) == 1.0
    assert score("hop_recall_in_order", backwards) == pytest.approx(1 / 3)
    assert score("hop_recall_in_order", at_once) == 1.0


def test_a_lucky_early_find_does_not_spoil_a_later_one_in_order() -> None:
    record = chain(Step("a", ("mann",)), Step("b", ("film",)), Step("c", ("mann", "city")))
    assert hop_times(record) == {0: 1, 1: 2, 2: 2}
    assert score("hop_recall_in_order", record) == 1.0


def test_a_hop_behind_a_missed_one_does_not_count_in_order() -> None:
    record = chain(Step("a", ("mann",)), Step("b", ("city",)))
    assert score("hop_recall", record) == pytest.approx(2 / 3)
    assert score("hop_recall_in_order", record) == 0.0


def test_independent_hops_may_come_in_any_order() -> None:
    pair = (GoldStep("a", "When was A made?", "1990"), GoldStep("b", "When was B made?", "1980"))
    assert score("hop_recall_in_order", chain(Step("q", ("b",)), Step("q", ("a",)), gold=pair)) == 1


def test_a_hop_whose_passage_is_not_in_the_corpus_is_left_out_and_passes_its_needs_on() -> None:
    gold = (CHAIN[0], replace(CHAIN[1], passage=None), CHAIN[2])
    early = chain(Step("a", ("city",)), Step("b", ("film",)), gold=gold)
    assert score("hop_recall", early) == 1.0
    assert score("hop_recall_in_order", early) == 0.5
    assert resolved_hops(early) == [False, None, False]


def test_metrics_of_order_are_not_applicable_without_a_chain_or_without_steps() -> None:
    loose = chain(Step("a", ("film",), "Michael Mann"), ordered=False)
    foreign = replace(chain(), ranked=("film",))
    for name in ("hop_recall_in_order", "first_hop", "decomposition_accuracy"):
        assert score(name, loose) is None
        assert score(name, foreign) is None
        assert score(name, chain()) == 0.0
    assert score("hop_recall", foreign) == pytest.approx(1 / 3)


def test_first_hop_looks_at_the_first_retrieval_for_any_hop_that_waits_for_none() -> None:
    assert score("first_hop", chain(Step("plan"), Step("a", ("x", "film")))) == 1.0
    assert score("first_hop", chain(Step("a", ("mann",)), Step("b", ("film",)))) == 0.0


def test_decomposition_matches_each_hops_entity_to_any_steps_answer() -> None:
    record = chain(Step("a", ("film",), "Michael K. Mann"), Step("b", ("mann",), "New York"))
    assert resolved_hops(record) == [True, False, False]
    assert score("decomposition_accuracy", record) == pytest.approx(1 / 3)


def test_decomposition_is_not_applicable_where_steps_only_search() -> None:
    searched = chain(Step("a", ("film",), role="actor"), Step("b", ("mann",), role="actor"))
    assert score("decomposition_accuracy", searched) is None
    open_hop = chain(Step("a", ("film",), role="planner", status="unresolved"))
    assert score("decomposition_accuracy", open_hop) == 0.0


def test_entities_are_the_same_from_four_fifths_of_f1_on() -> None:
    assert same_entity("Robert Lee Jr.", "Robert Lee")
    assert not same_entity("Robert Edward Lee Jr.", "Robert Lee")
    assert not same_entity("Chicago", "New York")


def test_micro_recall_weighs_hops_where_the_mean_weighs_questions() -> None:
    one = chain(Step("a", ("film",)), gold=CHAIN[:1])
    three = chain()
    values = summarise([one, three], ["hop_recall", "hop_recall_micro"])
    assert values["hop_recall"].value == 0.5
    assert values["hop_recall_micro"].value == 0.25
