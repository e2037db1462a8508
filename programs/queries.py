"""Queries that LMs write, made fit for a search."""

from __future__ import annotations

import re

from programs.evidence import normal_query
from retrieval.corpus import is_text

LONGEST = 500
"""Characters of a query that are searched; encoders read fewer."""


def worded(queries: object) -> list[str]:
    """Those of a list that hold a word, on one line, cut to ``LONGEST``, repeated ones dropped."""
    if not isinstance(queries, (list, tuple)):
        return []
    kept: dict[str, str] = {}
    for query in queries:
        text = " ".join(str(query).split())[:LONGEST]
        if isinstance(query, str) and _searchable(text):
            kept.setdefault(normal_query(text), text)
    return list(kept.values())


def _searchable(text: str) -> bool:
    return bool(re.search(r"\w", text)) and is_text(text) and not is_null(text)


def stated(answer: object) -> str:
    """An LM's answer on one line; empty where it wrote none, or "nothing" in words."""
    text = "" if answer is None else " ".join(str(answer).split())
    return "" if is_null(text) else text


def is_null(text: str) -> bool:
    """Whether an LM wrote "nothing" in words."""
    return text.strip(" .").casefold() in ("", "null", "none", "n/a", "unknown")
