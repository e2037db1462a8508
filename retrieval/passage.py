"""Passage: the unit that retrievers return and programs read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of the corpus, with its place in one query's result when it was retrieved."""

    id: str
    """Stable within a corpus; a string."""
    title: str
    text: str
    score: float = 0.0
    """Of the engine that ranked it. MaxSim is divided by the number of query tokens, so that the
    scores of different queries compare."""
    rank: int = 0
    """1-based within its query's result; 0 for a passage that no query ranked."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    """What came with it (source file, page, own columns); plain JSON values."""

    @property
    def cited(self) -> str:
        """How to name it to a reader: title (or id), with source and page where it has them."""
        page, last = self.metadata.get("page"), self.metadata.get("last_page")
        pages = f"p. {page}" if last is None else f"pp. {page}–{last}"
        places = [self.metadata.get("source"), None if page is None else pages]
        where = ", ".join(str(place) for place in places if place is not None)
        return f"{self.title or self.id} ({where})" if where else self.title or self.id

    def ranked(self, rank: int, score: float) -> Passage:
        """The same passage at ``rank`` with ``score``."""
        return replace(self, rank=rank, score=score)


def passage_id(title: str, text: str) -> str:
    """A stable id for a passage that has none: 16 hex digits of SHA-256 of title and text."""
    return hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]
