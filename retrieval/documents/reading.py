"""One reader for each kind of file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from zipfile import BadZipFile

from retrieval.documents.document import Document, Outline, Unreadable, one_line
from retrieval.documents.html import read_html
from retrieval.documents.pdf import read_pdf

OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""How old .doc files and encrypted .docx files begin."""
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*([\"']?)(.+?)\1[ \t]*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n")
WORD_STYLES = "p[style-name='Title'] => title:fresh"
_NAMED = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def read_document(path: Path) -> Document:
    """The text of a file of one of ``SUFFIXES``. Raises ``Unreadable`` with the reason, and of a
    file without a word too."""
    try:
        document = SUFFIXES[path.suffix.lower()](path)
    except OSError as fault:
        raise Unreadable(f"can't be opened ({fault.strerror or fault})") from fault
    if not any(block.text.strip() for block in document.blocks):
        raise Unreadable("has no words")
    return document


def _plain(path: Path) -> Document:
    outline = Outline()
    for paragraph in _PARAGRAPH.split(_decoded(path)):
        outline.block(paragraph)
    return Document("", outline.blocks)


def _markdown(path: Path) -> Document:
    """CommonMark with tables. A title in the front matter goes before the headings."""
    from markdown_it import MarkdownIt

    text = _decoded(path)
    front = _FRONT_MATTER.match(text)
    named = _TITLE.search(front[1]) if front else None
    html = MarkdownIt("commonmark").enable("table").render(text[front.end() :] if front else text)
    return read_html(html, one_line(named[2]) if named else "")


def _html(path: Path) -> Document:
    return read_html(path.read_bytes())


def _docx(path: Path) -> Document:
    """By mammoth: Word's heading styles become headings, its title style the title."""
    import mammoth

    try:
        with path.open("rb") as file:
            if file.read(len(OLE)) == OLE:
                raise Unreadable("is encrypted, or an old .doc: save it as .docx, without password")
            file.seek(0)
            html = mammoth.convert_to_html(
                file,
                style_map=WORD_STYLES,
                convert_image=mammoth.images.img_element(lambda _: {}),
            ).value
    except Unreadable:
        raise
    except BadZipFile as fault:
        raise Unreadable("is no .docx file, or a broken one") from fault
    except Exception as fault:
        if isinstance(fault, OSError) and fault.errno is not None:
            raise
        raise Unreadable(f"is a broken .docx file ({one_line(str(fault))[:80]})") from fault
    named = _NAMED.search(html)
    return read_html(html, one_line(unescape(_TAG.sub("", named[1]))) if named else "")


def _decoded(path: Path) -> str:
    """UTF-8, or UTF-16 that says so."""
    data = path.read_bytes()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as fault:
        raise Unreadable(f"is no UTF-8 (byte {fault.start}): save the file as UTF-8") from None


SUFFIXES: Mapping[str, Callable[[Path], Document]] = {
    ".pdf": read_pdf,
    ".docx": _docx,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".md": _markdown,
    ".markdown": _markdown,
    ".txt": _plain,
    ".text": _plain,
}
