"""Evaluation: resumable, honest about failures, stopped by what can't be mended."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter, OracleError
from benchmarks.scripted import ScriptedAdapter, stand_in
from optimize.answers import AnswerStore
from optimize.errors import RunError, TooManyFailures
from optimize.evaluate import FAILURES_IN_A_ROW, evaluate
from optimize.rows import SCHEMA_FILE, PredictionRow, schema
from optimize.run import header, open_run
from programs import build
from programs.faults import StopRun


def oracle(world: Benchmark, noise: float = 0.0) -> Any:
    every = [q for questions in world.questions.values() for q in questions]
    return dspy.context(
        lm=stand_in("oracle/gold"), adapter=OracleAdapter(every, noise), disable_history=True
    )


def scripted(script: Any) -> Any:
    return dspy.context(
        lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script), disable_history=True
    )


def row(identifier: str, mark: str = "f", **fields: Any) -> PredictionRow:
    return PredictionRow(
        **{
            "id": identifier,
            "fingerprint": mark,
            "answer": "a",
            "stop_reason": "answered",
            **fields,
        }
    )


def test_the_oracle_reaches_the_ceiling(world: Benchmark, words: Any) -> None:
    with oracle(world):
        result = evaluate(build("decompose", words), world.questions["dev"], answer_rule="hotpotqa")
    assert len(result.rows) == len(world.questions["dev"])
    assert result.values()["hop_recall"] > 0.9
    assert result.failed == 0


def test_one_seed_gives_the_same_rows_twice(world: Benchmark, words: Any) -> None:
    def rows() -> list[Any]:
        with oracle(world, noise=0.3):
            found = evaluate(build("decompose", words), world.questions["dev"], workers=4)
        return [r.model_copy(update={"seconds": 0, "usage": {}}) for r in found.rows]

    assert rows() == rows()


def test_noise_is_drawn_at_its_rate(world: Benchmark, words: Any) -> None:
    every = [q for questions in world.questions.values() for q in questions if q.kind == "single"]
    adapter = OracleAdapter(every, noise=0.5)
    with dspy.context(lm=stand_in("oracle/gold"), adapter=adapter):
        found = evaluate(build("single_shot", words), every).values()
    assert 0.0 < found["em"] < 1.0


def test_known_rows_are_not_asked_again(world: Benchmark, words: Any, tmp_path: Path) -> None:
    dev = world.questions["dev"]
    with oracle(world):
        first = evaluate(
            build("single_shot", words), dev[:3], store=AnswerStore(tmp_path / "rows.jsonl")
        )
        asked = len(words.queries)
        second = evaluate(
            build("single_shot", words), dev, store=AnswerStore(tmp_path / "rows.jsonl")
        )
    assert second.reused == 3
    assert len(words.queries) - asked == len(dev) - 3
    assert second.rows[:3] == first.rows


def test_another_budget_is_another_fingerprint(world: Benchmark, words: Any) -> None:
    from programs import HopBudget

    store = AnswerStore()
    with oracle(world):
        evaluate(build("single_shot", words), world.questions["dev"], store=store)
        other = build("single_shot", words, HopBudget(passages=2))
        assert evaluate(other, world.questions["dev"], store=store).reused == 0


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    AnswerStore(path).put(row("1"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"id": "2", "finger')
    store = AnswerStore(path)
    assert len(store) == 1
    store.put(row("3"))
    assert {r.id for r in AnswerStore(path).rows()} == {"1", "3"}


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 3}\n')
    with pytest.raises(RunError, match=r"rows.jsonl:1 is no prediction row"):
        AnswerStore(path)


def test_one_flight_for_a_key_that_two_threads_want() -> None:
    store, asked, gate = AnswerStore(), [], threading.Event()

    def ask() -> PredictionRow:
        asked.append(1)
        gate.wait(5)
        return row("1")

    threads = [threading.Thread(target=store.answered, args=("1", "f", ask)) for _ in range(3)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert len(asked) == 1


def test_a_failed_question_is_asked_again_next_time() -> None:
    store = AnswerStore()
    store.put(row("1", answer=None, stop_reason="error", error="down"))
    assert store.answered("1", "f", lambda: row("1")) == (row("1"), False)


def test_a_failing_step_counts_as_wrong_and_is_counted(world: Benchmark, words: Any) -> None:
    with scripted(lambda *_: None):
        result = evaluate(build("single_shot", words), world.questions["dev"][:3])
    assert result.failed == 3
    assert result.values()["errors"] == 1.0
    assert result.values()["em"] == 0.0


def test_an_endpoint_that_is_down_stops_the_run_and_keeps_progress(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    calls = []

    def script(signature: Any, inputs: Any) -> Any:
        calls.append(1)
        if len(calls) > 2:
            raise ConnectionError("refused")
        return {"answer": "a"}

    store = AnswerStore(tmp_path / "rows.jsonl")
    with scripted(script), pytest.raises(TooManyFailures, match=f"{FAILURES_IN_A_ROW} questions"):
        evaluate(
            build("single_shot", words),
            [q for s in world.questions.values() for q in s],
            store=store,
            workers=1,
        )
    assert [r.stop_reason for r in store.rows()].count("answered") == 2


def test_a_configuration_fault_stops_at_once(world: Benchmark, words: Any) -> None:
    from dspy.utils.exceptions import LMAuthError

    calls = []

    def script(signature: Any, inputs: Any) -> Any:
        calls.append(1)
        raise LMAuthError("401 invalid key")

    with scripted(script), pytest.raises(StopRun, match="key"):
        evaluate(build("single_shot", words), world.questions["dev"], workers=1)
    assert len(calls) == 1


def test_the_oracle_refuses_what_it_does_not_know(world: Benchmark, words: Any) -> None:
    with oracle(world), pytest.raises(StopRun, match="does not know"):
        build("decompose", words)(question="Who asked for this?")
    assert OracleError.stops_run


def test_the_schema_is_that_of_the_models() -> None:
    import json

    assert json.loads(SCHEMA_FILE.read_text()) == schema(), "run python -m optimize.rows"


def test_a_run_folder_of_another_run_is_refused(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    def about(k: int) -> Any:
        from programs import HopBudget

        return header(
            build("single_shot", words, HopBudget(passages=k)),
            world.questions["dev"],
            benchmark="synthetic",
            split="dev",
            answer_rule="hotpotqa",
            ceiling=True,
        )

    open_run(tmp_path / "run", about(3))
    open_run(tmp_path / "run", about(3))
    with pytest.raises(RunError, match="another run"):
        open_run(tmp_path / "run", about(4))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        open_run(tmp_path / "full", about(3))
    with pytest.raises(RunError, match="is a file"):
        open_run(tmp_path / "full" / "thesis.txt", about(3))
