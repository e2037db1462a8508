"""hopsmith bench: a table or one JSON object; what is asked wrongly is one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark
from hopsmith.cli import app, guarded


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a bench of retrieval."""
    before = sys.argv
    sys.argv = ["hopsmith", "bench", "retrieval", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def folder(world: Benchmark, tmp_path: Path) -> Path:
    """A corpus and questions in the layout that retrieval papers share."""
    out = tmp_path / "set"
    out.mkdir()
    titles = {p.id: p.title for p in world.corpus}
    passages = [{"id": p.id, "title": p.title, "text": p.text} for p in world.corpus]
    questions = [
        {
            "id": q.id,
            "question": q.question,
            "answer": q.answer,
            "supporting_titles": [titles[i] for i in q.supporting],
        }
        for q in world.questions["train"]
        if q.supporting
    ]
    for name, rows in (("passages", passages), ("questions", questions)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return out


def test_a_folder_is_measured_and_kept_where_it_is_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (folder, "--engines", "bm25", "--limit", "5", "--work", tmp_path / "work")
    code, told, err = run(capsys, *words, "--json")
    assert code == 0
    found = json.loads(told)
    assert (found["corpus"], found["passages"], found["questions"]) == ("set", 40, 5)
    (row,) = found["searches"]
    assert row["engine"] == "bm25"
    assert 0 <= row["recall@2"] <= row["recall@20"] <= 1
    assert "round 1 of 1" in err
    code, told, err = run(capsys, *words)
    assert code == 0
    assert "going on" in err
    assert told.splitlines()[-1].split()[:2] == ["bm25", "5"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "nowhere is no folder"),
        (("synthetic", "--engines", "bm26"), "no engine"),
        (("synthetic", "--plot", "x.png"), "--sizes"),
        (("hotpotqa", "--sizes", "1000"), "grows the synthetic world"),
        (("synthetic", "--sizes", "1000,many"), "no list of whole numbers"),
        (("synthetic", "--sizes", "10"), "at least 500"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told, err = run(capsys, *words)
    assert (code, told) == (2, "")
    (line,) = (text for text in err.splitlines() if text.startswith("hopsmith: "))
    assert said in line
