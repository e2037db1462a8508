"""Index folders: growing, thinning, crashing, filling the disk; windows, codecs, encoders."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import Benchmark
from retrieval import (
    CorpusError,
    IndexFault,
    Passage,
    add_passages,
    build_index,
    compact,
    delete_passages,
    open_index,
)
from retrieval.change import changing


@pytest.fixture
def index(small_index: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    shutil.copytree(small_index, folder)
    return folder


NEW = Passage("new", "Quorvan Tulip", "The Quorvan tulip is grown in glasshouses by Aldis Merk.")
QUERY = "Who grows the Quorvan tulip?"


def first(folder: Path, query: str = QUERY) -> str:
    return open_index(folder).search([query], 1)[0][0].id


def test_what_is_added_is_found_and_what_is_deleted_is_not(index: Path) -> None:
    before = open_index(index)
    report = add_passages(index, [NEW])
    assert (report.changed, first(index)) == (1, "new")
    assert before.search([QUERY], 1)[0][0].id != "new"
    assert open_index(index).corpus_hash != before.corpus_hash
    delete_passages(index, ["new"])
    assert first(index) != "new"
    assert open_index(index).corpus_hash == before.corpus_hash


def test_compaction_changes_no_result(index: Path) -> None:
    add_passages(index, [NEW])
    gone = open_index(index).search(["river"], 1)[0][0].id
    delete_passages(index, [gone])
    before = open_index(index)
    expected = [[(p.id, round(p.score, 4)) for p in r] for r in before.search([QUERY, "river"], 9)]
    compact(index)
    after = open_index(index)
    found = [[(p.id, round(p.score, 4)) for p in r] for r in after.search([QUERY, "river"], 9)]
    assert found == expected
    assert after.corpus_hash == before.corpus_hash
    assert len(list((index / "segments").iterdir())) == 1
    assert before.search([QUERY], 1)[0][0].id == "new"


def test_an_id_that_is_there_is_refused(index: Path, world: Benchmark) -> None:
    with pytest.raises(CorpusError, match="the index has already"):
        add_passages(index, [world.corpus[3]])
    with pytest.raises(CorpusError, match="nothing to add"):
        add_passages(index, [])
    with pytest.raises(CorpusError, match="no passage has the id"):
        delete_passages(index, ["nobody"])
    assert len(open_index(index)) == len(world.corpus)


def test_a_crash_in_the_middle_of_an_addition_leaves_the_index(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from retrieval.encoder import Encoder

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "passages", broken)
        with pytest.raises(RuntimeError, match="power cut"):
            add_passages(index, [NEW])
    assert first(index) != "new"
    add_passages(index, [NEW])
    assert first(index) == "new"


def test_a_failed_build_leaves_nothing_and_keeps_what_was_there(
    index: Path, world: Benchmark, tmp_path: Path
) -> None:
    def breaking() -> Any:
        yield world.corpus[0]
        raise RuntimeError("power cut")

    for out in (tmp_path / "fresh", index):
        with pytest.raises(RuntimeError, match="power cut"):
            build_index(breaking(), out, overwrite=True)
    assert {p.name for p in tmp_path.iterdir()} == {"index"}
    assert len(open_index(index)) == len(world.corpus)


def test_a_full_disk_is_one_line_and_leaves_nothing(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(IndexFault, match=r"disk .* is full"):
        build_index(world.corpus[:3], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_overwritten_unasked(index: Path, world: Benchmark) -> None:
    with pytest.raises(IndexFault, match="exists"):
        build_index(world.corpus, index)


def test_another_encoder_is_refused(index: Path) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    manifest["encoder"]["weights"] = "0" * 64
    (index / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(IndexFault, match=r"another checkpoint .*weights"):
        open_index(index).search(["river"], 1)


def test_a_damaged_index_is_one_line(index: Path) -> None:
    segment = next((index / "segments").iterdir())
    lexical = next(index.glob("bm25-*"))
    parts = (segment, "vectors.bin"), (segment, "pooled.bin"), (segment, "windows.npy")
    texts = (segment, "offsets.npy"), (segment, "passages.jsonl")
    for folder, name in (*parts, *texts, (lexical, "indptr.csc.index.npy")):
        whole = (folder / name).read_bytes()
        for cut in (whole[:-7], whole[:-8], b""):
            (folder / name).write_bytes(cut)
            with pytest.raises(IndexFault, match=f"{folder.name} is damaged: index the corpus"):
                open_index(index, engine="two-stage")
        (folder / name).write_bytes(whole)
    (index / "manifest.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(IndexFault, match=r"manifest\.json can't be read .*index the corpus again"):
        open_index(index)


def test_an_index_without_vectors_says_so(world: Benchmark, tmp_path: Path) -> None:
    build_index(world.corpus, tmp_path / "words", engine="bm25")
    with pytest.raises(IndexFault, match="no vectors"):
        open_index(tmp_path / "words", engine="exact")


def test_two_writers_do_not_meet(index: Path) -> None:
    with changing(index), pytest.raises(IndexFault, match="another process"):
        add_passages(index, [NEW])


def test_an_index_that_is_being_changed_is_not_overwritten(index: Path, world: Benchmark) -> None:
    def meanwhile() -> Iterator[Passage]:
        yield NEW
        with pytest.raises(IndexFault, match="another process"):
            build_index([NEW], index, engine="bm25", overwrite=True)

    assert add_passages(index, meanwhile()).passages == len(world.corpus) + 1
    assert first(index) == "new"
    with ExitStack() as change:

        def late() -> Iterator[Passage]:
            yield NEW
            change.enter_context(changing(index))

        with pytest.raises(IndexFault, match="another process"):
            build_index(late(), index, engine="bm25", overwrite=True)
    assert len(open_index(index)) == len(world.corpus) + 1
    assert {p.name for p in index.parent.iterdir()} == {"index"}


def test_a_change_that_ended_before_an_overwrite_is_overwritten(index: Path) -> None:
    def meanwhile() -> Iterator[Passage]:
        yield NEW
        add_passages(index, [Passage("other", "", "Another passage.")])

    build_index(meanwhile(), index, engine="bm25", overwrite=True)
    assert [p.id for p in open_index(index).corpus()] == ["new"]


def test_folders_that_cant_be_replaced_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread() -> Iterator[Passage]:
        pytest.fail("the corpus was read")
        yield NEW

    monkeypatch.chdir(tmp_path)
    for out in (Path(), tmp_path, Path("/")):
        with pytest.raises(IndexFault, match="name a folder inside it"):
            build_index(unread(), out, engine="bm25", overwrite=True)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_mount", lambda path: path == tmp_path / "disk")
        (tmp_path / "disk").mkdir()
        (tmp_path / "link").symlink_to("disk")
        with pytest.raises(IndexFault, match=r"mount point .*name a folder inside it"):
            build_index(unread(), "link", engine="bm25")
    assert build_index([NEW], "link", engine="bm25").passages == 1
    assert (tmp_path / "disk" / "manifest.json").is_file()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["disk", "link"]


def test_many_passages_of_one_title_keep_apart(tmp_path: Path) -> None:
    same = [Passage(f"p{i}", "Same", f"text number {i}") for i in range(300)]
    build_index(same, tmp_path / "index", engine="bm25")
    found = open_index(tmp_path / "index").search(["text number 7"], 300)[0]
    assert found[0].id == "p7"
    assert len({p.id for p in found}) == 300


def test_quantised_vectors_are_small_and_rank_alike(
    world: Benchmark, small_index: Path, tmp_path: Path
) -> None:
    report = build_index(world.corpus, tmp_path / "pq", vectors="pq", engine="exact")
    assert report.bytes_per_passage <= 8000
    queries = [q.question for q in world.questions["train"]]
    small = open_index(tmp_path / "pq").search(queries, 5)
    whole = open_index(small_index, engine="exact").search(queries, 5)
    shared = [
        len({p.id for p in a} & {p.id for p in b}) / 5 for a, b in zip(small, whole, strict=True)
    ]
    assert sum(shared) / len(shared) > 0.8


def test_maxsim_is_colbert_s(small_index: Path) -> None:
    import torch

    retriever = open_index(small_index, engine="exact")
    index = retriever.index
    query = index.encoder.queries([QUERY])[0]
    ours = index.maxsim_all([query])[0]
    from retrieval.encoder import kept_start_method

    with kept_start_method():
        from colbert.infra import ColBERTConfig
        from colbert.modeling.colbert import colbert_score
    for place in (0, 7, 20):
        vectors, _ = index.segments[0].vectors([place])
        score = colbert_score(
            torch.from_numpy(query)[None],
            torch.from_numpy(np.ascontiguousarray(vectors))[None],
            torch.ones(1, len(vectors), 1, dtype=torch.bool),
            config=ColBERTConfig(),
        )
        assert ours[place] * len(query) == pytest.approx(float(score), abs=1e-3)


def test_a_checkpoint_without_a_projection_is_refused(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from retrieval.checkpoint import checkpoint

    save_file({"bert.x": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(IndexFault, match=r"no linear\.weight"):
        checkpoint(str(tmp_path))


def test_importing_is_cheap_and_leaves_the_start_method() -> None:
    code = (
        "import sys, multiprocessing as m, retrieval, programs, metrics, signatures, benchmarks\n"
        "heavy = {'torch', 'colbert', 'mlflow', 'optuna', 'transformers', 'datasets', 'faiss'}\n"
        "print(sorted(heavy & set(sys.modules)), m.get_start_method(allow_none=True))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] None"
