"""Reading a CORPUS: JSONL, or a folder of text files. Streams; says file and line of a fault."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from retrieval.errors import CorpusError
from retrieval.passage import Passage

TEXT_SUFFIXES = (".txt", ".md", ".markdown")
OWN_COLUMNS = ("id", "title", "text")

Warn = Callable[[str], None]


def read_corpus(path: Path | str, warn: Warn | None = None) -> Iterator[Passage]:
    """Passages of a JSONL file or of a folder's text files, in a stable order.

    ``warn`` is told of what is skipped (a passage without a word). Raises ``CorpusError``.
    """
    path = Path(path)
    if path.is_dir():
        return read_folder(path, warn)
    if path.is_file():
        return read_jsonl(path, warn)
    raise CorpusError(f"no corpus at {path}: give a JSONL file or a folder of .txt and .md files")


def read_jsonl(path: Path, warn: Warn | None = None) -> Iterator[Passage]:
    """One JSON object a line: ``id``, ``title``, ``text``; other columns become metadata."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            where = f"{path}:{number}"
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as fault:
                raise CorpusError(
                    f"{where} is no UTF-8 (byte {fault.start}): save the file as UTF-8"
                ) from None
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as fault:
                raise CorpusError(
                    f"{where} is no JSON ({fault.msg} at column {fault.colno}): one object a line "
                    "is wanted"
                ) from None
            passage = _passage(row, where)
            if not passage.text.strip():
                if warn is not None:
                    warn(f"{where}: passage {passage.id!r} has no words and is skipped")
                continue
            yield passage


def _passage(row: Any, where: str) -> Passage:
    if not isinstance(row, dict):
        raise CorpusError(f"{where} is no JSON object: {{'id', 'title', 'text'}} is wanted")
    if "id" not in row or "text" not in row:
        lacking = [c for c in ("id", "text") if c not in row]
        raise CorpusError(f"{where} lacks {lacking}: each passage needs id and text")
    if isinstance(row["id"], bool) or not isinstance(row["id"], (str, int)) or row["id"] == "":
        raise CorpusError(f"{where}: id must be a string or a whole number, got {row['id']!r}")
    for column in ("title", "text"):
        if not isinstance(row.get(column, ""), str):
            raise CorpusError(f"{where}: {column} must be a string, got {row[column]!r}")
    metadata = {k: v for k, v in row.items() if k not in OWN_COLUMNS}
    return Passage(str(row["id"]), row.get("title", ""), row["text"], metadata=metadata)


def read_folder(path: Path, warn: Warn | None = None) -> Iterator[Passage]:
    """A passage a file; its id is its relative path, its title the file's name."""
    for file in sorted(path.rglob("*")):
        if not file.is_file() or file.suffix.lower() not in TEXT_SUFFIXES:
            continue
        name = file.relative_to(path).as_posix()
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as fault:
            raise CorpusError(
                f"{file} is no UTF-8 (byte {fault.start}): save the file as UTF-8"
            ) from None
        if not text.strip():
            if warn is not None:
                warn(f"{file} has no words and is skipped")
            continue
        yield Passage(name, file.stem.replace("_", " "), text, metadata={"source": name})


def unique(passages: Iterable[Passage], taken: Iterable[str] = ()) -> Iterator[Passage]:
    """The passages as they come; raises ``CorpusError`` at an id that was there before."""
    places: dict[str, int] = dict.fromkeys(taken, 0)
    for number, passage in enumerate(passages, 1):
        if passage.id in places:
            first = places[passage.id]
            where = f"passage {first}" if first else "the index"
            raise CorpusError(
                f"passage {number} has the id {passage.id!r} that {where} has already: ids must "
                "be unique"
            )
        places[passage.id] = number
        yield passage


class CorpusHash:
    """SHA-256 over passages in an order that doesn't matter: the sum of their hashes, so that it
    can be kept up when passages come and go."""

    def __init__(self, state: str | None = None) -> None:
        self._sum = int(state, 16) if state else 0

    @staticmethod
    def _of(passage: Passage) -> int:
        text = json.dumps([passage.id, passage.title, passage.text], ensure_ascii=False)
        return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")

    def add(self, passage: Passage) -> None:
        self._sum = (self._sum + self._of(passage)) % (1 << 256)

    def remove(self, passage: Passage) -> None:
        self._sum = (self._sum - self._of(passage)) % (1 << 256)

    @property
    def hex(self) -> str:
        return f"{self._sum:064x}"
