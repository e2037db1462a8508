"""hopsmith serve as a process: what it prints, signals, and a client of another process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import httpx
import pytest

from benchmarks import Benchmark
from hopsmith.cli import app, guarded
from hopsmith.lm import make_lm
from hopsmith.settings import load_settings
from optimize.export import export
from programs import HopBudget, build
from retrieval import build_index, open_index


@pytest.fixture
def index(world: Benchmark, tmp_path: Path) -> Path:
    build_index(world.corpus, tmp_path / "index", engine="bm25")
    return tmp_path / "index"


class Process:
    """``hopsmith serve`` with a free port."""

    def __init__(self, *words: Any, **env: str) -> None:
        command = [sys.executable, "-m", "hopsmith", "serve", *map(str, words)]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        assert self.process.stdout is not None
        self.told = json.loads(self.process.stdout.readline())
        self.client = httpx.Client(base_url=self.told["url"], timeout=30, verify=False)

    def line(self, holding: str) -> str:
        """The next line of the log that holds this."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if holding in line:
                return line
        raise AssertionError(f"the log ended without {holding!r}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture
def start() -> Iterator[Any]:
    made: list[Process] = []

    def process(*words: Any, **env: str) -> Process:
        made.append(Process(*words, **env))
        return made[-1]

    yield process
    for one in made:
        one.client.close()
        one.process.kill()
        one.process.communicate()


def write(folder: Path, index: Path, url: str, **budget: int) -> Path:
    settings = load_settings(lm="m", api_base=url)
    with dspy.context(lm=make_lm(settings)):
        program = build("single_shot", open_index(index), HopBudget(**budget))
        return export(program, folder, mlflow_model=False)


@pytest.mark.slow
def test_serves_an_export_reloads_on_sighup_and_stops_in_order(
    start: Any, index: Path, tmp_path: Path, faulty: Any
) -> None:
    folder = write(tmp_path / "tuned" / "export", index, faulty.url, passages=2)
    log = tmp_path / "log"
    process = start(
        *(folder, "--method", "decompose", "--index", index, "--api-base", faulty.url),
        *("--lm", "m", "--log-dir", log, "--canary", "Who?"),
        HOPSMITH_CACHE=str(tmp_path / "cache"),
    )
    assert process.told["pipelines"] == ["tuned", "decompose"]
    ask = {"question": "Where was its zebra born?"}
    assert len(process.client.post("/v1/answer", json=ask).json()["passages"]) == 2
    write(folder, index, faulty.url, passages=3)
    process.process.send_signal(signal.SIGHUP)
    process.line("tuned is ")
    process.line("decompose is ")
    assert len(process.client.post("/v1/answer", json=ask).json()["passages"]) == 3
    (folder / "pipeline.json").write_text("{")
    process.process.send_signal(signal.SIGHUP)
    assert "can't be read" in process.line("not reloaded")
    assert process.client.post("/v1/answer", json=ask).status_code == 200
    faulty.mode = "hangs"
    faulty.arrived.clear()
    replies: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: replies.append(process.client.post("/v1/answer", json=ask))
    )
    asking.start()
    assert faulty.arrived.wait(10)
    process.process.send_signal(signal.SIGTERM)
    faulty.release.set()
    asking.join(20)
    assert replies[0].json()["answer"] == "Tamsin"
    process.process.wait(30)
    assert process.process.returncode == 0
    assert not list((tmp_path / "cache").rglob("*.db"))
    (kept,) = log.glob("requests-*.jsonl")
    assert len(kept.read_text().splitlines()) == 4
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_curl_gets_an_answer(start: Any, index: Path, faulty: Any) -> None:
    process = start(
        *("--method", "single_shot", "--index", index, "--lm", "m", "--api-base", faulty.url),
        HOPSMITH_TOKEN="secret",
    )
    done = subprocess.run(
        [
            *("curl", "-sS", "-N", f"{process.told['url']}/v1/answer/stream"),
            *("-H", "Authorization: Bearer secret", "-H", "Content-Type: application/json"),
            *("-d", '{"question": "Where was its founder born?"}'),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "event: hop" in done.stdout
    assert '"answer": "Tamsin"' in done.stdout
    assert process.stop() == 0


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str]:
    before, sys.argv = sys.argv, ["hopsmith", "serve", *map(str, words)]
    try:
        return guarded(app), capsys.readouterr().err
    finally:
        sys.argv = before


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        ([], "give an EXPORT, or --method NAME"),
        (["--method", "single_shot"], "no index: give --index DIR"),
        (["--method", "magic", "--index", "INDEX"], "no method 'magic'"),
        (["nowhere", "--index", "INDEX"], "nowhere is no exported pipeline"),
        (["nowhere", "--index", "INDEX", "--budget", "hops=2"], "go with --method"),
        (["--method", "direct", "--index", "nowhere"], "hopsmith index CORPUS"),
        (["--method", "direct", "--index", "INDEX", "--host", "0.0.0.0"], "HOPSMITH_TOKEN"),
        (
            ["--method", "direct", "--method", "direct", "--index", "INDEX"],
            "two pipelines are called direct",
        ),
        (["--method", "direct", "--index", "INDEX", "--redact", "no:where"], "--redact no:where"),
        (
            ["--method", "direct", "--index", "INDEX", "--lm", "oracle"],
            "benchmark's questions only",
        ),
    ],
)
def test_bad_input_is_one_line_with_the_mend(
    index: Path, capsys: pytest.CaptureFixture[str], words: list[str], mend: str, tmp_path: Path
) -> None:
    real = [str(index) if word == "INDEX" else word for word in words]
    if "--redact" in real:
        real += ["--log-dir", str(tmp_path / "log")]
    if "--lm" not in real:
        real += ["--lm", "m", "--api-base", "http://127.0.0.1:9/v1"]
    code, err = run(capsys, *real)
    assert code == 2
    assert mend in err
    assert err.count("hopsmith: ") == 1


def test_a_port_that_is_taken_is_said(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hopsmith.serving.server import listen

    taken = listen("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    lm = ("--lm", "m", "--api-base", "http://127.0.0.1:9/v1")
    code, err = run(capsys, "--method", "direct", "--index", index, *lm, "--port", port)
    taken.close()
    assert (code, f"can't listen on 127.0.0.1:{port}" in err) == (2, True)


@pytest.mark.slow
def test_a_worker_behind_an_index_server_recovers_when_that_is_back(
    start: Any, index: Path, faulty: Any
) -> None:
    def index_server(port: int) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "hopsmith", "index-serve", str(index), "--json"]
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        return process, json.loads(process.stdout.readline())["url"]

    behind, url = index_server(0)
    try:
        process = start(
            *("--method", "single_shot", "--index", url, "--lm", "m", "--api-base", faulty.url)
        )
        ask = {"question": "Where was its founder born?"}
        assert process.client.post("/v1/answer", json=ask).json()["answer"] == "Tamsin"
        behind.kill()
        behind.wait()
        gone = process.client.post("/v1/answer", json=ask)
        assert (gone.status_code, gone.json()["type"]) == (503, "urn:hopsmith:index-unavailable")
        assert process.client.get("/readyz").status_code == 503
        behind, _ = index_server(int(url.rpartition(":")[2]))
        assert process.client.post("/v1/answer", json=ask).json()["answer"] == "Tamsin"
        assert process.client.get("/readyz").status_code == 200
    finally:
        behind.kill()
        behind.communicate()
