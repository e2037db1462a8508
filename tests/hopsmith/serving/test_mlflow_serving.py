"""The export's other door: ``mlflow models serve``."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dspy
import httpx
import pytest

from benchmarks import Benchmark
from hopsmith.lm import make_lm
from hopsmith.settings import load_settings
from optimize.export import export
from programs import build
from retrieval import build_index, open_index


@pytest.mark.slow
def test_mlflow_serves_the_exported_model(world: Benchmark, tmp_path: Path, faulty: Any) -> None:
    index = tmp_path / "index"
    build_index(world.corpus, index, engine="bm25")
    with dspy.context(lm=make_lm(load_settings(lm="m", api_base=faulty.url))):
        folder = export(build("single_shot", open_index(index)), tmp_path / "export")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "HOPSMITH_INDEX": str(index),
        "HOPSMITH_API_BASE": faulty.url,
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [*command, "-m", str(folder / "mlflow_model"), "-p", str(port)],
        env=environment,
        cwd=tmp_path,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    question = world.questions["dev"][0].question
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False) as client:
            wait_for(client, process, tmp_path / "log")
            told = client.post("/invocations", json={"inputs": [question]})
            assert told.status_code == 200, told.text
            (answer,) = told.json()["predictions"]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
        log.close()
    assert answer["answer"] == "Tamsin"
    assert answer["stop_reason"] == "answered"
    assert len(answer["hops"]) == 1
    assert answer["passages"][0]["id"] in answer["hops"][0]["passages"]


def wait_for(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 400
    while time.monotonic() < until and process.poll() is None:
        try:
            if client.get("/ping").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])
