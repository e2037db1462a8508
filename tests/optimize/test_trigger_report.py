"""Diagnostics of Hi-Q's trigger on rows whose values are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.question import GoldHop, Question
from benchmarks.scripted import stand_in
from optimize.errors import RunError
from optimize.evaluate import evaluate
from optimize.rows import HopRow, PredictionRow
from optimize.run import close_run, header, open_run
from optimize.saved import SavedRun, read_run
from optimize.trigger_report import (
    CAUSES,
    Case,
    cases_of,
    causes,
    fitted_threshold,
    sample_cases,
    trigger_report,
)
from programs import build

GOLD = ("g1", "g2")
QUESTION = Question.of(
    id="q",
    question="Where was the founder of Norvale born?",
    answer="Tamsin",
    supporting=GOLD,
    hops=(GoldHop("g1", "Who founded Norvale?", "Ada"), GoldHop("g2", "Where?", "Tamsin")),
)


def hop(id: int, parent: int | None, passages: tuple[str, ...], **more: Any) -> HopRow:
    known = {"role": "resolver", "query": "x", "refined": "x", "status": "resolved", **more}
    depth = 0 if parent is None else 1
    return HopRow(id=id, parent=parent, depth=depth, passages=list(passages), **known)


def case(*hops: HopRow, answer: str | None = "Tamsin", k: int = 2) -> Case:
    row = PredictionRow(
        id="q", fingerprint="f", answer=answer, stop_reason="answered", hops=list(hops)
    )
    return Case(QUESTION, row, k)


def test_a_root_that_was_read_is_not_triggered() -> None:
    found = case(hop(0, None, ("g1", "x"))).measured()
    assert found["triggered"] == 0.0
    assert found["precision"] is None
    assert found["missed"] == 1.0


def test_splitting_that_finds_what_was_missing() -> None:
    found = case(
        hop(0, None, ("g1", "x"), status="unresolved", note="split: a | b"),
        hop(1, 0, ("g1", "y")),
        hop(2, 0, ("g2", "z")),
    ).measured()
    assert found["precision"] == 1.0
    assert (found["root@k"], found["leaf@k"], found["leaf@all"]) == (0.0, 1.0, 1.0)
    assert found["recovery"] == 1.0


def test_a_budget_matched_cover_looks_at_k_passages() -> None:
    found = case(
        hop(0, None, ("x", "y"), status="unresolved", note="split: a | b"),
        hop(1, 0, ("y", "g1")),
        hop(2, 0, ("z", "g2")),
        answer=None,
    ).measured()
    assert (found["leaf@k"], found["leaf@all"]) == (0.0, 1.0)
    assert (found["recovery"], found["false_rejection"]) == (0.0, 1.0)


def test_a_false_trigger_lowers_precision() -> None:
    found = case(hop(0, None, GOLD, status="unresolved"), answer=None).measured()
    assert (found["triggered"], found["precision"]) == (1.0, 0.0)


def test_wider_readings_belong_to_their_leaf() -> None:
    found = case(
        hop(0, None, ("g1", "x"), status="not_decomposable"),
        hop(1, 0, ("g2",), source="wider"),
    ).measured()
    assert found["triggered"] == 1.0
    assert found["leaf@all"] == 1.0


def test_repairs_are_counted_by_split() -> None:
    fixed = hop(0, None, (), status="repaired", note="split, repaired (dropped x): a | b")
    report = trigger_report([case(fixed, hop(1, 0, ())), case(hop(0, None, ()), hop(1, 0, ()))])
    assert report.measures["repaired"] is not None
    assert report.measures["repaired"].value == 0.5
    assert set(report.by_hops) == {"2"}


@pytest.fixture(scope="module")
def run(world: Benchmark, words_of: Any, tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    """A run of hiq by the oracle."""
    folder = tmp_path_factory.mktemp("runs") / "hiq"
    questions = world.questions["dev"]
    with dspy.context(lm=stand_in("oracle/gold"), adapter=OracleAdapter(questions)):
        program = build("hiq", words_of(world))
        about = header(
            program,
            questions,
            benchmark="synthetic",
            split="dev",
            answer_rule="hotpotqa",
            ceiling=True,
        )
        store = open_run(folder, about, questions)
        close_run(folder, evaluate(program, questions, answer_rule="hotpotqa", store=store))
    return read_run(folder)


def test_the_oracle_fires_only_on_missing_evidence(run: SavedRun) -> None:
    report = trigger_report(cases_of(run))
    assert report.measures["precision"] is not None
    assert report.measures["precision"].value == 1.0
    assert report.measures["missed"] is None or report.measures["missed"].value == 0.0


def test_excluded_questions_are_left_out(run: SavedRun) -> None:
    every = cases_of(run)
    assert len(cases_of(run, {every[0].question.id})) == len(every) - 1
    with pytest.raises(RunError, match="are not in"):
        cases_of(run, {"nowhere"})


def test_samples_are_triggered_cases_to_label(run: SavedRun) -> None:
    rows = sample_cases(cases_of(run), 3, run)
    assert all(row["cause"] is None and row["tree"] for row in rows)
    with pytest.raises(RunError, match="granularity mismatch"):
        causes(rows)
    for row in rows:
        row["cause"] = CAUSES[0]
    assert causes(rows)[CAUSES[0]].value == 1.0


def test_a_run_of_another_method_is_refused(run: SavedRun, tmp_path: Path) -> None:
    from dataclasses import replace

    other = replace(run, header=run.header.model_copy(update={"method": "ircot"}))
    with pytest.raises(RunError, match="a run of ircot"):
        cases_of(other)


def read(probability: float, *passages: str) -> Case:
    note = f"P(unresolved) {probability:.3f} > 0.250"
    return case(hop(0, None, passages, note=note))


def test_a_threshold_is_fitted_to_what_the_roots_stated() -> None:
    lacking = [read(p, "g1", "x") for p in (0.7, 0.8, 0.9)]
    whole = [read(p, "g1", "g2") for p in (0.1, 0.3, 0.6)]
    threshold, readings = fitted_threshold([*lacking, *whole], 1, 4)
    assert readings == 6
    assert 0.6 <= threshold < 0.7
    with pytest.raises(RunError, match="a run of hiq_threshold"):
        fitted_threshold([case(hop(0, None, ("g1", "x")))], 1, 4)
