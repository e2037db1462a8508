"""Reading a CORPUS: JSONL, CSV or a folder of documents, as a stream. A fault names its place."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from retrieval.documents import SUFFIXES, Cut, DocumentCorpus
from retrieval.errors import CorpusError
from retrieval.passage import Passage

CSV_SUFFIXES = {".csv": ",", ".tsv": "\t"}
"""Of tables, with what parts their columns."""
OWN_COLUMNS = ("id", "title", "text")
LONGEST_CELL = 1 << 30
"""Characters of a table's cell; Python's own bound is 131,072."""

Warn = Callable[[str], None]


class Corpus:
    """The passages of a JSONL or CSV file, read anew each time they are gone through."""

    def __init__(self, path: Path, warn: Warn | None = None) -> None:
        self.path = path
        self.warn = warn

    def __iter__(self) -> Iterator[Passage]:
        return (passage for passage, _ in self._placed(self.warn))

    def places(self, wanted: str) -> list[str]:
        """Where passages of this id are: ``file:line``."""
        return [place for passage, place in self._placed(None) if passage.id == wanted]

    def _placed(self, warn: Warn | None) -> Iterator[tuple[Passage, str]]:
        read = _csv if self.path.suffix.lower() in CSV_SUFFIXES else _jsonl
        return _worded(read(self.path), warn)


def read_corpus(
    path: Path | str, warn: Warn | None = None, cut: Cut | None = None
) -> Corpus | DocumentCorpus:
    """The corpus at a path: a folder of documents or one document, cut as ``cut`` says, else a
    table of passages. ``warn`` is told of what is skipped (a passage without a word, a document
    that can't be read).

    Raises ``CorpusError``, here when nothing is there, and while it is gone through.
    """
    path = Path(path)
    if path.is_dir() or (path.is_file() and path.suffix.lower() in SUFFIXES):
        return DocumentCorpus(path, cut, warn)
    if path.is_file():
        return Corpus(path, warn)
    raise CorpusError(
        f"no corpus at {path}: give a JSONL or CSV file, or a folder of documents (PDF, DOCX, "
        "HTML, Markdown, text)"
    )


def _worded(
    rows: Iterator[tuple[Passage, str]], warn: Warn | None
) -> Iterator[tuple[Passage, str]]:
    for passage, where in rows:
        if passage.text.strip():
            yield passage, where
        elif warn is not None:
            warn(f"{where}: passage {passage.id!r} has no words and is skipped")


def _csv(path: Path) -> Iterator[tuple[Passage, str]]:
    """A table with a head: ``id``, ``title``, ``text``; other columns become metadata, as text, and
    empty cells of theirs are left out."""
    csv.field_size_limit(LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=CSV_SUFFIXES[path.suffix.lower()], strict=True)
        try:
            for row in rows:
                where = f"{path}:{rows.line_num}"
                if None in row or None in row.values():
                    raise CorpusError(
                        f"{where} has not as many cells as the first line: quote cells that hold "
                        "the separator"
                    )
                yield (
                    _passage({k: v for k, v in row.items() if v or k in OWN_COLUMNS}, where),
                    where,
                )
        except csv.Error as fault:
            raise CorpusError(f"{path}:{rows.line_num} is no CSV ({fault}): mend it") from None
        except UnicodeDecodeError as fault:
            raise CorpusError(
                f"{path} is no UTF-8 after line {rows.line_num} ({fault.reason}): save the file as "
                "UTF-8"
            ) from None


def _jsonl(path: Path) -> Iterator[tuple[Passage, str]]:
    """One JSON object a line: ``id``, ``title``, ``text``; other columns become metadata."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            where = f"{path}:{number}"
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as fault:
                raise CorpusError(
                    f"{where} is no UTF-8 (byte {fault.start}): save the file as UTF-8"
                ) from None
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as fault:
                why = fault.msg if isinstance(fault, json.JSONDecodeError) else str(fault)
                raise CorpusError(
                    f"{where} is no JSON ({why}): one object a line is wanted"
                ) from None
            yield _passage(row, where), where


def _passage(row: Any, where: str) -> Passage:
    if not isinstance(row, dict):
        raise CorpusError(f"{where} is no JSON object: {{'id', 'title', 'text'}} is wanted")
    lacking = [c for c in ("id", "text") if c not in row]
    if lacking:
        raise CorpusError(f"{where} lacks {lacking}: each passage needs id and text")
    if isinstance(row["id"], bool) or not isinstance(row["id"], (str, int)) or row["id"] == "":
        raise CorpusError(f"{where}: id must be a string or a whole number, got {row['id']!r}")
    title = "" if row.get("title") is None else row["title"]
    for column, value in (("id", str(row["id"])), ("title", title), ("text", row["text"])):
        if not isinstance(value, str):
            raise CorpusError(f"{where}: {column} must be a string, got {value!r}")
        if not is_text(value):
            raise CorpusError(f"{where}: {column} holds half a surrogate pair: write it whole")
    metadata = {k: v for k, v in row.items() if k not in OWN_COLUMNS}
    if fault := _unwritable(metadata):
        raise CorpusError(f"{where}: {fault}")
    return Passage(str(row["id"]), title, row["text"], metadata=metadata)


def is_text(value: str) -> bool:
    """Whether a string can be written as UTF-8: JSON may smuggle in half a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unwritable(metadata: Mapping[str, Any]) -> str | None:
    """Why a column can't be written as JSON in UTF-8: Python's reader takes more than JSON has."""
    for column, value in metadata.items():
        try:
            json.dumps({column: value}, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            return f"{column!a} holds half a surrogate pair: write it whole"
        except ValueError:
            return f"{column!r} holds NaN or an infinite number: write null, or leave it out"
    return None


def unique(passages: Iterable[Passage], taken: Iterable[str] = ()) -> Iterator[Passage]:
    """The passages as they come. Raises ``CorpusError`` at an id that was there before, naming both
    places, at a passage without a word, and at text or metadata that can't be written."""
    places: dict[str, int] = dict.fromkeys(taken, 0)
    for number, passage in enumerate(passages, 1):
        if passage.id in places:
            raise CorpusError(
                f"{_both(passages, passage.id, places[passage.id], number)}: ids must be unique"
            )
        if not passage.text.strip() and not passage.title.strip():
            raise CorpusError(f"passage {number} ({passage.id!r}) has no words: leave it out")
        for column in OWN_COLUMNS:
            if not is_text(getattr(passage, column)):
                raise CorpusError(
                    f"passage {number} ({passage.id!r}): {column} holds half a surrogate pair: "
                    'write it whole, or clean it with text.encode("utf-8", "replace").decode()'
                )
        if fault := _unwritable(passage.metadata):
            raise CorpusError(f"passage {number} ({passage.id!r}): {fault}")
        places[passage.id] = number
        yield passage


def _both(passages: Iterable[Passage], twice: str, first: int, second: int) -> str:
    lines = passages.places(twice) if isinstance(passages, Corpus) else []
    if first and len(lines) > 1:
        return f"{lines[1]} has the id {twice!r} that {lines[0]} has already"
    here = lines[0] if lines else f"passage {second}"
    there = f"passage {first}" if first else "the index"
    return f"{here} has the id {twice!r} that {there} has already"


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

    def join(self, other: CorpusHash) -> None:
        """Add all that ``other`` was told of."""
        self._sum = (self._sum + other._sum) % (1 << 256)

    @property
    def hex(self) -> str:
        return f"{self._sum:064x}"
