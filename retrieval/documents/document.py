"""Document: what every reader makes of a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\u00ad]")
_BLANKS = re.compile(r"[^\S\n]+")


class Unreadable(Exception):
    """Why a file can't be read, in a few words that follow its name."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list item, table row, … or a page's text below one heading."""

    text: str
    headings: tuple[str, ...] = ()
    """From the outermost to the one that it stands under."""
    page: int | None = None
    """Counted from 1; None where the format knows no pages."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text in reading order."""

    title: str
    """Empty when the file names none."""
    blocks: list[Block]
    notes: list[str] = field(default_factory=list)
    """What could not be read of it, in a few words each."""


@dataclass
class Outline:
    """The headings above a place, kept while a document is gone through. A heading that nothing
    stands under becomes a block, so that its words are not lost."""

    blocks: list[Block] = field(default_factory=list)
    _open: list[tuple[int, str]] = field(default_factory=list)
    _bare: bool = False
    """Whether nothing followed the last heading yet."""

    def heading(self, level: int, text: str) -> None:
        """``level`` counts from 1, the outermost."""
        text = one_line(text)
        if not text:
            return
        if self._bare and self._open[-1][0] >= level:
            self.close()
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, text))
        self._bare = True

    def block(self, text: str, page: int | None = None) -> None:
        text = clean(text)
        if text:
            self.blocks.append(Block(text, tuple(t for _, t in self._open), page))
            self._bare = False

    def close(self) -> None:
        """At the end: the last heading's words too."""
        if self._bare:
            self._bare = False
            *above, (_, last) = self._open
            self.blocks.append(Block(last, tuple(t for _, t in above)))


def clean(text: str) -> str:
    """Text without control characters, soft hyphens, halves of surrogate pairs and runs of
    blanks; line breaks stay."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in text.split("\n")).strip()


def one_line(text: str) -> str:
    return " ".join(clean(text).split())
