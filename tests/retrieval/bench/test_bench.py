"""The retrieval bench counts what it says it counts, and goes on where it was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark
from retrieval import IndexFault, QueryError, open_index
from retrieval.bench import (
    BenchQuestion,
    BenchReport,
    Contender,
    bench_retrieval,
    contenders,
    run,
    so_far,
    table,
    workers,
)
from retrieval.bench.records import BuildRow, Cost
from retrieval.bench.run import JOURNAL, BenchFault, Journal
from retrieval.bench.scaling import drawn, growth_table

BM25 = (Contender("bm25"),)


def asked(world: Benchmark) -> list[BenchQuestion]:
    return [
        BenchQuestion(q.question, frozenset(q.supporting))
        for split in world.questions.values()
        for q in split
        if q.supporting
    ]


class Inline:
    """Runs what a process of its own would run."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, function: Any, *args: Any) -> Any:
        workers._held, before = self.held, workers._held
        try:
            value = function(*args)
        except IndexFault as fault:
            return _Done(fault)
        finally:
            workers._held = before
        return _Done(value)


class _Done:
    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_process", Inline)


@pytest.mark.usefixtures("inline")
def test_recall_is_the_mean_share_of_gold_that_was_found(
    world: Benchmark, small_index: Path, tmp_path: Path
) -> None:
    questions = asked(world)
    (row,) = bench_retrieval(world.corpus, questions, contenders=BM25, work=tmp_path).searches
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
    assert row.questions == len(questions)
    assert 0 < row.p50_ms <= row.p95_ms
    assert not tmp_path.exists()


@pytest.mark.usefixtures("inline")
def test_a_gold_passage_outside_the_corpus_is_never_found(world: Benchmark, tmp_path: Path) -> None:
    questions = [BenchQuestion("river", frozenset({"nowhere"}))]
    (row,) = bench_retrieval(world.corpus, questions, contenders=BM25, work=tmp_path).searches
    assert row.recall[20] == row.all_support_5 == row.recall_5_margin == 0


def test_questions_without_gold_are_refused(world: Benchmark, tmp_path: Path) -> None:
    for questions in ([], [BenchQuestion("river", frozenset())]):
        with pytest.raises(QueryError, match="gold"):
            bench_retrieval(world.corpus, questions, work=tmp_path)


def test_contenders_are_named_and_others_refused() -> None:
    assert [c.name for c in contenders(["bm25", "two-stage-pq"])] == ["two-stage-pq", "bm25"]
    assert {c.index for c in contenders(["bm25", "dense", "two-stage-pq"])} == {"pq"}
    assert {c.index for c in contenders(["bm25", "exact"])} == {"float16"}
    with pytest.raises(QueryError, match=r"no engine \['bm26'\].*two-stage-pq"):
        contenders(["bm26"])


def many(world: Benchmark) -> list[BenchQuestion]:
    return (asked(world) * 3)[:70]


@pytest.mark.usefixtures("inline")
def test_a_bench_that_was_stopped_goes_on_where_it_was(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []
    measure = workers.measure

    def stopped(queries: Sequence[str]) -> Any:
        rounds.append(len(queries))
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return measure(queries)

    questions = many(world)
    monkeypatch.setattr(workers, "measure", stopped)
    with pytest.raises(KeyboardInterrupt):
        bench_retrieval(world.corpus, questions, contenders=BM25, work=tmp_path)
    (row,) = so_far(world.corpus, questions, tmp_path, BM25).searches
    assert row.questions == 32
    journal = tmp_path / JOURNAL
    journal.write_text(journal.read_text() + '{"round bm25 1": {"single_sec')
    said: list[str] = []
    report = bench_retrieval(
        world.corpus, questions, contenders=BM25, work=tmp_path, keep=True, say=said.append
    )
    assert rounds == [32, 32, 32, 6]
    assert report.searches[0].questions == 70
    assert "going on" in said[0]
    again = bench_retrieval(world.corpus, questions, contenders=BM25, work=tmp_path)
    assert again.searches == report.searches
    assert rounds == [32, 32, 32, 6]
    assert not tmp_path.exists()


def test_a_process_that_is_killed_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BenchFault, match="same command goes on"):
        run._apart(os._exit, 1)


def row_of(engine: str, single: float, batch: float, rounds: int = 3) -> dict[str, Any]:
    """Rounds in which every third takes ten times as long."""
    return {
        f"round {engine} {i}": {
            "single_seconds": [single * (10 if i == 1 else 1)] * (32 if i < 2 else 6),
            "batch_seconds": batch * (10 if i == 1 else 1) * (32 if i < 2 else 6),
            "single": [["x"]] * (32 if i < 2 else 6),
            "batch": [["x"]] * (32 if i < 2 else 6),
            "peak_mb": 100.0 + i,
        }
        for i in range(rounds)
    }


def test_ratios_are_medians_over_rounds_that_both_were_in(tmp_path: Path) -> None:
    questions = [BenchQuestion(f"q{i}", frozenset({"x"})) for i in range(70)]
    journal = Journal(tmp_path / JOURNAL)
    cost = Cost(10.0, 20.0)
    journal.once("encoding", lambda: cost)
    journal.once("build float16", lambda: BuildRow("float16", 11.0, 24.0, 72_000.0, 900.0))
    journal.lines |= row_of("colbert-ai", 0.1, 0.05)
    journal.lines |= row_of("two-stage", 0.01, 0.01, rounds=2)
    report = run._report(journal, 50, questions, contenders(["colbert-ai", "two-stage"]))
    reference, ours = report.searches
    assert reference.single_speedup is None
    assert (ours.single_speedup, ours.batch_speedup) == pytest.approx((10, 5))
    assert (reference.single_qps, reference.batch_qps) == pytest.approx((10, 20))
    assert (ours.questions, ours.peak_mb) == (64, 101)
    (built,) = report.builds
    assert (built.ratio, built.cpu_ratio) == pytest.approx((1.1, 1.2))
    lines = table(report).splitlines()
    assert len(lines) == 2 + 1 + 1 + 2 + 1
    assert "1.10" in lines[2]
    assert "10.00" in lines[5]


@pytest.mark.usefixtures("inline")
def test_an_engine_that_cannot_run_is_left_out_and_named(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise IndexFault("there is no compiler")

    def built(*_: object) -> BuildRow:
        return BuildRow("float16", 1.0, 1.0, 1.0, 1.0)

    monkeypatch.setattr(workers, "hold", lacking)
    monkeypatch.setattr(workers, "add_plaid", lacking)
    monkeypatch.setattr(workers, "build", built)
    report = bench_retrieval(
        world.corpus,
        asked(world),
        contenders=contenders(["plaid", "colbert-ai", "two-stage"]),
        work=tmp_path,
        bare=False,
    )
    assert set(report.left_out) == {"plaid", "colbert-ai", "two-stage"}
    assert report.searches == []
    assert "left out: plaid: there is no compiler" in table(report)


@pytest.mark.usefixtures("inline")
def test_sizes_beside_each_other_are_a_table_and_a_picture(
    world: Benchmark, tmp_path: Path
) -> None:
    reports = [
        bench_retrieval(world.corpus[:n], asked(world), contenders=BM25, work=tmp_path / str(n))
        for n in (20, 40)
    ]
    assert [line.split()[0] for line in growth_table(reports).splitlines()[1:]] == ["20", "40"]
    drawn(reports, tmp_path / "deep" / "plot.png")
    assert (tmp_path / "deep" / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_reports_every_contender_and_leaves_no_folder(
    world: Benchmark, tmp_path: Path
) -> None:
    chosen = (Contender("two-stage"), Contender("two-stage", "pq"), Contender("bm25"))
    work = tmp_path / "work"
    report: BenchReport = bench_retrieval(world.corpus, asked(world), contenders=chosen, work=work)
    assert [s.engine for s in report.searches] == ["two-stage", "two-stage-pq", "bm25"]
    float16, pq = report.builds
    assert report.encoding is not None
    assert pq.bytes_per_passage < float16.bytes_per_passage / 5
    assert float16.ratio == pytest.approx(float16.seconds / report.encoding.seconds)
    found = json.loads(json.dumps(report.as_json()))
    assert found["searches"][0]["recall@5"] == report.searches[0].recall[5]
    assert not work.exists()


@pytest.mark.slow
def test_colbert_ai_s_searcher_and_plaid_rank_alike(tmp_path: Path) -> None:
    from benchmarks import synthetic

    world = synthetic(30, 150, seed=3)
    report = bench_retrieval(
        world.corpus,
        asked(world),
        contenders=contenders(["colbert-ai", "plaid", "exact"]),
        work=tmp_path / "work",
        bare=False,
    )
    assert report.left_out == {}
    reference, plaid, exact = report.searches
    assert reference.recall[5] == pytest.approx(plaid.recall[5], abs=0.05)
    assert plaid.recall[5] == pytest.approx(exact.recall[5], abs=0.1)
    assert plaid.single_speedup is not None


def test_a_bench_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    script = (
        "import time\n"
        "from retrieval.bench.run import _process\n"
        "if __name__ == '__main__':\n"
        "    pool = _process()\n"
        "    print(pool.submit(int).result(), *pool._processes, flush=True)\n"
        "    pool.submit(time.sleep, 60)\n"
        "    time.sleep(60)\n"
    )
    (tmp_path / "bench.py").write_text(script)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "bench.py")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(run.__file__).parents[2])},
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline().split()[1])
    assert _runs(child)
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while time.monotonic() < end and _runs(child):
        time.sleep(0.1)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    """Whether it is there, and no zombie that nobody has fetched yet."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(done.stdout.strip()) and not done.stdout.startswith("Z")
