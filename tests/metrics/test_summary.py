"""Names, definitions, and what becomes of failed, declined and unanswerable questions."""

import pytest

from metrics import (
    DEFAULT,
    GoldStep,
    MetricError,
    Record,
    Usage,
    every_metric,
    metric,
    summarise,
)


def asked(answer: str | None, *gold: str, **fields: object) -> Record:
    return Record(id="q", question="?", answer=answer, answers=gold, **fields)  # type: ignore[arg-type]


def test_default_names_are_metrics_and_hold_what_the_command_line_promises() -> None:
    promised = {
        "em", "f1", "support_recall@5", "all_support@5", "hop_recall", "lm_calls",
        "prompt_tokens", "completion_tokens", "retrievals", "passages_read",
    }  # fmt: skip
    assert promised <= set(DEFAULT)
    assert list(summarise([], DEFAULT)) == list(DEFAULT)
    assert all(s.value is None and s.n == 0 for s in summarise([]).values())


def test_every_metric_parses_back_from_its_name_and_prints_its_own_definition() -> None:
    every = every_metric(7)
    assert [metric(m.name) for m in every] == list(every)
    assert len({m.definition for m in every}) == len(every)
    assert {m.name: dict(m.parameters) for m in every}["ndcg@7"] == {"k": 7}


@pytest.mark.parametrize("name", ["", "f2", "ndcg", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@²", "f1@5"])
def test_an_unknown_name_lists_those_there_are(name: str) -> None:
    with pytest.raises(MetricError, match=r"support_recall@K"):
        metric(name)


def test_a_name_for_several_metrics_is_spelt_out_once() -> None:
    found = summarise([asked("a", "a")], ["abstention", "latency", "latency_p50"])
    assert list(found) == [
        "abstention_precision",
        "abstention_recall",
        "latency_p50",
        "latency_p95",
    ]


def test_no_answer_to_an_answerable_question_scores_zero() -> None:
    found = summarise([asked(None, "a"), asked("a", "a")], ["em", "f1"])
    assert found["em"].value == found["f1"].value == 0.5
    assert found["em"].n == 2


def test_a_failed_question_is_wrong_whatever_it_left_behind_and_counted_apart() -> None:
    found = summarise(
        [asked("a", "a", error="endpoint down"), asked("a", "a")],
        ["em", "f1", "answer_recall", "errors", "false_rejection"],
    )
    assert [found[n].value for n in ("em", "f1", "answer_recall", "errors")] == [0.5] * 4
    assert found["false_rejection"].value == 0.0


def test_unanswerable_questions_stay_out_of_em_and_f1_and_are_counted_by_abstention() -> None:
    records = [
        asked("a", "a"),
        asked(None, "a"),
        asked(None, answerable=False),
        asked("made up", answerable=False),
        asked(None, answerable=False, error="time-out"),
    ]
    found = summarise(
        records,
        ["em", "f1", "abstention", "false_acceptance", "false_rejection"],
    )
    assert (found["em"].value, found["em"].n, found["em"].missing) == (0.5, 2, 3)
    assert found["abstention_precision"].value == 0.5
    assert found["abstention_recall"].value == pytest.approx(1 / 3)
    assert found["false_acceptance"].value == pytest.approx(1 / 3)
    assert found["false_rejection"].value == 0.5


def test_correctness_needs_a_judge_and_an_answerable_question() -> None:
    records = [
        asked("a", "b", judged=True),
        asked("a", "b"),
        asked("a", judged=True, answerable=False),
        asked("a", "a", judged=True, error="late"),
    ]
    assert [metric("correctness").score(r) for r in records] == [1.0, None, None, 0.0]


def test_costs_are_means_as_if_nothing_had_been_cached() -> None:
    cached = Usage(lm_calls=2, cached_calls=2, prompt_tokens=100, cached_prompt_tokens=100,
                   completion_tokens=10, cost=0.0, saved=0.3, parse_failures=1)  # fmt: skip
    fresh = Usage(lm_calls=4, prompt_tokens=300, completion_tokens=30, cost=0.1)
    records = [asked("a", usage=cached, retrievals=1), asked("a", usage=fresh, retrievals=4)]
    values = {n: s.value for n, s in summarise(records).items()}
    assert values["lm_calls"] == 3
    assert values["prompt_tokens"] == 200
    assert values["cached_prompt_tokens"] == 50
    assert values["completion_tokens"] == 20
    assert values["retrievals"] == 2.5
    assert values["cost"] == pytest.approx(0.2)
    assert values["parse_failures"] == 0.5


def test_money_without_a_price_is_not_applicable_rather_than_nothing() -> None:
    found = summarise([asked("a"), asked("a", usage=Usage(cost=1.0))], ["cost"])["cost"]
    assert (found.value, found.n, found.missing) == (1.0, 1, 1)


def test_latency_percentiles_are_those_of_numpy() -> None:
    import numpy as np

    times = [0.5, 9.0, 1.5, 2.0, 0.1, 7.0]
    found = summarise([asked("a", seconds=t) for t in times], ["latency", "seconds"])
    assert found["latency_p50"].value == pytest.approx(np.percentile(times, 50))
    assert found["latency_p95"].value == pytest.approx(np.percentile(times, 95))
    assert found["seconds"].value == pytest.approx(np.mean(times))


def test_citations_are_scored_where_the_answer_cites_any() -> None:
    record = asked("a", supporting=("x", "y"), cited=("x", "z", "w"))
    assert metric("citation_support").score(record) == 0.5
    assert metric("citation_precision").score(record) == pytest.approx(1 / 3)
    assert metric("citation_support").score(asked("a", supporting=("x",))) is None


def test_sentence_f1_is_hotpotqas_over_passage_and_sentence() -> None:
    gold = (GoldStep("x", sentences=(0, 2)), GoldStep("y", sentences=(1,)))
    told = asked("a", gold=gold, cited_sentences=(("x", 0), ("y", 1), ("y", 4)))
    precision = recall = 2 / 3
    wanted = 2 * precision * recall / (precision + recall)
    assert metric("sentence_f1").score(told) == pytest.approx(wanted)
    assert metric("sentence_f1").score(asked("a", gold=gold, cited_sentences=())) == 0.0
    assert metric("sentence_f1").score(asked("a", gold=gold)) is None
    assert metric("sentence_f1").score(asked("a", cited_sentences=(("x", 0),))) is None


def test_intervals_come_when_asked_for_and_hold_the_value() -> None:
    records = [asked("a", "a" if i % 3 else "b", seconds=float(i)) for i in range(30)]
    names = ["em", "latency_p95", "hop_recall"]
    assert all(s.interval is None for s in summarise(records, names).values())
    found = summarise(records, names, intervals=True)
    for name in ("em", "latency_p95"):
        value, interval = found[name].value, found[name].interval
        assert value is not None
        assert interval is not None
        assert interval[0] <= value <= interval[1]
        assert interval[0] < interval[1]
    assert found["hop_recall"].interval is None
