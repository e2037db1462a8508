"""The retrieval bench counts what it says it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import Benchmark
from retrieval import QueryError, open_index
from retrieval.bench import (
    BenchQuestion,
    BenchReport,
    Contender,
    _search,
    bench_retrieval,
    table,
)


def asked(world: Benchmark) -> list[BenchQuestion]:
    return [
        BenchQuestion(q.question, frozenset(q.supporting))
        for split in world.questions.values()
        for q in split
        if q.supporting
    ]


def test_recall_is_the_mean_share_of_gold_that_was_found(
    world: Benchmark, small_index: Path
) -> None:
    questions = asked(world)
    row = _search(small_index, Contender("bm25"), questions)
    retriever = open_index(small_index, engine="bm25")
    for k in (2, 20):
        total = 0.0
        for question in questions:
            found = {p.id for p in retriever.search([question.query], k)[0]}
            total += len(found & question.gold) / len(question.gold)
        assert row.recall[k] == pytest.approx(total / len(questions))
    assert 0 < row.recall[2] < row.recall[20] <= 1
    assert row.all_support_5 <= row.recall[5]
    assert row.recall_5_margin > 0
    assert row.differ == 0


def test_a_gold_passage_outside_the_corpus_is_never_found(small_index: Path) -> None:
    row = _search(small_index, Contender("bm25"), [BenchQuestion("river", frozenset({"nowhere"}))])
    assert row.recall[20] == row.all_support_5 == row.recall_5_margin == 0


def test_questions_without_gold_are_refused(world: Benchmark) -> None:
    for questions in ([], [BenchQuestion("river", frozenset())]):
        with pytest.raises(QueryError, match="gold"):
            bench_retrieval(world.corpus, questions)


@pytest.mark.slow
def test_a_run_reports_every_contender_and_leaves_no_folder(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    contenders = (Contender("two-stage"), Contender("two-stage", "pq"), Contender("bm25"))
    report: BenchReport = bench_retrieval(world.corpus, asked(world), contenders=contenders)
    assert [(s.engine, s.vectors) for s in report.searches] == [
        ("two-stage", "float16"),
        ("two-stage", "pq"),
        ("bm25", "float16"),
    ]
    float16, pq = report.builds
    assert pq.bytes_per_passage < float16.bytes_per_passage / 5
    assert float16.ratio == pytest.approx(float16.seconds / report.encoding_seconds)
    found = json.loads(json.dumps(report.as_json()))
    assert found["searches"][0]["recall@5"] == report.searches[0].recall[5]
    assert len(table(report).splitlines()) == 3 + 2 + 3
    assert not list(tmp_path.glob("hopsmith-bench-*"))
