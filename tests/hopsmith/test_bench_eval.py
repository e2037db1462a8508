"""bench eval: an evaluation beside its searches alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import Benchmark
from hopsmith.bench_eval import BLOCK, bench_eval
from tests.hopsmith.test_cli import one_line, run


def test_every_search_of_the_evaluation_is_run_again_alone(world: Benchmark, words: Any) -> None:
    questions = [q for split in world.questions.values() for q in split]
    report = bench_eval("decompose", questions, words)
    searched = len(words.queries) - 1
    assert report.questions == len(questions)
    assert searched == 2 * report.queries
    assert report.searches <= report.queries
    assert report.lm_calls > report.questions
    assert len(report.own) == len(report.bare) == -(-len(questions) // BLOCK)
    assert len(report.memory) == 4
    told = report.to_json()
    assert told["ratio"] > 0
    assert told["ratio_within"] == (told["ratio"] <= 1.5)


def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str], own_cache: Any) -> None:
    code, out, _ = run(
        capsys, "bench", "eval", "--questions", 200, "--method", "single_shot", "--json"
    )
    told = json.loads(out)
    assert (code, told["questions"], told["method"]) == (0, 200, "single_shot")
    code, _, err = run(capsys, "bench", "eval", "--questions", 200, "--method", "direct")
    assert (code, "direct searches nothing" in one_line(err)) == (2, True)
    code, _, err = run(capsys, "bench", "eval", "--data", "dev.jsonl")
    assert (code, "--data needs --benchmark" in one_line(err)) == (2, True)
