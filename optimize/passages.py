"""PassageFile: the texts of the passages that a run has read, each once, written as they come."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from optimize.lines import whole_lines
from retrieval import Passage


class PassageFile:
    """``passages.jsonl`` of a run folder: a line ``{"id", "title", "text", "metadata"}`` a passage.

    Only ids are held in memory. A line that a kill cut short is cut off at opening; its passage
    comes again with the question that was under way. Thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._known.update(json.loads(line)["id"] for _, line in whole_lines(path))

    def keep(self, passages: Iterable[Passage]) -> None:
        """Write those that are new."""
        with self._lock:
            new = {p.id: p for p in passages if p.id not in self._known}
            if not new:
                return
            lines = [json.dumps(_line(p), ensure_ascii=False) for p in new.values()]
            with self.path.open("ab") as file:
                file.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
            self._known.update(new)


def _line(passage: Passage) -> dict[str, Any]:
    line = {"id": passage.id, "title": passage.title, "text": passage.text}
    return {**line, "metadata": dict(passage.metadata)} if passage.metadata else line


def read_passages(path: Path) -> Iterator[Passage]:
    """The passages of such a file; none where there is no file."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                row = json.loads(line.decode("utf-8", "surrogatepass"))
                yield Passage(
                    row["id"], row["title"], row["text"], metadata=row.get("metadata", {})
                )
