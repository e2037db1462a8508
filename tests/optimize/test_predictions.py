"""Predictions of other systems: nothing of them is lost silently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, BenchmarkError
from optimize.compare import EQUAL, compare_runs
from optimize.errors import RunError
from optimize.predictions import LACKING, score, write_scored
from retrieval import Passage
from tests.optimize.saved_runs import answered, question, saved

QUESTIONS = [question(n) for n in range(4)]
CORPUS = [Passage(p, f"Title {p}", f"Text of {p}.") for q in QUESTIONS for p in q.supporting]
BENCH = Benchmark("own", {"dev": QUESTIONS}, CORPUS)


def scored(tmp_path: Path, *lines: Any, bench: Benchmark = BENCH, name: str = "peer.jsonl") -> Any:
    path = tmp_path / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return score(path, QUESTIONS, bench, "dev", "peer")


def test_missing_unknown_and_strange_are_named_and_missing_counts_as_failed(
    tmp_path: Path,
) -> None:
    found = scored(
        tmp_path,
        {"id": "q0", "answer": "gold 0", "passages": ["q0p0", "elsewhere"]},
        {"id": "q1", "answer": None},
        {"id": "zz", "answer": "?"},
    )
    assert (found.missing, found.unknown, found.strangers) == (
        ("q2", "q3"),
        ("zz",),
        ("elsewhere",),
    )
    run = write_scored(tmp_path / "run", found, QUESTIONS)
    assert len(run.records) == 4
    values = {n: s.value for n, s in run.metrics(("em", "errors", "support_recall@5")).items()}
    assert values == {"em": 0.25, "errors": 0.5, "support_recall@5": 0.125}
    assert run.rows["q2"].error == LACKING
    assert run.rows["q1"].stop_reason == "unanswerable"


def test_passages_are_found_by_id_by_title_and_by_title_and_text(tmp_path: Path) -> None:
    found = scored(
        tmp_path,
        {
            "id": "q0",
            "answer": "x",
            "passages": [
                "q0p0",
                "Title q0p1",
                {"title": "title Q1P0", "text": "text of q1p0"},
                {"id": "q1p1"},
                {"title": "Nowhere", "text": "no"},
            ],
        },
    )
    assert found.rows[0].ranked == ["q0p0", "q0p1", "q1p0", "q1p1", "unknown:Nowhere"]
    assert {p.id for p in found.passages} == {"q0p0", "q0p1", "q1p0", "q1p1"}


def test_ids_are_taken_as_they_are_where_no_corpus_is_known(tmp_path: Path) -> None:
    bare = Benchmark("own", {"dev": QUESTIONS}, [])
    line = {"id": "q0", "answer": "x", "passages": ["q0p0", "elsewhere"]}
    found = scored(tmp_path, line, bench=bare)
    assert (found.rows[0].ranked, found.strangers) == (["q0p0", "elsewhere"], ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"answer": {"q0": "gold 0", "q1": "x"}, "sp": {}}'),
        ("p.jsonl", '{"id": "q0", "predicted_answer": "gold 0"}\n{"_id": "q1", "pred": "x"}\n'),
        ("p.json", '[{"id": "q0", "answer": "gold 0"}, {"id": "q1", "answer": "x"}]'),
        ("p.csv", 'id,answer,passages,seconds\nq0,gold 0,"[""q0p0""]",\nq1,x,,1.5\n'),
    ],
)
def test_official_and_tabular_layouts(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = score(path, QUESTIONS, BENCH, "dev", "peer")
    assert [row.answer for row in found.rows[:2]] == ["gold 0", "x"]
    assert len(found.missing) == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"id": "q0"}, r"peer.jsonl:1: answer: Field required"),
        ({"answer": "x"}, "id: Field required"),
        ({"id": "q0", "answer": "x", "passages": {"a": 1}}, "passages"),
        ({"id": "q0", "answer": "x", "cost": -1}, "cost"),
    ],
)
def test_what_is_no_prediction_is_named_by_line(tmp_path: Path, line: Any, why: str) -> None:
    with pytest.raises(RunError, match=why):
        scored(tmp_path, line)


def test_an_id_twice_or_no_question_met_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"peer.jsonl:2: id 'q0' stands at .*peer.jsonl:1 already"):
        scored(tmp_path, {"id": "q0", "answer": "x"}, {"id": "q0", "answer": "y"})
    with pytest.raises(RunError, match="no prediction for any of the 4 questions"):
        scored(tmp_path, {"id": "zz", "answer": "x"})
    with pytest.raises(BenchmarkError, match="no file"):
        score(tmp_path / "none.jsonl", QUESTIONS, BENCH, "dev", "peer")


def test_a_peer_stands_in_a_comparison_with_what_it_says(tmp_path: Path) -> None:
    ours = saved(tmp_path / "ours", QUESTIONS, [answered(q) for q in QUESTIONS])
    found = scored(tmp_path, *({"id": q.id, "answer": "x", "lm_calls": 3} for q in QUESTIONS))
    peer = write_scored(tmp_path / "peer", found, QUESTIONS)
    _, entry = compare_runs([ours, peer], resamples=200).entries
    known = {name for name, cell in entry.cells.items() if cell.value is not None}
    assert known == {"em", "f1", "lm_calls", "errors"}
    assert entry.cells[EQUAL].value is None
    assert entry.broken["all"]["unknown"] == 4


def test_a_peer_that_names_passages_breaks_at_retrieval_or_reading(tmp_path: Path) -> None:
    found = scored(
        tmp_path,
        {"id": "q0", "answer": "x", "passages": ["q0p0"]},
        {"id": "q1", "answer": "x", "passages": ["q1p0", "q1p1"]},
    )
    peer = write_scored(tmp_path / "peer", found, QUESTIONS)
    ours = saved(tmp_path / "ours", QUESTIONS, [answered(q) for q in QUESTIONS])
    _, entry = compare_runs([ours, peer], resamples=200).entries
    told = {stage: n for stage, n in entry.broken["all"].items() if n}
    assert told == {"n": 4, "wrong": 4, "retrieval": 1, "reading": 1, "error": 2}
