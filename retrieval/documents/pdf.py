"""PDF to a document, by pypdf: pages, headings from the bookmarks, no running heads."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retrieval.documents.document import Document, Outline, Unreadable, clean, one_line

EDGE = 2
"""Lines at the top and the bottom of a page that may be running heads."""
RUNNING = 3
"""Pages that a running head stands on at least; and at least half of them."""
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010]\n(?=[a-zß-ÿ])")
_DIGITS = re.compile(r"\d+")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})


def read_pdf(path: Path) -> Document:
    """Raises ``Unreadable`` for one with a password, a broken one, and one without text."""
    import pypdf
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("is encrypted: save a copy without the password")
        pages, failed = _pages(reader)
    except Unreadable:
        raise
    except (PyPdfError, OSError) as fault:
        raise Unreadable(f"is a broken PDF ({one_line(str(fault))[:80]})") from fault
    except Exception as fault:
        raise Unreadable(f"is a broken PDF ({type(fault).__name__})") from fault
    if not any(pages):
        raise Unreadable(
            "is a broken PDF (no page of it can be read)"
            if failed
            else "has no text: a scan needs to be put through OCR first"
        )
    outline = Outline()
    marks = _bookmarks(reader)
    for number, lines in enumerate(_without_running_heads(pages), 1):
        for heading, part in _parted(lines, [m for m in marks if m[0] == number]):
            if heading is not None:
                outline.heading(*heading)
            outline.block(_HYPHEN.sub("", "\n".join(part)).replace("\n", " "), number)
    outline.close()
    notes = [f"page {n} can't be read" for n in failed]
    return Document(_title(reader), outline.blocks, notes)


def _pages(reader: Any) -> tuple[list[list[str]], list[int]]:
    """Each page's lines, and the numbers of pages that failed."""
    pages, failed = [], []
    for number, page in enumerate(reader.pages, 1):
        try:
            text = clean(page.extract_text().translate(_LIGATURES))
        except Exception:
            text = ""
            failed.append(number)
        pages.append([line for line in text.split("\n") if line])
    return pages, failed


def _title(reader: Any) -> str:
    """Of the file's own description, unless a program left a file's name there."""
    try:
        title = one_line(str((reader.metadata or {}).get("/Title") or ""))
    except Exception:
        return ""
    named_by_program = re.search(
        r"^untitled|microsoft word|\.(docx?|tex|dvi|indd|pdf)$", title, re.I
    )
    return "" if named_by_program else title


def _bookmarks(reader: Any) -> list[tuple[int, int, str]]:
    """(page, level, title) in order; empty where they can't be read."""

    def flat(entries: Any, level: int) -> Iterator[tuple[int, int, str]]:
        for entry in entries:
            if isinstance(entry, list):
                yield from flat(entry, level + 1)
            else:
                page = reader.get_destination_page_number(entry)
                if page is not None and page >= 0:
                    yield page + 1, level, one_line(str(entry.title))

    try:
        return [mark for mark in flat(reader.outline, 1) if mark[2]]
    except Exception:
        return []


def _without_running_heads(pages: Sequence[list[str]]) -> Iterator[list[str]]:
    """Pages less the lines at their edges that come again, page numbers aside, on half of them.
    A page of such lines alone keeps them: they may be all that it says."""

    def edges(lines: list[str]) -> set[int]:
        return {i for i in range(len(lines)) if i < EDGE or i >= len(lines) - EDGE}

    def shape(line: str) -> str:
        return _DIGITS.sub("#", line).casefold()

    seen = Counter(s for lines in pages for s in {shape(lines[i]) for i in edges(lines)})
    often = max(RUNNING, len(pages) / 2)
    for lines in pages:
        running = {i for i in edges(lines) if seen[shape(lines[i])] >= often}
        yield [line for i, line in enumerate(lines) if i not in running] or lines


def _parted(
    lines: Sequence[str], marks: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[tuple[int, str] | None, Sequence[str]]]:
    """A page's lines parted at its headings, which are left out of the lines. One that isn't found
    counts from where the last one stood."""
    at = 0
    heading: tuple[int, str] | None = None
    for _, level, title in marks:
        wanted = _letters(title)
        found = next((i for i in range(at, len(lines)) if _letters(lines[i]) == wanted), None)
        if found is None:
            found = next(
                (i for i in range(at, len(lines)) if _letters(lines[i]).endswith(wanted)), None
            )
        yield heading, lines[at : at if found is None else found]
        heading, at = (level, title), at if found is None else found + 1
    yield heading, lines[at:]


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
