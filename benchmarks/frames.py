"""FRAMES (Krishna et al. 2024): questions with links to the 2 to 15 Wikipedia pages that they need.
The data has no page text: give ``--corpus``, whose passages are found by id (the link) or title."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from benchmarks.errors import BadRow
from benchmarks.places import MISSING, Places
from benchmarks.question import GoldHop, Question
from benchmarks.rows import Hub, Row

HUB = Hub("google/frames-benchmark", None, {"dev": "test"})
ANSWER_RULE = "squad"


def question(row: Row, places: Places, notes: list[str]) -> Question:
    """Raises ``BadRow``."""
    data = row.data
    text = str(data.get("Question") or data.get("Prompt") or "").strip()
    answer = "" if data.get("Answer") is None else str(data["Answer"]).strip()
    if not text or not answer:
        raise BadRow("a question and an answer are wanted")
    links = read_links(data)
    if not links:
        raise BadRow("there are no Wikipedia links")
    ids = [place(link, places) for link in links]
    types = [t.strip() for t in str(data.get("reasoning_types") or "").split("|") if t.strip()]
    number = data.get("Unnamed: 0", data.get(""))
    return Question.of(
        id=f"frames-{number}" if number not in (None, "") else f"frames-{digest(text)}",
        question=text,
        answer=answer,
        supporting=ids,
        hops=[GoldHop(i) for i in dict.fromkeys(ids)],
        kind="temporal" if "Temporal reasoning" in types else "bridge",
        meta={"reasoning_types": types, "links": links},
    )


def digest(text: str) -> str:
    """A short id for a record without one."""
    from retrieval import passage_id

    return passage_id("", text)[:12]


def read_links(data: Mapping[str, Any]) -> list[str]:
    """From ``wiki_links`` (a list, or one written as text), else from the columns by number."""
    value = data.get("wiki_links")
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            value = re.findall(r"https?://[^\s'\"\],]+", value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        value = []
    if not value:
        columns = [c for c in data if str(c).startswith("wikipedia_link")]
        value = [part for c in columns for part in re.split(r"[,\s]+", str(data[c] or ""))]
    links = (str(link).strip() for link in value)
    return list(dict.fromkeys(link for link in links if link.startswith("http")))


def place(link: str, places: Places) -> str:
    """The corpus's id for a page, else the link itself."""
    by_id = places.titled(link)
    by_title = places.titled(page_title(link))
    return next((i for i in (by_id, by_title) if not i.startswith(MISSING)), link)


def page_title(link: str) -> str:
    """``…/wiki/James_A._Garfield#Death`` is "James A. Garfield"."""
    return unquote(urlsplit(link).path.rpartition("/")[2]).replace("_", " ")
