"""How a folder comes to be: written under a hidden name beside its place, then moved there."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from retrieval.errors import IndexFault

LOCK = ".lock"
UNLOCKED_FOR = 3600
"""Seconds after which a half-written folder without a lock counts as abandoned."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@contextmanager
def making(out: Path) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its place when the block ends well.

    What was at ``out`` stays until then. Folders that killed processes left are removed first.
    Raises ``IndexFault`` when the disk is full.
    """
    with full_disk(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        for left in out.parent.glob(f".{glob.escape(out.name)}.making-*"):
            if _abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.making-"))
    try:
        with full_disk(out):
            folder.chmod(0o755)
            with (folder / LOCK).open("w") as lock:
                locked(lock)
                yield folder
            settle(folder)
            _put(folder, out)
            settle_names(out.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settle(folder: Path) -> None:
    """Have the system write a folder's files and their names to the disk: what names them later
    must not survive a power loss that they don't."""
    for path, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(path, name), "rb") as file:
                os.fsync(file.fileno())
        settle_names(Path(path))


def settle_names(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One writer at a time: raises ``IndexFault`` when another is at work in the folder."""
    with (folder / LOCK).open("a") as lock:
        if not locked(lock):
            raise IndexFault(f"{folder} is being changed by another process: wait for it")
        yield


def locked(file: IO[str]) -> bool:
    """Take the file's lock, which the system frees when a process dies; False when it is taken."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def full_disk(out: Path) -> Iterator[None]:
    """Raise ``IndexFault`` with the mend where the system says that no space is left. numpy says
    so without an error number, by how much it could write."""
    try:
        yield
    except OSError as fault:
        numpy_says = fault.errno is None and str(fault).endswith(" written")
        if fault.errno in (errno.ENOSPC, errno.EDQUOT) or numpy_says:
            raise IndexFault(
                f"the disk of {out} is full: free some space and run this again (what was there "
                "before is unchanged)"
            ) from fault
        raise


def _abandoned(folder: Path) -> bool:
    with suppress(OSError):
        if not (folder / LOCK).exists():
            return time.time() - folder.stat().st_mtime > UNLOCKED_FOR
        with (folder / LOCK).open("a") as lock:
            return locked(lock)
    return False


def _put(folder: Path, out: Path) -> None:
    if not out.exists():
        os.replace(folder, out)
    elif not _exchange(folder, out):
        old = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.old-"))
        os.replace(out, old / out.name)
        os.replace(folder, out)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, where the system can."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    swapped: int = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return swapped == 0
