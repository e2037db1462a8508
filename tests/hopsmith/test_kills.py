"""Kills at random moments of real commands: started again, they end as if nothing had happened, and
at most the LM call under way is paid for again."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, Question, question_to_json, synthetic
from retrieval import build_index
from tests.hopsmith.faulty_lm import FaultyLM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
KILLS = 10
PARTS = 5
"""A compile is killed after each, so after its last LM call too, if it is still running then."""
PAUSE = 0.03
"""Seconds that the endpoint takes for a call."""


@pytest.fixture(scope="module")
def world() -> Benchmark:
    return synthetic(200, 60, seed=5)


@pytest.fixture(scope="module")
def index(world: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills") / "index"
    build_index(world.corpus, folder, engine="bm25")
    return folder


def replier(questions: Sequence[Question]) -> Callable[[dict[str, Any]], Any]:
    """Replies that depend on the prompt alone: what the schema asks for, the gold answer to two
    questions in three, and an instruction where a prompt optimizer asks for one."""
    gold = {q.question: q.answers[0] if q.answers else "" for q in questions}

    def reply(body: dict[str, Any]) -> Any:
        time.sleep(PAUSE)
        prompt = body["messages"][-1]["content"]
        known = [a for q, a in gold.items() if q in prompt and len(q) % 3]
        answer = known[-1] if known else "Tamsin"
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
        if schema:
            return {name: _value(name, of, answer) for name, of in schema["properties"].items()}
        fields = re.findall(r"\[\[ ## (\w+) ## \]\]", prompt)
        told = f"Answer in {len(prompt) % 9 + 2} words or fewer, from the passages alone."
        return "\n".join(f"[[ ## {f} ## ]]\n{told}" for f in fields) or f"```\n{told}\n```"

    return reply


def _value(name: str, schema: dict[str, Any], answer: str) -> Any:
    kinds = [schema, *schema.get("anyOf", ())]
    if choices := next((k["enum"] for k in kinds if "enum" in k), None):
        return choices[0]
    kind = next((k["type"] for k in kinds if "type" in k), "string")
    if name == "sub_questions":
        return ["Who founded it?", "Where was {answer_1} born?"]
    return {"boolean": True, "number": 0.7, "integer": 1, "array": [], "object": {}}.get(
        kind, answer
    )


@pytest.fixture
def endpoint(faulty: FaultyLM, world: Benchmark) -> FaultyLM:
    faulty.reply = replier([q for split in world.questions.values() for q in split])
    return faulty


def written(questions: Sequence[Question], path: Path) -> Path:
    path.write_text("".join(json.dumps(question_to_json(q)) + "\n" for q in questions))
    return path


def started(words: Sequence[Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "hopsmith", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def killed_at(words: Sequence[Any], lm: FaultyLM, requests: int, rng: random.Random) -> bool:
    """Start a command and kill it when so many requests have come in all, at any moment of the one
    then under way. Returns whether it was still running."""
    process = started(words)
    while process.poll() is None and len(lm.requests) < requests:
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 2 * PAUSE))
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return alive


def finished(words: Sequence[Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "hopsmith", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_run_killed_ten_times_ends_with_each_question_once(
    world: Benchmark, index: Path, endpoint: FaultyLM, tmp_path: Path
) -> None:
    questions = [q for split in world.questions.values() for q in split]
    words = [
        *("eval", "--method", "single_shot", "--index", index, "--workers", 1),
        *("--data", written(questions, tmp_path / "all.jsonl"), "--out", tmp_path / "run"),
        *("--lm", "m", "--api-base", endpoint.url, "--no-cache", "--json"),
    ]
    rng = random.Random(0)
    at = sorted(rng.sample(range(1, len(questions) - KILLS), KILLS))
    for n in at:
        assert killed_at(words, endpoint, n, rng)
    told = finished(words)
    rows = (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()
    assert sorted(json.loads(row)["id"] for row in rows) == sorted(q.id for q in questions)
    assert (told["n"], told["failed"]) == (len(questions), 0)
    assert len(endpoint.requests) <= len(questions) + KILLS


@pytest.mark.parametrize("prompts", ["bootstrap", "mipro", "gepa", "simba"])
def test_a_compile_killed_in_every_stage_ends_as_one_that_was_not(
    prompts: str, world: Benchmark, index: Path, endpoint: FaultyLM, tmp_path: Path
) -> None:
    flags: list[Any] = []
    for split, count in (("train", 8), ("dev", 6), ("test", 4)):
        flags += [
            f"--{split}",
            written(world.questions[split][:count], tmp_path / f"{split}.jsonl"),
        ]
    words = [
        *("compile", "--method", "agentic", *flags, "--index", index, "--workers", 1, "--json"),
        *("--lm", "m", "--api-base", endpoint.url, "--trials", 2, "--candidates", 2),
        *("--prompts", prompts, "--thresholds", "--threshold-questions", 4, "--traces", 0),
    ]
    whole = finished([*words, "--out", tmp_path / "whole"])
    asked = len(endpoint.requests)
    endpoint.requests.clear()
    rng = random.Random(1)
    kills = 0
    for part in range(1, PARTS + 1):
        at = round(part * asked / PARTS)
        kills += killed_at([*words, "--out", tmp_path / "killed"], endpoint, at, rng)
    told = finished([*words, "--out", tmp_path / "killed"])
    assert kills >= PARTS - 1
    assert len(endpoint.requests) <= asked + kills
    for what in ("baseline", "final", "difference", "budget", "n"):
        assert told[what] == whole[what], what
    made = [json.loads((tmp_path / n / "compiled.json").read_text()) for n in ("whole", "killed")]
    assert made[0]["fingerprint"] == made[1]["fingerprint"]
