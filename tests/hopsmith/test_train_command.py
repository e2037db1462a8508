"""hopsmith train-retriever, as a user types it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith.cli import app, guarded
from retrieval import build_index

FEW = ("--steps", 2, "--every", 1, "--batch", 4, "--passage-tokens", 32)


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    before = sys.argv
    sys.argv = ["hopsmith", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def files(world: Benchmark, tmp_path: Path, tiny_checkpoint: Callable[..., Path]) -> Path:
    """A folder with train.jsonl, dev.jsonl, words (an index) and tiny (a checkpoint)."""
    for split in ("train", "dev"):
        lines = [json.dumps(question_to_json(q)) for q in world.questions[split]]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    build_index(world.corpus, tmp_path / "words", engine="bm25")
    tiny_checkpoint(tmp_path / "tiny")
    return tmp_path


def test_it_trains_tracks_and_writes_a_checkpoint_that_index_takes(
    files: Path, world: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train-retriever", "--train", files / "train.jsonl", "--dev", files / "dev.jsonl"]
    words += ["--index", files / "words", "--checkpoint", files / "tiny", "--out", files / "out"]
    code, told, err = run(capsys, *words, *FEW, "--json")
    assert code == 0, err
    row = json.loads(told)
    assert row["checkpoint"] == str(files / "out")
    assert set(row["recall@5"]["sets"]["own"]) == {
        "n",
        "before",
        "after",
        "difference",
        "low",
        "high",
    }
    unanswerable = sum(not q.answerable for s in ("train", "dev") for q in world.questions[s])
    assert row["left_out"] == unanswerable
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{files / 'out' / 'training' / 'mlflow.db'}")
    data = client.get_run(row["mlflow"]).data
    assert data.params["steps"] == "2"
    assert len(client.get_metric_history(row["mlflow"], "loss")) == row["steps"]
    assert client.get_metric_history(row["mlflow"], "dev_recall_at_5")[0].step == 0
    corpus = files / "corpus.jsonl"
    corpus.write_text(
        "".join(json.dumps({"id": p.id, "text": p.text}) + "\n" for p in world.corpus)
    )
    code, told, err = run(
        capsys, "index", corpus, "--checkpoint", files / "out", "--out", files / "new", "--json"
    )
    assert code == 0, err
    code, told, err = run(capsys, *words, *FEW, "--seed", 1)
    assert (code, told) == (2, "")
    assert "holds another training (settings differ)" in err
    code, told, _ = run(capsys, *words, *FEW)
    assert code == 0
    assert client.get_run(row["mlflow"]).info.status == "FINISHED"
    assert "recall@5 of the dev pools" in told
    assert "hopsmith index CORPUS --checkpoint" in told


def test_without_dev_a_part_of_the_training_questions_is_watched(
    files: Path, world: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train-retriever", "--train", f"own={files / 'train.jsonl'}"]
    words += ["--index", files / "words", "--checkpoint", files / "tiny", "--out", files / "out"]
    code, told, err = run(capsys, *words, *FEW, "--json")
    assert code == 0, err
    watched = json.loads(told)["recall@5"]["sets"]["own"]["n"]
    assert watched == round(0.1 * len(world.questions["train"]))


def test_files_of_data_sets_are_balanced_over_their_own_paragraphs(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSMITH_CACHE", str(files / "cache"))
    for name in "ab":
        rows = [
            {
                "_id": f"{name}{n}",
                "question": f"Which prize did founder {n} of {name} win?",
                "answer": f"Prize {n}",
                "supporting_facts": [[f"Founder {name} {n}", 0]],
                "context": [
                    [f"Founder {name} {n}", [f"Founder {n} of {name} won Prize {n}."]],
                    [f"Mayor {name} {n}", [f"Mayor {n} of {name} won nothing."]],
                ],
            }
            for n in range(10)
        ]
        (files / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["train-retriever", "--checkpoint", files / "tiny", "--out", files / "out"]
    words += [
        "--train",
        f"hotpotqa={files / 'a.jsonl'}",
        "--train",
        f"hotpotqa={files / 'b.jsonl'}",
    ]
    code, told, err = run(capsys, *words, *FEW, "--json")
    assert code == 0, err
    sets = json.loads(told)["recall@5"]["sets"]
    assert {name: row["n"] for name, row in sets.items()} == {"hotpotqa": 1, "hotpotqa-2": 1}
    assert len(list((files / "cache" / "indexes").glob("hotpotqa-*-bm25"))) == 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--train": "nothing.jsonl"}, "there is no such file"),
        ({"--index": "nowhere"}, "does not exist: build one with hopsmith index"),
        ({"--index": None}, "give the index of its corpus with --index DIR"),
        ({"--frozen": 9}, "has 2 layers; lower --frozen"),
        ({"--dim": 999}, "has 24 dimensions; give fewer"),
        ({"--batch": 1}, "batch must be at least 2"),
        ({"--train": "few.jsonl"}, "at least 8 are needed"),
        ({"--train": "goldless.jsonl"}, "names no gold passage"),
        ({"--train": "strange.jsonl"}, "passage 'nowhere' is not in the index"),
        ({"--out": "train.jsonl"}, "holds no training: give another --out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    changed: dict[str, Any], says: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (files / "train.jsonl").read_text().splitlines()
    (files / "few.jsonl").write_text("\n".join(lines[:3]) + "\n")
    bare = [{"question": f"Who is {n}?", "answer": "A"} for n in range(9)]
    (files / "goldless.jsonl").write_text("".join(json.dumps(q) + "\n" for q in bare))
    strange = [q | {"supporting": ["nowhere"]} for q in bare]
    (files / "strange.jsonl").write_text("".join(json.dumps(q) + "\n" for q in strange))
    given: dict[str, Any] = {
        "--train": "train.jsonl",
        "--dev": "dev.jsonl",
        "--index": "words",
        "--checkpoint": "tiny",
        "--out": "out",
    } | changed
    paths = ("--train", "--dev", "--index", "--checkpoint", "--out")
    words = [
        word
        for name, value in given.items()
        if value is not None
        for word in (name, files / value if name in paths else value)
    ]
    code, told, err = run(capsys, "train-retriever", *words)
    faults = [line for line in err.splitlines() if line.startswith("hopsmith: ")]
    assert (code, told) == (2, ""), err
    assert len(faults) == 1
    assert says in faults[0]
