"""Queries that LMs write, made fit for a search."""

from __future__ import annotations

import re

from programs.answers import is_null
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
