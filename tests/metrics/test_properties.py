"""What holds for any record, however wild."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import (
    GROUPINGS,
    STAGES,
    GoldStep,
    Record,
    Step,
    attribute,
    breakdown,
    every_metric,
    grouped,
    is_wrong,
    metric,
    summarise,
)
from metrics.metric import summary

SHARES = {
    m.name
    for m in every_metric()
    if m.unit == ""
    and m.name not in {"lm_calls", "retrievals", "passages_read", "parse_failures", "fallbacks"}
} - {"hop_recall_micro"}
passages = st.sampled_from([f"p{i}" for i in range(6)])
texts = st.one_of(
    st.sampled_from(["yes", "no", "the", "", "Ann Lee", "Lee, Ann", "noanswer"]),
    st.text(max_size=12),
)
questions = st.one_of(
    st.none(), st.sampled_from(["Who is {answer_1}?", "{answer_9} {answer_2}"]), texts
)
golds = st.lists(
    st.builds(
        GoldStep,
        st.none() | passages,
        questions,
        st.none() | texts,
        st.lists(st.integers(0, 3), max_size=2).map(tuple),
    ),
    max_size=4,
)
steps = st.lists(
    st.builds(Step, texts, st.lists(passages, max_size=4).map(tuple), st.none() | texts), max_size=4
)
records = st.builds(
    Record,
    id=st.uuids().map(str),
    question=texts,
    answer=st.none() | texts,
    answers=st.lists(texts, max_size=3).map(tuple),
    answerable=st.booleans(),
    kind=st.sampled_from(["", "bridge", "comparison"]),
    supporting=st.lists(passages, max_size=4).map(tuple),
    gold=golds.map(tuple),
    ordered=st.booleans(),
    ranked=st.lists(passages, max_size=8).map(tuple),
    steps=steps.map(tuple),
    stop_reason=st.sampled_from(["answered", "budget", "unanswerable"]),
    error=st.sampled_from([None, None, None, "ReadTimeout", "budget: deadline"]),
    seconds=st.floats(0, 100),
    answer_rule=st.sampled_from(["squad", "hotpotqa"]),
    cited=st.lists(passages, max_size=3).map(tuple),
    cited_sentences=st.none() | st.lists(st.tuples(passages, st.integers(0, 3))).map(tuple),
    judged=st.none() | st.booleans(),
)
many = st.lists(records, max_size=8)


@settings(max_examples=200, deadline=None)
@given(records)
def test_scores_are_not_applicable_or_within_their_bounds(record: Record) -> None:
    for one in every_metric():
        score = one.score(record)
        assert score is None or score >= 0
        assert one.name not in SHARES or score is None or score <= 1


@given(st.builds(Record, id=st.just("q"), question=texts, answer=st.none() | texts,
                 answers=st.lists(texts, max_size=3).map(tuple)))  # fmt: skip
def test_em_is_at_most_f1_under_squad(record: Record) -> None:
    em, f1 = metric("em").score(record), metric("f1").score(record)
    assert em is not None
    assert f1 is not None
    assert em <= f1


@settings(deadline=None)
@given(many, st.randoms())
def test_the_order_of_questions_changes_nothing(batch: list[Record], draw: random.Random) -> None:
    other = list(batch)
    draw.shuffle(other)
    names = [m.name for m in every_metric()]
    assert summarise(batch, names) == summarise(other, names)


@settings(deadline=None)
@given(many)
def test_no_question_is_lost_by_a_summary_a_group_or_an_attribution(batch: list[Record]) -> None:
    for one in every_metric():
        found = summary(one, batch)
        assert found.n + found.missing == len(batch)
        assert (found.value is None) == (found.n == 0)
        for by in GROUPINGS:
            groups = breakdown(batch, [one], by)
            assert sum(g[one.name].n for g in groups.values()) == found.n
    for by in GROUPINGS:
        assert sum(map(len, grouped(batch, by).values())) == len(batch)


@settings(max_examples=300, deadline=None)
@given(records)
def test_each_wrong_answer_has_exactly_one_stage(record: Record) -> None:
    broken = attribute(record)
    assert (broken is not None) == is_wrong(record)
    if broken is not None:
        assert broken.stage in STAGES
        assert broken.why
        hops = len(record.gold or record.supporting)
        assert broken.hop is None or 1 <= broken.hop <= hops


@given(records, st.integers(1, 9))
def test_reading_further_never_lowers_recall(record: Record, k: int) -> None:
    for name in ("support_recall", "any_support", "all_support", "support_read"):
        near, far = (metric(f"{name}@{n}").score(record) for n in (k, k + 1))
        assert (near is None) == (far is None)
        assert near is None or far is None or near <= far
