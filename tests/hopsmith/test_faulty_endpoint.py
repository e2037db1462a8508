"""A run whose LM endpoint fails in every way that one does: what may pass is tried again, the rest
is recorded, an endpoint that stays down ends the run, and nothing that was answered is lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith import endpoint
from optimize.evaluate import FAILURES_IN_A_ROW
from retrieval import build_index
from tests.hopsmith.faulty_lm import FaultyLM
from tests.hopsmith.test_cli import one_line, run


@pytest.fixture
def words(
    world: Benchmark,
    tmp_path: Path,
    faulty: FaultyLM,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> list[Any]:
    """An ``eval`` of single_shot over all dev questions, one at a time, retries without waiting."""
    monkeypatch.setattr(endpoint, "_wait", lambda state: 0.0)
    if "hangs" in request.node.name:
        monkeypatch.setenv("HOPSMITH_LM_TIMEOUT", "2")
    index, data = tmp_path / "index", tmp_path / "dev.jsonl"
    build_index(world.corpus, index, engine="bm25")
    asked = world.questions["dev"]
    data.write_text("".join(json.dumps(question_to_json(q)) + "\n" for q in asked))
    return [
        *("eval", "--method", "single_shot", "--data", data, "--index", index, "--no-cache"),
        *("--lm", "m", "--api-base", faulty.url, "--workers", 1),
        *("--out", tmp_path / "run", "--json"),
    ]


def rows(words: list[Any]) -> dict[str, dict[str, Any]]:
    """The last row of each question that the run folder holds."""
    path = words[words.index("--out") + 1] / "predictions.jsonl"
    read = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["id"]: row for row in read}


@pytest.mark.parametrize("mode", ["429", "500", "503", "drops", "hangs", "html"])
def test_what_passes_is_tried_again_and_costs_no_question(
    mode: str, words: list[Any], faulty: FaultyLM, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty.mode, faulty.fails_first = mode, 2
    code, out, err = run(capsys, *words)
    assert code == 0, err
    told = json.loads(out)
    assert (told["failed"], told["n"]) == (0, told["questions"])
    assert len(faulty.requests) == told["n"] + 2


@pytest.mark.parametrize("mode", ["429", "500", "drops", "hangs", "html"])
def test_a_question_that_failed_is_recorded_counts_as_wrong_and_is_asked_again(
    mode: str, words: list[Any], faulty: FaultyLM, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty.mode, faulty.fails_first = mode, 4
    code, out, _ = run(capsys, *words)
    told = json.loads(out)
    assert (code, told["failed"], told["n"]) == (0, 1, told["questions"])
    assert told["metrics"]["errors"] == pytest.approx(1 / told["n"])
    assert Counter(row["stop_reason"] for row in rows(words).values())["error"] == 1
    before = len(faulty.requests)
    code, out, _ = run(capsys, *words)
    assert (code, json.loads(out)["failed"]) == (0, 0)
    assert len(faulty.requests) == before + 1


def test_garbage_is_a_parse_failure_and_no_crash(
    words: list[Any], faulty: FaultyLM, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty.mode, faulty.fails_first = "garbage", 3
    code, out, _ = run(capsys, *words)
    told = json.loads(out)
    assert (code, told["n"]) == (0, told["questions"])
    assert told["metrics"]["parse_failures"] > 0
    assert [row["stop_reason"] for row in rows(words).values()].count("error") == 1
    assert "format_problem" in str(faulty.requests[1]["messages"])


@pytest.mark.parametrize("mode", ["500", "drops"])
def test_an_endpoint_that_stays_faulty_stops_the_run_and_loses_nothing(
    mode: str, words: list[Any], faulty: FaultyLM, capsys: pytest.CaptureFixture[str]
) -> None:
    answered = 1
    good = faulty.reply
    faulty.mode, faulty.fails_first = mode, 0

    def reply(body: dict[str, Any]) -> Any:
        if len(faulty.requests) >= answered:
            faulty.fails_first = None
        return good(body)

    faulty.reply = reply
    code, out, err = run(capsys, *words)
    assert (code, out) == (1, "")
    assert f"{FAILURES_IN_A_ROW} questions in a row failed" in one_line(err)
    kept = rows(words)
    assert sum(row["stop_reason"] == "answered" for row in kept.values()) == answered
    assert len(faulty.requests) == answered + 4 * FAILURES_IN_A_ROW
    faulty.mode, faulty.reply = "good", good
    before = len(faulty.requests)
    code, out, _ = run(capsys, *words)
    told = json.loads(out)
    assert (code, told["failed"], told["n"]) == (0, 0, told["questions"])
    assert len(faulty.requests) == before + told["n"] - answered


def test_an_endpoint_that_is_down_stops_the_run(
    words: list[Any], faulty: FaultyLM, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty.down()
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "start the server, or correct --api-base" in one_line(err)
    faulty.up()
    code, out, _ = run(capsys, *words)
    assert (code, json.loads(out)["failed"]) == (0, 0)
