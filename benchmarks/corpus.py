"""A corpus file as a sequence that stays on disk: millions of passages don't fit in lists."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from benchmarks.errors import BenchmarkError
from benchmarks.rows import file_rows
from retrieval import CorpusError, Passage, passage_id, read_corpus
from retrieval.corpus import CSV_SUFFIXES
from retrieval.documents import SUFFIXES

_WORDLESS = re.compile(rb'"text"\s*:\s*"(?:\s|\\u[0-9a-fA-F]{4}|\\[bfnrt]|[\x80-\xff])*"')
"""Lines that may have no word: few, which are then parsed."""
OWN_COLUMNS = ("id", "title", "text", "body")


class MappedCorpus(Sequence[Passage]):
    """The passages of a JSONL file, read when asked for; only line offsets are kept (8 bytes each).

    Passages without a word are left out, as in ``retrieval.read_corpus``. A line that is no passage
    raises ``CorpusError`` when it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts = array("q")
        self._numbers = array("q")
        at = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not _wordless(line):
                    self._starts.append(at)
                    self._numbers.append(number)
                at += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> Passage: ...
    @overload
    def __getitem__(self, place: slice) -> list[Passage]: ...
    def __getitem__(self, place: int | slice) -> Passage | list[Passage]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        start = self._starts[place]
        with self.path.open("rb") as file:
            file.seek(start)
            return self._passage(file.readline(), self._numbers[place])

    def __iter__(self) -> Iterator[Passage]:
        with self.path.open("rb") as file:
            for start, number in zip(self._starts, self._numbers, strict=True):
                if file.tell() != start:
                    file.seek(start)
                yield self._passage(file.readline(), number)

    def _passage(self, line: bytes, number: int) -> Passage:
        where = f"{self.path}:{number}"
        try:
            row = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise CorpusError(f"{where} is no UTF-8: save the file as UTF-8") from None
        except json.JSONDecodeError as fault:
            raise CorpusError(
                f"{where} is no JSON ({fault.msg}): one object a line is wanted"
            ) from None
        return passage_of(row, where)


def _wordless(line: bytes) -> bool:
    if not _WORDLESS.search(line):
        return False
    try:
        return not str(json.loads(line).get("text", "")).strip()
    except (ValueError, AttributeError):
        return False


def passage_of(row: Any, where: str) -> Passage:
    """A passage from ``id``, ``title``, ``text``; MultiHop-RAG's articles say ``body`` and have no
    id. Raises ``CorpusError``."""
    text = row.get("text", row.get("body")) if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise CorpusError(f"{where} is no passage: an object with id, title and text is wanted")
    title = row.get("title") or ""
    identifier = row.get("id")
    if not isinstance(title, str) or isinstance(identifier, bool):
        raise CorpusError(f"{where}: title must be a string, id a string or a whole number")
    if identifier is None and "body" in row:
        identifier = passage_id(title, text)
    if not isinstance(identifier, (str, int)) or identifier == "":
        raise CorpusError(f"{where}: id must be a string or a whole number, got {identifier!r}")
    metadata = {k: v for k, v in row.items() if k not in OWN_COLUMNS}
    return Passage(str(identifier), title, text, metadata=metadata)


def open_corpus(path: Path) -> Sequence[Passage]:
    """A corpus by its path: JSONL stays on disk; documents, a table or a JSON array are read.

    Raises ``CorpusError`` or ``BenchmarkError``.
    """
    if not path.exists():
        raise BenchmarkError(f"no corpus at {path}")
    if path.is_dir() or path.suffix.lower() in {*SUFFIXES, *CSV_SUFFIXES}:
        return list(read_corpus(path))
    with path.open("rb") as file:
        first = file.read(4096).lstrip()
    if first.startswith(b"["):
        return [passage_of(row.data, row.where) for row in file_rows(path)]
    return MappedCorpus(path)
