"""A folder of documents, or one document, as a corpus."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from retrieval.documents.cutting import Cut, Piece, cut_blocks
from retrieval.documents.document import Document, Unreadable
from retrieval.documents.reading import SUFFIXES, read_document
from retrieval.errors import CorpusError
from retrieval.passage import Passage

NAMED = 5
"""Files that an error names."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that could not be read."""

    source: str
    why: str

    def __str__(self) -> str:
        return f"{self.source} {self.why}"


class DocumentCorpus:
    """The passages of all documents below a folder, file by file in the order of their names; or
    of one document.

    A passage's id is the file's path from the folder, and ``path#2``, ``path#3``, … after the
    first; its title is the document's, or the file's name, with the headings it stands under; its
    metadata are ``source`` and, where there are, ``page``, ``last_page`` and ``heading``. Hidden
    files and folders are left out.
    """

    def __init__(
        self,
        path: Path,
        cut: Cut | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.path = path
        self.cut = cut or Cut()
        self.warn = warn
        self.reading: Callable[[str], None] | None = None
        """Told of each document before it is read."""
        self.skipped: list[Skipped] = []
        """Of the latest pass: documents that could not be read."""
        self.others: Counter[str] = Counter()
        """Of the latest pass: files of kinds that aren't read, by suffix."""

    def __iter__(self) -> Iterator[Passage]:
        """Raises ``CorpusError`` at the end when nothing could be read."""
        self.skipped, self.others = [], Counter()
        read = False
        for file, source in self._files():
            if self.reading is not None:
                self.reading(source)
            try:
                document = read_document(file)
            except Unreadable as fault:
                self._skip(source, str(fault))
                continue
            read = True
            for note in document.notes:
                self._say(f"{source}: {note}")
            yield from _passages(document, file.stem, source, self.cut)
        if not read:
            raise CorpusError(self._nothing())

    def _skip(self, source: str, why: str) -> None:
        self.skipped.append(Skipped(source, why))
        self._say(f"{source} {why}; it is skipped")

    def _say(self, line: str) -> None:
        if self.warn is not None:
            self.warn(line)

    def _files(self) -> Iterator[tuple[Path, str]]:
        if self.path.is_file():
            yield self.path, self.path.name
            return
        for file in sorted(self.path.rglob("*")):
            parts = file.relative_to(self.path).parts
            if any(part.startswith((".", "~$")) for part in parts) or not file.is_file():
                continue
            source = "/".join(parts)
            if file.suffix.lower() not in SUFFIXES:
                self.others[file.suffix.lower() or file.name] += 1
            elif not _is_text(source):
                self._skip(ascii(source), "has a name that is no UTF-8: rename it")
            else:
                yield file, source

    def _nothing(self) -> str:
        kinds = ", ".join(SUFFIXES)
        if not self.skipped:
            return f"{self.path} holds no document ({kinds}): give another folder"
        named = "; ".join(map(str, self.skipped[:NAMED]))
        more = f"; and {len(self.skipped) - NAMED} more" if len(self.skipped) > NAMED else ""
        return f"no document in {self.path} can be read: {named}{more}"


def _passages(document: Document, name: str, source: str, cut: Cut) -> Iterator[Passage]:
    title = document.title or name.replace("_", " ")
    for number, piece in enumerate(cut_blocks(document.blocks, cut), 1):
        yield Passage(
            source if number == 1 else f"{source}#{number}",
            ": ".join(filter(None, (title, " › ".join(piece.headings)))),
            piece.text,
            metadata={"source": source, **_place(piece)},
        )


def _place(piece: Piece) -> dict[str, str | int]:
    place: dict[str, str | int] = {}
    if piece.headings:
        place["heading"] = " › ".join(piece.headings)
    if piece.page is not None:
        place["page"] = piece.page
    if piece.last_page is not None and piece.last_page != piece.page:
        place["last_page"] = piece.last_page
    return place


def _is_text(name: str) -> bool:
    try:
        os.fsencode(name).decode()
    except UnicodeDecodeError:
        return False
    return True
