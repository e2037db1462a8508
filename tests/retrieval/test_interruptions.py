"""A build or a change that breaks off, wherever it does, leaves the index that was there."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import Benchmark
from retrieval import (
    IndexFault,
    Passage,
    add_passages,
    build_index,
    compact,
    delete_passages,
    open_index,
)
from retrieval.encoder import Encoder
from retrieval.manifest import Manifest

NEW = Passage("new", "Quorvan Tulip", "The Quorvan tulip is grown in glasshouses by Aldis Merk.")
QUERY = "Who grows the Quorvan tulip?"


@pytest.fixture
def index(small_index: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    shutil.copytree(small_index, folder)
    return folder


def state(folder: Path) -> tuple[str, list[list[str]]]:
    retriever = open_index(folder, engine="two-stage")
    return retriever.corpus_hash, [[p.id for p in f] for f in retriever.search([QUERY], 9)]


def rebuild(folder: Path) -> None:
    build_index([NEW, Passage("other", "", "Another passage.")], folder, overwrite=True)


def add(folder: Path) -> None:
    add_passages(folder, [NEW])


def delete(folder: Path) -> None:
    delete_passages(folder, [open_index(folder, engine="bm25").search([QUERY], 1)[0][0].id])


CHANGES = [rebuild, add, delete, compact]


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("power cut")


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "encoder": lambda patch: patch.setattr(Encoder, "passages", broken),
    "arrays": lambda patch: patch.setattr(np, "save", broken),
    "manifest": lambda patch: patch.setattr(Manifest, "write", broken),
}


ENCODES = (rebuild, add)
"""Deletions and compactions copy vectors as they are stored."""


@pytest.mark.parametrize(
    ("change", "point"),
    [(c, p) for c in CHANGES for p in BREAKS if c in ENCODES or p != "encoder"],
)
def test_a_change_that_breaks_off_leaves_the_index_as_it_was(
    index: Path, change: Callable[[Path], object], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(index)
    with monkeypatch.context() as patch:
        BREAKS[point](patch)
        with pytest.raises(RuntimeError, match="power cut"):
            change(index)
    assert state(index) == before
    assert [p.name for p in index.parent.iterdir()] == ["index"]
    change(index)
    assert change is compact or state(index) != before
    manifest = Manifest.read(index)
    assert {p.name for p in (index / "segments").iterdir()} == {s.name for s in manifest.segments}
    assert [p.name for p in index.glob("bm25-*")] == [manifest.lexical]
    assert list(index.glob(".manifest*")) == []


class FullDisk:
    """Opens files for which the disk has ``room`` bytes in all."""

    def __init__(self, room: int) -> None:
        self.room = room

    def __call__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opened = io.open(file, mode, *args, **kwargs)  # noqa: SIM115, UP020
        if "w" in mode:
            write = opened.write
            taken = self

            def bounded(data: Any) -> Any:
                taken.room -= len(data)
                return full() if taken.room < 0 else write(data)

            return _Bounded(opened, bounded)
        return opened


class _Bounded:
    def __init__(self, file: Any, write: Callable[[Any], Any]) -> None:
        self._file = file
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Bounded:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@pytest.mark.parametrize("room", [0, 300, 30_000])
def test_a_disk_that_fills_up_while_writing_is_one_line_and_leaves_the_index(
    index: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(index)
    many = [Passage(f"n{i}", "Tulip", "A tulip that grows. " * 20) for i in range(8)]
    with monkeypatch.context() as patch:
        disk = FullDisk(room)
        patch.setattr(Path, "open", lambda self, *a, **k: disk(self, *a, **k))
        patch.setattr(builtins, "open", disk)
        with pytest.raises(IndexFault, match=r"disk .* is full.*unchanged"):
            add_passages(index, many)
        with pytest.raises(IndexFault, match=r"disk .* is full"):
            build_index(many, index.parent / "other")
    assert state(index) == before
    assert [p.name for p in index.parent.iterdir()] == ["index"]
    add_passages(index, many)
    assert len(open_index(index)) == len(many) + Manifest.read(index).segments[0].passages


@pytest.mark.parametrize("change", CHANGES)
def test_another_fault_of_the_system_is_not_called_a_full_disk(
    index: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", denied)
        with pytest.raises(OSError, match="Input/output"):
            change(index)


KILLED = """
import os, signal, sys
from pathlib import Path
from retrieval import Passage, add_passages, build_index
from retrieval.encoder import Encoder
from retrieval.manifest import Manifest

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

what, where, folder = sys.argv[1:]
if where == "encoder":
    Encoder.passages = die
elif where == "manifest":
    Manifest.write = die
passages = [Passage("new", "Quorvan Tulip", "The Quorvan tulip is grown by Aldis Merk.")]
if what == "add":
    add_passages(Path(folder), passages)
else:
    build_index(passages, Path(folder), overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["encoder", "manifest"])
@pytest.mark.parametrize("what", ["add", "build"])
def test_a_killed_process_leaves_the_index_and_the_next_change_sweeps(
    index: Path, world: Benchmark, what: str, where: str
) -> None:
    before = state(index)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, what, where, str(index)], capture_output=True, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL
    assert state(index) == before
    if what == "add":
        add(index)
        assert state(index)[1][0][0] == "new"
    else:
        rebuild(index)
        assert len(open_index(index)) == 2
    names = {p.name for p in index.parent.iterdir()} | {p.name for p in index.iterdir()}
    assert not [n for n in names if "making" in n or ".manifest" in n]
    segments = {s.name for s in Manifest.read(index).segments}
    assert {p.name for p in (index / "segments").iterdir()} == segments
