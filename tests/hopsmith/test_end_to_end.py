"""The real local LM, and kills: the slow half of the promise."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json

pytestmark = pytest.mark.slow


def hopsmith(*words: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hopsmith", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


@pytest.fixture
def local_weights() -> None:
    from hopsmith.errors import HopsmithError
    from hopsmith.weights import find_weights

    try:
        find_weights()
    except HopsmithError as fault:
        pytest.skip(str(fault))


def test_the_local_lm_answers_one_question_end_to_end(
    world: Benchmark, small_index: Path, local_weights: None
) -> None:
    question = next(q for q in world.questions["dev"] if q.kind == "single")
    done = hopsmith(
        *("ask", question.question, "--method", "single_shot", "--index", small_index),
        *("--budget", "passages=3", "--lm", "local", "--json"),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["answer"]
    assert told["stop_reason"] == "answered"
    assert told["usage"]["writer"]["prompt_tokens"] > 100


def test_one_seed_gives_the_same_numbers_twice(
    world: Benchmark, small_index: Path, tmp_path: Path, local_weights: None
) -> None:
    data = tmp_path / "dev.jsonl"
    data.write_text(
        "".join(json.dumps(question_to_json(q)) + "\n" for q in world.questions["dev"][:2])
    )

    def answers(name: str) -> list[Any]:
        done = hopsmith(
            *("eval", "--method", "single_shot", "--data", data, "--index", small_index),
            *("--budget", "passages=3", "--lm", "local", "--no-cache", "--out", tmp_path / name),
        )
        assert done.returncode == 0, done.stderr
        rows = (tmp_path / name / "predictions.jsonl").read_text().splitlines()
        return sorted((r["id"], r["answer"]) for r in map(json.loads, rows))

    assert answers("one") == answers("two")


def test_a_compile_killed_again_and_again_loses_nothing(
    world: Benchmark, small_index: Path, tmp_path: Path
) -> None:
    flags: list[Any] = []
    for split, questions in world.questions.items():
        path = tmp_path / f"{split}.jsonl"
        path.write_text("".join(json.dumps(question_to_json(q)) + "\n" for q in questions))
        flags += [f"--{split}", path]
    out = tmp_path / "compile"
    words = [
        *("compile", "--method", "decompose", *flags, "--index", small_index, "--lm", "oracle"),
        *("--oracle-noise", 0.1, "--out", out, "--trials", 6, "--candidates", 2, "--json"),
    ]
    command = [sys.executable, "-m", "hopsmith", *map(str, words)]
    rng = random.Random(0)
    answered = 0
    for _ in range(6):
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        time.sleep(rng.uniform(6, 14))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        store = out / "answers.jsonl"
        rows = store.read_bytes().count(b"\n") if store.is_file() else 0
        assert rows >= answered
        answered = rows
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    keys = [
        (r["id"], r["fingerprint"])
        for r in map(json.loads, (out / "answers.jsonl").read_text().splitlines())
    ]
    assert len(keys) == len(set(keys))
    assert (out / "export" / "pipeline.json").is_file()
    assert json.loads(done.stdout)["n"] == len(world.questions["test"])
