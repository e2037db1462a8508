"""Append-only files of lines: what a kill cut short is cut off when they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers (from 1), blank ones left out; none where there is no
    file. Read to its end, a last line without its line break is cut off the file."""
    if not path.is_file():
        return
    whole = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            if line.strip():
                yield number, line
    if whole < path.stat().st_size:
        os.truncate(path, whole)
