"""HTML to a document, by Beautiful Soup. Markdown and DOCX come this way too."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from retrieval.documents.document import Block, Document, Outline, Unreadable, one_line

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# fmt: off
LEFT_OUT = frozenset({
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "nav",
    "footer", "head", "title", "button", "select", "option", "datalist", "dialog", "audio", "video",
    "map",
})
"""Not text of the page itself."""
INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp",
    "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
})
"""Every other element parts what stands before, in and after it."""
# fmt: on
LAYOUT = ["table", "h1", "h2", "h3", "h4", "h5", "h6"]
"""A table row with one of these in it lays out a page, and is no row of values."""
_HEADING = re.compile(r"h([1-6])")


def read_html(source: str | bytes, title: str = "") -> Document:
    """Of ``<main>`` or a single ``<article>``, where there is one, else of the whole page. The
    encoding of bytes is the declared one, else guessed. Unless ``title`` is given, a single
    ``<h1>`` is the title, else ``<title>``."""
    from bs4 import BeautifulSoup

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        soup = BeautifulSoup(source, "lxml")
    outline = Outline()
    try:
        _walk(_content(soup), outline)
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    outline.close()
    named = one_line(soup.title.get_text()) if soup.title else ""
    tops = dict.fromkeys(b.headings[0] for b in outline.blocks if b.headings)
    ones = [one_line(h.get_text()) for h in soup.find_all("h1")]
    if not title and len(tops) == len(ones) == 1 and list(tops) == ones:
        blocks = [Block(b.text, b.headings[1:], b.page) for b in outline.blocks]
        return Document(ones[0], blocks)
    return Document(title or named, outline.blocks)


def _content(soup: BeautifulSoup) -> Tag:
    main = soup.find("main")
    articles = soup.find_all("article")
    body: Any = main or (articles[0] if len(articles) == 1 else soup.body or soup)
    return body  # type: ignore[no-any-return]


def _walk(element: Tag, outline: Outline) -> None:
    """Each run of text between two block elements is a block."""
    text: list[str] = []

    def flush() -> None:
        outline.block(_folded("".join(text)))
        text.clear()

    for part in _parts(element):
        if isinstance(part, str):
            text.append(part)
            continue
        flush()
        heading = _HEADING.fullmatch(part.name)
        if heading:
            outline.heading(int(heading[1]), part.get_text(" "))
        elif part.name == "pre":
            outline.block(part.get_text())
        elif part.name == "tr" and not part.find(LAYOUT):
            cells = [one_line(c.get_text(" ")) for c in part.find_all(["td", "th"])]
            outline.block(" | ".join(c for c in cells if c))
        else:
            _walk(part, outline)
    flush()


def _parts(element: Tag) -> Iterator[str | Tag]:
    """Text and block elements, inline elements opened."""
    from bs4.element import NavigableString, PreformattedString, Tag

    for child in element.children:
        if isinstance(child, PreformattedString):
            continue
        if isinstance(child, NavigableString):
            yield str(child)
        elif isinstance(child, Tag):
            if child.name in LEFT_OUT or child.has_attr("hidden"):
                continue
            if child.name == "br":
                yield "\v"
            elif child.name in INLINE:
                yield from _parts(child)
            else:
                yield child


def _folded(text: str) -> str:
    """Line breaks of the source are blanks, those of ``<br>`` stay."""
    return "\n".join(" ".join(line.split()) for line in text.split("\v"))
