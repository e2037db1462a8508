"""A folder of documents, or one document, as a corpus."""

from __future__ import annotations

import os
import stat
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
    """A document or a folder that could not be read."""

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
    files and folders are left out. Links are followed; a folder that can be reached in several ways
    is read once, under its own name where it has one below this folder.
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
        """Of the latest pass: documents and folders that could not be read."""
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
        source = source if _is_text(source) else ascii(source)
        self.skipped.append(Skipped(source, why))
        self._say(f"{source} {why}; it is skipped")

    def _say(self, line: str) -> None:
        if self.warn is not None:
            self.warn(line)

    def _files(self) -> Iterator[tuple[Path, str]]:
        if self.path.is_file():
            yield self.path, self.path.name
            return
        for file in self._below():
            source = self._source(file)
            try:
                regular = stat.S_ISREG(file.stat().st_mode)
            except OSError as fault:
                self._unopened(fault)
                continue
            if not regular:
                continue
            if file.suffix.lower() not in SUFFIXES:
                self.others[file.suffix.lower() or file.name] += 1
            elif not _is_text(source):
                self._skip(source, "has a name that is no UTF-8: rename it")
            else:
                yield file, source

    def _below(self) -> list[Path]:
        """What is below the folder and no folder, in the order of the names."""
        found: list[Path] = []
        starts, seen = [self.path], set[tuple[int, int]]()
        for start in starts:
            for top, folders, files in os.walk(start, onerror=self._unopened):
                status = os.stat(top)
                if (status.st_dev, status.st_ino) in seen:
                    folders.clear()
                    continue
                seen.add((status.st_dev, status.st_ino))
                folders[:] = sorted(filter(_is_seen, folders))
                paths = [Path(top, name) for name in folders]
                starts += filter(os.path.islink, paths)
                found += [Path(top, name) for name in filter(_is_seen, files)]
        return sorted(found)

    def _source(self, path: Path) -> str:
        return "/".join(path.relative_to(self.path).parts) or str(path)

    def _unopened(self, fault: OSError) -> None:
        self._skip(self._source(Path(fault.filename)), f"can't be opened ({fault.strerror})")

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


def _is_seen(name: str) -> bool:
    return not name.startswith((".", "~$"))


def _is_text(name: str) -> bool:
    try:
        os.fsencode(name).decode()
    except UnicodeDecodeError:
        return False
    return True
