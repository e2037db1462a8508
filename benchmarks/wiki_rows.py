"""What HotpotQA, 2WikiMultiHopQA and MoreHopQA share: context of titled sentences, and supporting
facts as (title, sentence), in the official and in the hub's layout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from benchmarks.errors import BadRow
from benchmarks.places import Places


class WikiRow(BaseModel):
    """A row in the official layout; the hub's columns of lists are turned into it."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, coerce_numbers_to_str=True)

    id: str = Field(validation_alias="_id", min_length=1)
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    type: str = "bridge"
    supporting_facts: list[tuple[str, int]] = []
    context: list[tuple[str, list[str]]] = []

    @field_validator("supporting_facts", mode="before")
    @classmethod
    def _facts(cls, value: Any) -> Any:
        return pairs(value, "title", "sent_id")

    @field_validator("context", mode="before")
    @classmethod
    def _context(cls, value: Any) -> Any:
        return [
            (title, [text] if isinstance(text, str) else text)
            for title, text in pairs(value, "title", "sentences", "content")
        ]


def pairs(value: Any, *columns: str) -> list[Any]:
    """Rows from a list of lists, a JSON string of one, a mapping of columns or a list of mappings;
    of several second columns the one that is there."""
    if isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, Mapping):
        there = [c for c in columns if c in value]
        return list(zip(*(value[c] for c in there), strict=True))
    return [
        [item[c] for c in columns if c in item] if isinstance(item, Mapping) else item
        for item in value
    ]


def parsed(model: type[BaseModel], data: Mapping[str, Any]) -> Any:
    """A validated row. Raises ``BadRow`` with the first fault."""
    row = dict(data)
    if "_id" not in row and "id" in row:
        row["_id"] = row["id"]
    try:
        return model.model_validate(row)
    except ValidationError as fault:
        first = fault.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise BadRow(f"{at}: {first['msg']}" if at else first["msg"]) from None
    except (ValueError, TypeError) as fault:
        raise BadRow(str(fault)) from None


def text_of(sentences: Iterable[str]) -> str:
    """A paragraph from its sentences, which may or may not bring their spaces."""
    return " ".join(s.strip() for s in sentences if s.strip())


def context_ids(row: WikiRow, places: Places) -> list[str]:
    """Ids of the row's own paragraphs: its gold ones and its distractors."""
    told = ((title, text_of(sentences)) for title, sentences in row.context)
    return list(dict.fromkeys(places.paragraph(title, text) for title, text in told if text))


def support(
    row: WikiRow, places: Places
) -> tuple[dict[str, str], dict[str, tuple[int, ...]], list[str]]:
    """Ids and sentences of the supporting paragraphs by title, in order of first mention; and what
    is wrong with them. The row's paragraphs all get their places."""
    found: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for title, sentences in row.context:
        text = text_of(sentences)
        if not text:
            continue
        identifier = places.paragraph(title, text)
        if title not in found:
            found[title] = identifier
            lengths[title] = len(sentences)
    ids: dict[str, str] = {}
    said: dict[str, list[int]] = {}
    wrong: list[str] = []
    for title, sentence in row.supporting_facts:
        if title not in ids:
            ids[title] = found[title] if title in found else places.titled(title)
            said[title] = []
        if not 0 <= sentence < lengths.get(title, sentence + 1):
            wrong.append(
                f"supporting sentence {sentence} of {title!r} is past the end of its paragraph "
                f"({lengths[title]} sentences): the paragraph is kept, the sentence is not"
            )
        elif sentence not in said[title]:
            said[title].append(sentence)
    return ids, {t: tuple(n) for t, n in said.items()}, wrong
