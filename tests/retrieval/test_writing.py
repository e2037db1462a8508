"""Folders appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO

import pytest

from retrieval import IndexFault, writing
from retrieval.writing import LOCK, alone, making


@pytest.fixture(params=["one step", "two steps"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "two steps":
        monkeypatch.setattr(writing, "_exchange", lambda one, other: False)


@pytest.mark.usefixtures("exchange")
def test_what_was_there_stays_until_the_new_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for text in ("first", "second"):
        with making(out) as folder:
            (folder / "file").write_text(text)
            assert not out.exists() or (out / "file").read_text() == "first"
        assert (out / "file").read_text() == text
    assert os.listdir(tmp_path) == ["out"]


def test_of_a_link_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with making(tmp_path / "link") as folder:
        (folder / "file").write_text("words")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text() == "words"
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


@pytest.mark.usefixtures("exchange")
def test_a_folder_that_is_being_changed_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with making(out) as folder:
        (folder / "file").write_text("first")
    refused = pytest.raises(IndexFault, match="being changed by another process")
    with alone(out), refused, making(out) as folder:
        (folder / "file").write_text("second")
    assert (out / "file").read_text() == "first"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.usefixtures("exchange")
def test_a_lock_of_a_folder_that_was_replaced_is_worth_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, lock = tmp_path / "out", writing.locked
    with making(out):
        pass

    def late(file: IO[str]) -> bool:
        monkeypatch.setattr(writing, "locked", lock)
        with making(out):
            pass
        return lock(file)

    monkeypatch.setattr(writing, "locked", late)
    with pytest.raises(IndexFault, match="being changed by another process"), alone(out):
        pass


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_makes_is_not(
    tmp_path: Path,
) -> None:
    dead = tmp_path / ".out.making-dead"
    dead.mkdir()
    (dead / LOCK).touch()
    young = tmp_path / ".out.making-young"
    young.mkdir()
    with making(tmp_path / "out") as alive, making(tmp_path / "out"):
        assert alive.exists()
        assert not dead.exists()
        assert young.exists()


@pytest.mark.usefixtures("exchange")
def test_files_reach_the_disk_before_anything_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync, put = os.fsync, writing._put

    def noted(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    def checked(folder: Path, out: Path) -> None:
        assert {folder, *folder.rglob("*")} <= set(synced)
        put(folder, out)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(writing, "_put", checked)
    with making(tmp_path / "out") as folder:
        (folder / "part").mkdir()
        (folder / "part" / "file").write_text("words")
    assert synced[-1] == tmp_path


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("8192 requested and 1024 written"),
    ],
)
def test_a_full_disk_is_told_whichever_way_it_is_told(tmp_path: Path, fault: OSError) -> None:
    with pytest.raises(IndexFault, match="is full: free some space"), making(tmp_path / "out"):
        raise fault
    assert os.listdir(tmp_path) == []


def test_another_fault_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), making(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "no")
