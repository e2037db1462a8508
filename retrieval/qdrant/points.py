"""A passage as a point of a collection, and points as they are read and written."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.encoder import Encoder, Progress, pooled
from retrieval.errors import CorpusError
from retrieval.lexical import K1, B, tokenise
from retrieval.passage import Passage
from retrieval.qdrant.connection import asking
from retrieval.qdrant.manifest import QdrantManifest
from retrieval.segment import content

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

TOKENS, POOLED, WORDS = "tokens", "pooled", "words"
REQUEST_TOKENS = 2048
"""Token vectors of one request, at most (a longer passage goes alone): 16 MB of JSON at 384
dimensions, half of what a server takes."""
MOST_NUMBERS = 1 << 20
"""Of one multivector: a server refuses more."""
REQUEST_IDS = 512
"""Ids of one request, at most."""

Found = tuple[str, dict[str, Any]]
"""A point's id and payload."""


def points_of(
    coder: Encoder, fresh: Sequence[tuple[str, int, str, Passage]], average: float, tell: Progress
) -> Iterator[list[Any]]:
    """Points in batches of at most ``REQUEST_TOKENS``. Raises ``CorpusError`` for a passage that is
    longer than a multivector may be."""
    from qdrant_client import models

    if not fresh:
        return
    texts = [content(passage) for *_, passage in fresh]
    windows = coder.windows(texts)
    vectors = iter(coder.passages([w for ws in windows for w in ws], tell))
    batch: list[Any] = []
    held = 0
    for (point, number, mark, passage), own, words in zip(
        fresh, windows, tokenise(texts), strict=True
    ):
        parts = list(itertools.islice(vectors, len(own)))
        size = sum(map(len, parts))
        most = (MOST_NUMBERS - 1) // coder.spec.dim
        if size > most:
            raise CorpusError(
                f"passage {passage.id!r} has {size:,} tokens, and Qdrant takes {most:,} of "
                f"{coder.spec.dim} dimensions: split it into shorter passages"
            )
        if batch and held + size > REQUEST_TOKENS:
            yield batch
            batch, held = [], 0
        means = [pooled(part).astype(np.float16).astype(np.float32) for part in parts]
        vector: dict[str, Any] = {
            TOKENS: np.concatenate(parts).astype(np.float32).tolist(),
            POOLED: [mean.tolist() for mean in means],
        }
        if words:
            vector[WORDS] = models.SparseVector(**term_weights(words, average))
        payload: dict[str, Any] = {
            "id": passage.id,
            "title": passage.title,
            "text": passage.text,
            "n": number,
            "mark": mark,
        }
        if passage.metadata:
            payload["metadata"] = dict(passage.metadata)
        if len(parts) > 1:
            payload["windows"] = [len(part) for part in parts]
        batch.append(models.PointStruct(id=point, vector=vector, payload=payload))
        held += size
    yield batch


def term_weights(tokens: Sequence[str], average: float | None) -> dict[str, list[Any]]:
    """BM25 as a sparse vector, without the document frequencies: of a passage each term's
    saturated count, its length against ``average``; of a query (None) plain counts. A term's index
    is four bytes of its hash."""
    counts = Counter(tokens)
    norm = 0.0 if average is None else K1 * (1 - B + B * len(tokens) / max(average, 1e-9))
    weights: dict[int, float] = {}
    for term, count in counts.items():
        index = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "big")
        weight = float(count) if average is None else count / (count + norm)
        weights[index] = weights.get(index, 0.0) + weight
    return {"indices": list(weights), "values": list(weights.values())}


def point_ids(passage: str) -> tuple[str, str]:
    """UUIDs made of a passage's id. It has two, so that what replaces it lies beside it until the
    change ends."""
    first, second = (
        uuid.UUID(bytes=hashlib.blake2b(passage.encode(), digest_size=16, person=which).digest())
        for which in (b"", b"second")
    )
    return str(first), str(second)


def passage_of(payload: Mapping[str, Any]) -> Passage:
    """The passage that a point carries."""
    return Passage(
        payload["id"], payload["title"], payload["text"], metadata=payload.get("metadata") or {}
    )


def scroll(
    manifest: QdrantManifest, only: Any = None, size: int = 256
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every point's id and payload, in the order of the ids; ``only`` is a filter."""
    offset: Any = None
    while True:
        with asking(manifest.url) as ask:
            points, offset = ask(partial(_page, manifest.collection, size, offset, only))
        for point in points:
            yield str(point.id), point.payload
        if offset is None:
            return


def _page(collection: str, size: int, offset: Any, only: Any, client: QdrantClient) -> Any:
    return client.scroll(collection, scroll_filter=only, limit=size, offset=offset)


def payloads_of(
    manifest: QdrantManifest, ids: Sequence[str], fields: Sequence[str] | bool = True
) -> dict[str, dict[str, Any]]:
    """Payloads of those points that are there."""
    if not ids:
        return {}
    with asking(manifest.url) as ask:
        points = ask(partial(_retrieve, manifest.collection, ids, fields))
    return {str(p.id): p.payload for p in points}


def points_by_passage(
    manifest: QdrantManifest, ids: Iterable[str], fields: Sequence[str] | bool = True
) -> tuple[dict[str, Found], dict[str, Found]]:
    """The points of passages, by the passages' ids: those of the index, and those of a change that
    has not ended."""
    places = {point: passage for passage in ids for point in point_ids(passage)}
    whole: dict[str, Found] = {}
    late: dict[str, Found] = {}
    for point, payload in payloads_of(manifest, list(places), fields).items():
        (whole if payload["n"] < manifest.numbered else late)[places[point]] = point, payload
    return whole, late


def remove(manifest: QdrantManifest, ids: Sequence[str]) -> None:
    for start in range(0, len(ids), REQUEST_IDS):
        with asking(manifest.url) as ask:
            ask(partial(_delete, manifest.collection, ids[start : start + REQUEST_IDS]))


def _retrieve(collection: str, ids: Any, fields: Any, client: Any) -> Any:
    return client.retrieve(collection, list(ids), with_payload=fields, with_vectors=False)


def _delete(collection: str, ids: Any, client: Any) -> Any:
    return client.delete(collection, list(ids), wait=True)
