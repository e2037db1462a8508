"""index-serve, and what the other commands say of an index elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith.cli import app, guarded
from hopsmith.commands.index_server import check_open_to, reopen_on_hangup
from hopsmith.errors import HopsmithError
from retrieval import Passage, add_passages, open_index
from retrieval.remote import RemoteRetriever
from retrieval.server import create_app
from retrieval.wire import TOKEN

SECRET = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "")
    monkeypatch.delenv(TOKEN)


@pytest.fixture
def served(small_index: Path, serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with serving(create_app(open_index(small_index, engine="bm25"))) as url:
        yield url


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    before = sys.argv
    sys.argv = ["hopsmith", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "index.example"])
def test_a_host_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(HopsmithError, match=f"set {TOKEN}"):
        check_open_to(host, None)
    check_open_to(host, SECRET)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    check_open_to(host, None)


def test_a_short_token_is_refused_without_repeating_it(
    small_index: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "short-one")
    code, out, err = run(capsys, "index-serve", small_index)
    assert (code, out) == (2, "")
    assert "at least 16" in err
    assert "short-one" not in err


def test_faults_of_set_up_are_one_line(
    small_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "index-serve", "nowhere")
    assert (code, "hopsmith index CORPUS" in err) == (2, True)
    code, _, err = run(capsys, "index-serve", small_index, "--host", "0.0.0.0")
    assert (code, TOKEN in err) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "index-serve", small_index, "--engine", "bm25", "--port", port)
    assert (code, "choose another --port" in err) == (2, True)
    assert err.count("\n") == 1


def test_search_takes_a_servers_address(
    served: str, small_index: Path, world: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    title = world.corpus[3].title
    code, remote, _ = run(capsys, "search", title, "--index", served, "--json")
    assert code == 0
    _, local, _ = run(capsys, "search", title, "--index", small_index, "--engine", "bm25", "--json")
    assert json.loads(remote) == json.loads(local)


def test_eval_over_a_server_has_the_local_indexs_fingerprint_and_result(
    served: str,
    small_index: Path,
    world: Benchmark,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dev = tmp_path / "dev.jsonl"
    lines = [json.dumps(question_to_json(q)) for q in world.questions["dev"]]
    dev.write_text("\n".join(lines))
    words = ["eval", "--data", dev, "--lm", "oracle", "--limit", 3, "--json", "--out"]
    code, out, _ = run(capsys, *words, tmp_path / "far", "--index", served)
    assert code == 0
    far = json.loads(out)
    near = json.loads(
        run(capsys, *words, tmp_path / "near", "--index", small_index, "--engine", "bm25")[1]
    )
    assert far["fingerprint"] == near["fingerprint"]
    for told in (far, near):
        assert told["metrics"].pop("latency_p50") < told["metrics"].pop("latency_p95")
    assert far["metrics"] == near["metrics"]


def test_a_server_that_is_down_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.remote.FIRST_WAIT", 0.001)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    for words in (["search", "q"], ["ask", "q?"], ["eval", "--benchmark", "synthetic:5,20"]):
        code, out, err = run(capsys, *words, "--index", url)
        assert (code, out) == (2, "")
        assert f"no index server answers at {url}" in err
        assert err.count("\n") == 1, err


def test_a_server_lost_in_the_middle_stops_the_run(
    small_index: Path,
    world: Benchmark,
    serving: Callable[..., AbstractContextManager[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dev = tmp_path / "dev.jsonl"
    dev.write_text("\n".join(json.dumps(question_to_json(q)) for q in world.questions["dev"]))
    monkeypatch.setattr("retrieval.remote.FIRST_WAIT", 0.001)
    retriever = open_index(small_index, engine="bm25")
    with serving(create_app(retriever)) as url:
        search, asked = RemoteRetriever._once, []

        def once(self: RemoteRetriever, method: str, path: str, content: bytes | None) -> bytes:
            asked.append(path)
            if len(asked) > 3:
                self.close()
                self.url = "http://127.0.0.1:9"
            return search(self, method, path, content)

        monkeypatch.setattr(RemoteRetriever, "_once", once)
        code, out, err = run(
            capsys, "eval", "--data", dev, "--lm", "oracle", "--index", url, "--workers", 1
        )
    assert (code, out) == (2, "")
    assert "no index server answers" in err


def test_it_takes_up_what_was_added_and_stays_as_it_was_where_it_cant(
    small_index: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = tmp_path / "index"
    shutil.copytree(small_index, index)
    before = len(open_index(index, engine="bm25"))
    hangups: list[Callable[[], None]] = []

    def serve(server: Any, listening: socket.socket) -> None:
        listening.close()
        (reopen,) = hangups
        served = server.state.served
        add_passages(index, [Passage("new", "", "The Quorvan tulip.")])
        assert len(served.retriever) == before
        reopen()
        assert len(served.retriever) == before + 1
        (index / "manifest.json").write_text("{")
        reopen()
        assert served.retriever.search(["Quorvan"], 1)[0][0].id == "new"

    monkeypatch.setattr("hopsmith.commands.index_server.reopen_on_hangup", hangups.append)
    monkeypatch.setattr("hopsmith.commands.index_server.serve", serve)
    code, _, err = run(capsys, "index-serve", index, "--engine", "bm25", "--port", 0)
    assert code == 0, err
    assert f"reopened: {before + 1} passages" in err
    assert "not reopened, the index is served as it was: " in err


def test_a_hangup_reopens() -> None:
    before, called = signal.getsignal(signal.SIGHUP), threading.Event()
    try:
        reopen_on_hangup(called.set)
        signal.raise_signal(signal.SIGHUP)
        assert called.wait(20)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_told_to_stop(small_index: Path, told: int) -> None:
    words = ["index-serve", str(small_index), "--engine", "bm25", "--port", "0", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "hopsmith", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN: SECRET},
    ) as process:
        assert process.stdout is not None
        about = json.loads(process.stdout.readline())
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", about["url"])
        remote = RemoteRetriever(about["url"], SECRET)
        assert len(remote) == about["passages"]
        assert remote.search(["river"], 3)[0]
        process.send_signal(told)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Traceback" not in err
