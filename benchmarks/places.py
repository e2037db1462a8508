"""Where a question's passages lie: in the corpus pooled from all questions, or in one given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from retrieval import Passage, passage_id

MISSING = "missing:"
"""Prefix of ids of gold passages that the corpus lacks: they stay in the gold, never to be found,
so that recall counts them."""


class Places(Protocol):
    """Gives passages of a data set their ids in the corpus."""

    def paragraph(self, title: str, text: str) -> str:
        """The id of a paragraph that stands in a question's own context."""
        ...

    def titled(self, title: str) -> str:
        """The id of a passage of which only the title is told."""
        ...


class Pooled:
    """The union of the questions' paragraphs, one for each title and text."""

    def __init__(self) -> None:
        self.passages: dict[str, Passage] = {}
        self._by_title: dict[str, str] = {}

    def paragraph(self, title: str, text: str) -> str:
        """Adds the paragraph where it is new."""
        identifier = passage_id(title, text)
        if identifier not in self.passages:
            self.passages[identifier] = Passage(identifier, title, text)
            self._by_title.setdefault(plain(title), identifier)
        return identifier

    def titled(self, title: str) -> str:
        return self._by_title.get(plain(title), MISSING + title)


class Wanted:
    """Notes which titles are asked for, so that one pass over a given corpus finds them."""

    def __init__(self) -> None:
        self.titles: set[str] = set()

    def paragraph(self, title: str, text: str) -> str:
        return self.titled(title)

    def titled(self, title: str) -> str:
        self.titles.add(plain(title))
        return MISSING + title


class Given:
    """A corpus that is there already; its own ids are kept."""

    def __init__(self, corpus: Iterable[Passage], wanted: Wanted) -> None:
        self._found: dict[str, list[tuple[str, str]]] = {}
        self._ids: set[str] = set()
        for passage in corpus:
            if plain(passage.id) in wanted.titles:
                self._ids.add(passage.id)
            title = plain(passage.title)
            if title in wanted.titles:
                key = passage_id("", plain(passage.text))
                self._found.setdefault(title, []).append((key, passage.id))

    def paragraph(self, title: str, text: str) -> str:
        """By title and text; by title alone where the corpus has one passage of that title."""
        found = self._found.get(plain(title), [])
        key = passage_id("", plain(text))
        same = next((identifier for known, identifier in found if known == key), None)
        if same is not None:
            return same
        return found[0][1] if len(found) == 1 else MISSING + title

    def titled(self, title: str) -> str:
        """The first passage of that title, or the passage of that id."""
        if title in self._ids:
            return title
        found = self._found.get(plain(title), [])
        return found[0][1] if found else MISSING + title


def plain(text: str) -> str:
    """Case and all but letters and digits aside, for comparing titles and texts."""
    return " ".join(re.findall(r"\w+", text.casefold())) or text.casefold().strip()
