"""README's tutorial, block after block, as it stands there. An endpoint that follows a script takes
the LM's place, and servers get a free port."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks import Benchmark, question_to_json
from tests.hopsmith.faulty_lm import FaultyLM
from tests.hopsmith.test_kills import replier

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
README = Path(__file__).resolve().parents[2] / "README.md"
SERVERS = {"mlflow ui": "/health", "mlflow models serve": "/ping", "hopsmith serve": "/readyz"}
"""Commands that stay, and where each says that it is up."""
UP_WITHIN = 180


def blocks() -> list[tuple[str, str]]:
    """(language, text) of the tutorial's code blocks."""
    (tutorial,) = re.findall(r"^## Tutorial$(.*?)^## ", README.read_text(), re.M | re.S)
    return re.findall(r"^```(\w*)\n(.*?)^```$", tutorial, re.M | re.S)


def commands(block: str) -> list[str]:
    """Its lines, comments cut off."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line.partition("  #")[0].strip() for line in lines if line.strip()]


@pytest.fixture
def folder(world: Benchmark, tmp_path: Path) -> Path:
    """What a reader has: a corpus, some more of it, and questions."""
    lines = [json.dumps({"id": p.id, "title": p.title, "text": p.text}) for p in world.corpus]
    spare = json.dumps({"id": "passage-17", "title": "Spare", "text": "A passage to delete."})
    (tmp_path / "corpus.jsonl").write_text("\n".join([*lines[:-2], spare]) + "\n")
    (tmp_path / "more.jsonl").write_text("\n".join(lines[-2:]) + "\n")
    for split in ("train", "dev", "test"):
        _write(world, split, tmp_path)
    return tmp_path


def _write(world: Benchmark, split: str, folder: Path) -> None:
    questions = world.questions[split][:5]
    lines = [json.dumps(question_to_json(q)) + "\n" for q in questions]
    (folder / f"{split}.jsonl").write_text("".join(lines))


def test_every_block_of_the_tutorial_runs(folder: Path, world: Benchmark, faulty: FaultyLM) -> None:
    faulty.reply = replier([q for split in world.questions.values() for q in split])
    env = {
        **os.environ,
        "HOPSMITH_LM": "m",
        "HOPSMITH_API_BASE": faulty.url,
        "HOPSMITH_CACHE": str(folder / "cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, (README.parent, *filter(None, sys.path)))),
    }
    ran = 0
    for language, text in blocks():
        if language == "json":
            question = json.loads(text)
            assert {"id", "question", "answer", "hops"} <= set(question)
        elif language == "python":
            _run([sys.executable, "-c", text], folder, env)
        else:
            for line in commands(text):
                _command(line, folder, env)
                ran += 1
        _write(world, "train", folder)
    assert ran >= 12
    assert (folder / "tuned" / "export" / "pipeline.json").is_file()


def _command(line: str, folder: Path, env: Mapping[str, str]) -> None:
    server = next((name for name in SERVERS if name in line), None)
    if server is None:
        _run(["bash", "-c", line], folder, env)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["bash", "-c", f"exec env {line} --port {port}"],
        cwd=folder,
        env=dict(env),
        stdout=(folder / "server.log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}{SERVERS[server]}", process, folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[Any], folder: Path) -> None:
    end = time.monotonic() + UP_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    pytest.fail(f"{url} never answered:\n{(folder / 'server.log').read_text()[-2000:]}")


def _run(words: list[str], folder: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        words, cwd=folder, env=dict(env), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
