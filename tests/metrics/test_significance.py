"""Intervals, paired differences and corrections against scipy, formulas and each other."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics import (
    GoldStep,
    Record,
    SignificanceError,
    compare,
    detectable,
    holm,
    interval,
    mean_interval,
    metric,
    paired,
    standard_error,
)

values = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=60)


def noisy(n: int, share: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [float(draw.random() < share) for _ in range(n)]


def test_the_interval_of_a_mean_is_scipys_percentile_bootstrap() -> None:
    data = np.random.default_rng(3).beta(2, 3, 120)
    wanted = stats.bootstrap(
        (data,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(9)
    ).confidence_interval
    found = mean_interval(list(data))
    assert found.value == pytest.approx(data.mean())
    assert found.low == pytest.approx(wanted.low, abs=0.002)
    assert found.high == pytest.approx(wanted.high, abs=0.002)


def test_a_paired_difference_agrees_with_the_t_test_where_that_holds() -> None:
    random_ = np.random.default_rng(1)
    a = random_.normal(0.5, 0.2, 200)
    b = a + random_.normal(0.02, 0.12, 200)
    found = paired(list(a), list(b))
    wanted = stats.ttest_rel(b, a)
    low, high = wanted.confidence_interval(0.95)
    assert found.p == pytest.approx(wanted.pvalue, abs=0.01)
    assert found.low == pytest.approx(low, abs=0.003)
    assert found.high == pytest.approx(high, abs=0.003)
    assert found.standard_error == pytest.approx(stats.sem(b - a))


def test_pairing_sees_what_unpaired_intervals_hide() -> None:
    a = noisy(200, 0.5, 1)
    b = [min(1.0, x + float(i % 20 == 0)) for i, x in enumerate(a)]
    found = paired(a, b)
    assert found.low > 0 or found.p < 0.05
    assert mean_interval(a).high > mean_interval(b).low


def test_equal_runs_differ_by_nothing_with_p_one() -> None:
    scores = noisy(50, 0.4, 2)
    found = paired(scores, scores)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert found.detectable == 0


def test_p_never_falls_to_zero_and_is_two_sided() -> None:
    up, down = paired([0.0] * 40, [1.0] * 40), paired([1.0] * 40, [0.0] * 40)
    assert up.p == down.p == pytest.approx(2 / 10_001)


def test_under_no_difference_few_tests_call_it_significant() -> None:
    draws = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        a, b = draws.integers(0, 2, (2, 80)).astype(float)
        hits += paired(list(a), list(b), resamples=400).p < 0.05
    assert 3 <= hits <= 32


@settings(max_examples=50, deadline=None)
@given(values, st.randoms())
def test_swapping_the_runs_flips_the_sign_only(a: list[float], draw: random.Random) -> None:
    b = [draw.random() for _ in a]
    there, back = paired(a, b, resamples=500), paired(b, a, resamples=500)
    assert there.difference == pytest.approx(-back.difference)
    assert there.low == pytest.approx(-back.high)
    assert there.p == pytest.approx(back.p)


@settings(max_examples=50, deadline=None)
@given(values)
def test_an_interval_lies_within_the_values_and_is_the_same_again(data: list[float]) -> None:
    found = mean_interval(data, resamples=200, seed=4)
    assert min(data) - 1e-9 <= found.low <= found.high <= max(data) + 1e-9
    assert found == mean_interval(data, resamples=200, seed=4)


def test_a_large_run_is_resampled_in_parts_of_the_same_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from metrics import significance

    data = noisy(300, 0.3, 8)
    whole = mean_interval(data, resamples=1000)
    monkeypatch.setattr(significance, "_CELLS", 1000)
    assert mean_interval(data, resamples=1000) == whole


def test_questions_without_a_score_on_one_side_are_dropped_and_counted() -> None:
    found = paired([1.0, None, 0.0, 1.0], [1.0, 1.0, None, 0.0])
    assert (found.n, found.dropped, found.difference) == (2, 2, -0.5)


def test_scores_that_cannot_be_compared_are_refused_with_the_reason() -> None:
    with pytest.raises(SignificanceError, match="2 and 1 scores"):
        paired([1.0, 0.0], [1.0])
    with pytest.raises(SignificanceError, match="no question of 1"):
        paired([None], [1.0])
    with pytest.raises(SignificanceError, match="nothing to resample"):
        mean_interval([])
    with pytest.raises(SignificanceError, match="level"):
        mean_interval([1.0], level=95)
    with pytest.raises(SignificanceError, match="resample"):
        mean_interval([1.0], resamples=0)


def run(answers: dict[str, str], seconds: float = 1.0) -> list[Record]:
    return [
        Record(
            id=i,
            question="?",
            answer=a,
            answers=("right",),
            seconds=seconds * (1 + place),
            gold=tuple(GoldStep(f"p{n}") for n in range(1 + place % 3)),
            ranked=("p0",) if a == "right" else (),
        )
        for place, (i, a) in enumerate(answers.items())
    ]


def test_runs_are_matched_by_question_id_whatever_their_order() -> None:
    base = run({"a": "right", "b": "wrong", "c": "wrong", "d": "right"})
    other = run({"d": "right", "c": "right", "b": "wrong", "a": "right"})
    found = compare(metric("em"), base, other)
    assert (found.baseline, found.other, found.difference, found.n) == (0.5, 0.75, 0.25, 4)


def test_runs_on_other_questions_are_refused() -> None:
    base = run({"a": "right", "b": "wrong"})
    with pytest.raises(SignificanceError, match="1 are in one"):
        compare(metric("em"), base, run({"a": "right"}))
    with pytest.raises(SignificanceError, match="different questions"):
        compare(metric("em"), base, [*base, base[0]])


def test_percentiles_and_ratios_are_computed_in_each_resample() -> None:
    ids = [f"q{i:02}" for i in range(40)]
    slow = run(dict.fromkeys(ids, "wrong"), 2.0)
    fast = run(dict.fromkeys(ids, "right"), 1.0)
    median = compare(metric("latency_p50"), slow, fast)
    assert (median.baseline, median.other) == (41.0, 20.5)
    assert median.low < median.difference < median.high < 0
    micro = compare(metric("hop_recall_micro"), slow, fast)
    assert micro.baseline == 0
    assert micro.other == pytest.approx(40 / 79)
    assert micro.low > 0
    assert micro.detectable is None


def test_a_ratios_interval_is_that_of_the_ratio() -> None:
    records = run({f"q{i:02}": "right" if i % 2 else "wrong" for i in range(60)})
    found = interval(metric("hop_recall_micro"), records)
    assert found.value == pytest.approx(30 / 120)
    assert found.low < found.value < found.high


def test_a_metric_that_applies_to_nothing_has_no_interval() -> None:
    with pytest.raises(SignificanceError, match="hop_recall applies to none of 1"):
        interval(metric("hop_recall"), [Record(id="q", question="?", answer=None)])


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_lies_between_the_raw_p_and_bonferronis(p: list[float]) -> None:
    corrected = holm(p)
    for raw, mended in zip(p, corrected, strict=True):
        assert raw <= mended <= min(1.0, len(p) * raw) + 1e-12
    order = sorted(range(len(p)), key=p.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)


def test_a_detectable_difference_is_found_four_times_in_five() -> None:
    draws = np.random.default_rng(11)
    truth = detectable(0.3 / np.sqrt(100))
    found = 0
    for _ in range(300):
        differences = draws.normal(truth, 0.3, 100)
        found += paired([0.0] * 100, list(differences), resamples=400).p < 0.05
    assert 0.72 <= found / 300 <= 0.88
    assert detectable(1.0) == pytest.approx(2.8016, abs=1e-4)


def test_one_question_has_no_standard_error() -> None:
    assert standard_error([0.3]) is None
    assert standard_error([0.0, 1.0]) == pytest.approx(0.5)
