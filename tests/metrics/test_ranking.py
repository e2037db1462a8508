"""Ranking metrics against ir-measures, and what only ours has to say."""

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG

from metrics import Record, Step, metric, recall_at_equal_passages, support_recall_at_passages

IDS = [f"p{i}" for i in range(12)]


def seen(ranked: list[str], gold: list[str], *steps: list[str]) -> Record:
    return Record(
        id="q",
        question="?",
        answer=None,
        supporting=tuple(gold),
        ranked=tuple(ranked),
        steps=tuple(Step("query", tuple(s)) for s in steps),
    )


runs = st.lists(st.sampled_from(IDS), unique=True, min_size=1)
golds = st.lists(st.sampled_from(IDS), unique=True, min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(ranked=runs, gold=golds, k=st.integers(1, 14))
def test_recall_ndcg_and_mrr_are_those_of_ir_measures(
    ranked: list[str], gold: list[str], k: int
) -> None:
    qrels = [ir_measures.Qrel("q", p, 1) for p in gold]
    run = [ir_measures.ScoredDoc("q", p, float(-i)) for i, p in enumerate(ranked)]
    wanted = ir_measures.calc_aggregate([R @ k, nDCG @ k, RR], qrels, run)
    record = seen(ranked, gold)
    assert metric(f"support_recall@{k}").score(record) == pytest.approx(wanted[R @ k], abs=1e-9)
    assert metric(f"ndcg@{k}").score(record) == pytest.approx(wanted[nDCG @ k], abs=1e-9)
    assert metric("mrr").score(record) == pytest.approx(wanted[RR], abs=1e-9)


@given(ranked=st.lists(st.sampled_from(IDS)), gold=golds, k=st.integers(1, 14))
def test_all_any_and_share_of_support_agree_with_each_other(
    ranked: list[str], gold: list[str], k: int
) -> None:
    record = seen(ranked, gold)
    share = metric(f"support_recall@{k}").score(record)
    assert share is not None
    assert metric(f"all_support@{k}").score(record) == float(share == 1)
    assert metric(f"any_support@{k}").score(record) == float(share > 0)


def test_a_passage_named_twice_counts_once() -> None:
    record = seen(["a", "a", "b"], ["b"])
    assert metric("support_recall@2").score(record) == 1.0
    assert metric("mrr").score(record) == 0.5
    assert metric("ndcg@5").score(seen(["a", "a"], ["a"])) == 1.0


def test_a_question_without_gold_passages_is_not_applicable_and_one_without_results_is_zero() -> (
    None
):
    for name in (
        "support_recall@5",
        "all_support@5",
        "ndcg@5",
        "mrr",
        "support_read",
        "support_read@5",
    ):
        assert metric(name).score(seen(["a"], [])) is None
        assert metric(name).score(seen([], ["a"])) == 0.0


def test_reading_order_is_by_step_where_the_ranking_is_pooled() -> None:
    record = seen(["a", "gold", "b", "c"], ["gold"], ["a", "b", "c"], ["gold", "b"])
    assert metric("support_recall@2").score(record) == 1.0
    assert support_recall_at_passages(3).score(record) == 0.0
    assert support_recall_at_passages(4).score(record) == 1.0
    assert metric("support_read@4").name == support_recall_at_passages(4).name


def test_equal_reading_cuts_every_run_at_the_fewest_passages_by_question() -> None:
    short = seen(["a", "g1"], ["g1", "g2"], ["a", "g1"])
    long = seen(["g1", "b", "g2", "c"], ["g1", "g2"], ["b", "c"], ["g1", "g2"])
    assert recall_at_equal_passages([[short], [long]]) == [[0.5], [0.0]]
    assert recall_at_equal_passages([[long], [long]]) == [[1.0], [1.0]]


def test_equal_reading_refuses_other_questions() -> None:
    other = Record(id="other", question="?", answer=None)
    with pytest.raises(ValueError, match="same questions"):
        recall_at_equal_passages([[seen(["a"], ["a"])], [other]])
