"""What a retrieval server and its clients say to each other, as JSON.

``GET /v1/index?where=…`` → ``About`` · ``POST /v1/search`` ``SearchRequest`` → ``SearchReply`` ·
``{"error": …}`` with another status. ``GET`` and ``POST /api/search`` are ``dspy.ColBERTv2``'s.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from retrieval.passage import Passage

FORMAT = 1
TOKEN = "HOPSMITH_INDEX_TOKEN"
"""The variable that holds the bearer token, on both sides."""


class About(BaseModel):
    """An index, and what its server takes at most."""

    format: int
    identity: dict[str, Any]
    corpus_hash: str
    passages: int | None
    max_k: int
    max_queries: int
    max_bytes: int


class SearchRequest(BaseModel):
    """The contract's arguments."""

    queries: list[str]
    k: int = 5
    pool: int | None = None
    where: list[str] = Field(default_factory=list, max_length=16)
    """Conditions on metadata, all of which a passage must meet."""


class Found(BaseModel):
    """A passage; its place in the list is its rank."""

    id: str
    title: str
    text: str
    score: float
    metadata: dict[str, Any] = Field(default_factory=dict)


class SearchReply(BaseModel):
    """A list a query, and what was searched, so that a client notices another index."""

    identity_hash: str
    corpus_hash: str
    results: list[list[Found]]

    def passages(self) -> list[list[Passage]]:
        return [
            [
                Passage(p.id, p.title, p.text, p.score, rank, p.metadata)
                for rank, p in enumerate(found, 1)
            ]
            for found in self.results
        ]


def reply(
    identity: Mapping[str, Any], corpus_hash: str, results: Sequence[Sequence[Passage]]
) -> dict[str, Any]:
    """A ``SearchReply`` as JSON values."""
    return {
        "identity_hash": hash_of(identity),
        "corpus_hash": corpus_hash,
        "results": [
            [
                {
                    "id": p.id,
                    "title": p.title,
                    "text": p.text,
                    "score": p.score,
                    "metadata": dict(p.metadata),
                }
                for p in found
            ]
            for found in results
        ],
    }


def hash_of(identity: Mapping[str, Any]) -> str:
    """SHA-256 of an identity's canonical JSON."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    name = host.strip("[]").casefold()
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_url(where: object) -> bool:
    """Whether an index is named by its server's address."""
    return isinstance(where, str) and re.match(r"https?:/", where) is not None
