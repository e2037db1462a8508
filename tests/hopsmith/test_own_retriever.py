"""Own retrievers, named as module:factory or brought by an installed package."""

from __future__ import annotations

import json
import pickle
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith.cli import app, guarded
from retrieval import RetrieverFault, plugged
from retrieval.conformance import CHECKS, Subject, conform

OWN = """
from retrieval import Passage, RetrieverFault

TEXTS = {{"a": "the red river", "b": "a blue museum", "c": "the city of museums by the river"}}


class Words:
    identity = {{"engine": "by-shared-words"}}

    def __init__(self, where="default"):
        self.place = where

    def __len__(self):
        return len(TEXTS)

    def search(self, queries, k, pool=None):
        return [self._one(query, k) for query in queries]

    def _one(self, query, k):
        shared = {{i: len(set(query.lower().split()) & set(t.split())) for i, t in TEXTS.items()}}
        order = sorted(TEXTS, key=lambda i: (-shared[i], i))[:k]
        return [Passage(i, i, TEXTS[i], float(shared[i]), n) for n, i in enumerate(order, 1)]


class Careless:
    def __init__(self):
        self.calls = 0

    def search(self, queries, k, pool=None):
        self.calls += 1
        return [[Passage("a", "", "text", float(self.calls), 0)] * 2 for _ in queries]


class Rows:
    def search(self, queries, k, pool=None):
        return [[{{"id": "a", "text": "text"}}] for _ in queries]


class NoLists:
    def search(self, queries, k, pool=None):
        return None


def nothing():
    return object()


def fails():
    raise ValueError("no database\\nat HOST")


def mended():
    raise RetrieverFault("give the database's address")


a_number = 7
"""


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


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of somebody's, in the working folder."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN.format())
    (tmp_path / f"{name}_wrong.py").write_text("def (")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_search_uses_it(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "blue museum", "--retriever", f"{module}:Words", "--k", 2, "--json"]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert [p["id"] for p in json.loads(out)["results"][0]] == ["b", "a"]


def test_queries_that_are_no_utf8_are_one_line(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin.txt").write_bytes("Über den Fluß".encode("latin-1"))
    words = ["search", "--queries", tmp_path / "latin.txt", "--retriever", f"{module}:Words"]
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "latin.txt is no UTF-8 (byte 0): save the file as UTF-8" in err
    assert err.count("\n") == 1


def test_eval_uses_it(
    module: str, world: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = tmp_path / "dev.jsonl"
    dev.write_text("\n".join(json.dumps(question_to_json(q)) for q in world.questions["dev"]))
    words = ["eval", "--data", dev, "--retriever", f"{module}:Words", "--lm", "oracle", "--json"]
    code, out, _ = run(capsys, *words, "--limit", 2)
    assert (code, json.loads(out)["n"]) == (0, 2)


def test_index_is_what_it_is_called_with(module: str) -> None:
    assert plugged(f"{module}:Words").inner.place == "default"  # type: ignore[attr-defined]
    assert plugged(f"{module}:Words", "there").inner.place == "there"  # type: ignore[attr-defined]


def test_an_installed_package_brings_one(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", f"{module}:Words", "hopsmith.retrievers")
    monkeypatch.setattr("retrieval.own.entry_points", lambda group: [point])
    assert plugged("theirs").identity == {"engine": "by-shared-words"}
    with pytest.raises(RetrieverFault, match="there are theirs"):
        plugged("ours")


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("{}:nobody", "has no function or class 'nobody'"),
        ("{}:a_number", "has no function or class 'a_number'"),
        ("{}:nothing", "has no search"),
        ("{}:fails", "(ValueError: no database at HOST): mend it and check it with hopsmith"),
        ("{}:mended", "hopsmith: give the database's address\n"),
        ("{}:Rows", "must return a list of retrieval.Passage for each query, not [[{"),
        ("{}:NoLists", "must return a list of retrieval.Passage for each query"),
        ("{}_wrong:x", "can't be imported (SyntaxError: "),
        ("no_such_module:x", "run this in its folder"),
        ("unknown", "module:factory"),
    ],
)
def test_what_is_no_retriever_is_one_line(
    module: str, name: str, mend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "search", "q", "--retriever", name.format(module))
    assert (code, out) == (2, "")
    assert mend in err
    assert err.count("\n") == 1


def test_flags_that_it_does_not_take_are_refused(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", "q", "--retriever", f"{module}:Words", "--engine", "exact"]
    code, _, err = run(capsys, *words)
    assert (code, "--engine can't change" in err) == (2, True)
    words = ["search", "q", "--retriever", f"{module}:nothing", "--index", "x"]
    code, _, err = run(capsys, *words)
    assert (code, "leave --index out" in err) == (2, True)


@pytest.mark.parametrize("check", CHECKS)
def test_a_careful_one_keeps_the_contract(module: str, check: str) -> None:
    note = CHECKS[check](Subject(plugged(f"{module}:Words"), size=3))
    assert bool(note) == (check == "corpus_hash")


def test_a_careless_one_is_told_what_is_wrong(module: str) -> None:
    findings = {f.check: f for f in conform(plugged(f"{module}:Careless"))}
    wrong = {name for name, f in findings.items() if f.state == "wrong"}
    assert {"batch_equals_single", "ranks", "large_k"} <= wrong
    assert "ranks must count from 1" in findings["ranks"].says or "twice" in findings["ranks"].says
    assert findings["copies"].state == "ok"


def test_its_pickle_is_its_name(module: str) -> None:
    retriever = plugged(f"{module}:Words", "there")
    again = pickle.loads(pickle.dumps(retriever))
    assert again.inner.place == "there"
    assert b"museum" not in pickle.dumps(retriever)
