"""QdrantRetriever: the two stages of the local default inside a Qdrant collection, for corpora
beyond one machine.

A passage is a point with three vectors: ``tokens`` (a multivector under MAX_SIM, on disk, never
searched but only scored), ``pooled`` (the mean of each window) and ``words`` (sparse: BM25's term
weights, to which the engine adds the document frequencies it counts). Candidates come from words
and pooled vectors, MaxSim scores them, all in one request a batch; the two rankings are then fused
as ``retrieval.engines`` does, and the passages that are returned are fetched.

A passage of several windows is one point. The engine scores it over all its tokens at once; its
candidates are scored again here, by their best window.

What is added after a collection was opened is not found before it is opened again; what is deleted
or replaced is gone at once. Document frequencies count also what a change has brought so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.checkpoint import checkpoint_of
from retrieval.contract import BaseRetriever
from retrieval.corpus import CorpusHash
from retrieval.encoder import Encoder, encoder_of, pooled
from retrieval.engines import DEFAULTS, SAME, WEIGHTS, checked
from retrieval.errors import IndexFault
from retrieval.lexical import tokenise
from retrieval.passage import Passage
from retrieval.qdrant.connection import asking
from retrieval.qdrant.filters import check_columns, count, filter_of
from retrieval.qdrant.manifest import ENGINE, QdrantManifest
from retrieval.qdrant.points import POOLED, TOKENS, WORDS, passage_of, scroll, term_weights
from retrieval.where import Condition, conditions_of

SPARE = 16
"""Candidates asked for beyond the cut, so that equal scores at it are cut as locally."""
EQUAL = 1e-5
"""BM25 scores closer than this are equal: the engine adds them up in another order."""


class QdrantRetriever(BaseRetriever):
    """A collection under the contract. Thread-safe as its client is; in the client's local mode
    (a folder instead of a server) calls go one after another."""

    def __init__(
        self,
        folder: Path,
        manifest: QdrantManifest,
        encoder: Encoder,
        settings: Mapping[str, Any],
        conditions: tuple[Condition, ...] = (),
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.encoder = encoder
        self.given = dict(settings)
        self.settings = {**DEFAULTS, **manifest.settings, **settings}
        self.conditions = conditions
        self._only = filter_of(manifest, conditions)

    def __reduce__(self) -> tuple[Any, ...]:
        conditions = tuple(map(str, self.conditions))
        return (_reopen, (self.folder, str(self.encoder.spec.folder), self.given, conditions))

    def where(self, *conditions: str | Condition) -> QdrantRetriever:
        """Filtered in the engine (``retrieval.qdrant.filters`` says what differs)."""
        wanted = (*self.conditions, *conditions_of(conditions))
        check_columns(self.manifest, wanted)
        return QdrantRetriever(self.folder, self.manifest, self.encoder, self.given, wanted)

    @property
    def identity(self) -> Mapping[str, Any]:
        return {
            "engine": ENGINE,
            "encoder": self.manifest.encoder,
            "vectors": "float16",
            "settings": dict(self.settings),
        }

    @cached_property
    def corpus_hash(self) -> str:
        """Of a filtered one it is counted once, over all that is left."""
        if not self.conditions:
            return self.manifest.corpus_hash
        total = CorpusHash()
        for passage in self.corpus():
            total.add(passage)
        return total.hex

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        return count(self.manifest, self._only) if self.conditions else self.manifest.passages

    def corpus(self) -> Iterator[Passage]:
        """Every passage, in the order of the points' ids."""
        return (passage_of(payload) for _, payload in scroll(self.manifest, self._only))

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        size = max(k, pool or self.settings["pool"])
        wordy = math.ceil(size * self.settings["lexical_share"])
        vectors = self.encoder.queries(queries)
        requests: list[Any] = []
        spans = []
        for vector, tokens in zip(vectors, tokenise(queries), strict=True):
            asked = _requests(vector, tokens if wordy else [], size, wordy, self._only)
            spans.append((len(requests), len(requests) + len(asked)))
            requests.extend(asked)
        name = self.manifest.collection
        with asking(self.manifest.url) as ask:
            replies = ask(lambda c: c.query_batch_points(name, requests))
        found = [[reply.points for reply in replies[start:end]] for start, end in spans]
        again = self._by_window(vectors, [scored for scored, *_ in found])
        ranked = [
            self._ranked(
                [(better.get(p.id, p.score) / len(vector), p) for p in scored],
                [p.id for p in near][:size],
                _by_words(words[0] if words else [])[:wordy],
                size,
            )[:k]
            for (scored, near, *words), better, vector in zip(found, again, vectors, strict=True)
        ]
        return self._fetched(ranked)

    def _by_window(self, queries: Sequence[Any], found: Sequence[Any]) -> list[dict[Any, float]]:
        """For each query the scores, by best window, of those candidates that have several."""
        long = {p.id: p.payload["windows"] for points in found for p in points if _is_long(p)}
        if not long:
            return [{} for _ in queries]
        with asking(self.manifest.url) as ask:
            points = ask(
                lambda c: c.retrieve(
                    self.manifest.collection, list(long), with_payload=False, with_vectors=[TOKENS]
                )
            )
        windows = {
            p.id: np.split(
                np.asarray(p.vector[TOKENS], np.float32), np.cumsum(long[p.id])[:-1].astype(int)
            )
            for p in points
        }
        return [
            {
                p.id: max(float((query @ w.T).max(1).sum()) for w in windows[p.id])
                for p in points
                if p.id in windows
            }
            for query, points in zip(queries, found, strict=True)
        ]

    def _ranked(
        self, scored: Sequence[tuple[float, Any]], close: list[Any], words: list[Any], size: int
    ) -> list[tuple[Any, float]]:
        """Point ids and MaxSim scores, best first: the candidates and the fusion of
        ``retrieval.engines``. ``close`` and ``words`` are the candidate lists, best first."""
        wanted = set(words)
        wanted.update([point for point in close if point not in wanted][: size - len(words)])
        rows = [(score, str(p.payload["id"]), p.id) for score, p in scored if p.id in wanted]
        rows.sort(key=lambda row: (-round(row[0] / SAME), row[1]))
        constant = self.settings["fusion_constant"]
        fused: dict[Any, float] = dict.fromkeys((point for *_, point in rows), 0.0)
        for name, ranked in zip(
            WEIGHTS, ([point for *_, point in rows], words, close), strict=True
        ):
            for place, point in enumerate(ranked):
                if point in fused:
                    fused[point] += self.settings[name] / (constant + 1 + place)
        rows.sort(key=lambda row: -fused[row[2]])
        return [(point, score) for score, _, point in rows]

    def _fetched(self, ranked: Sequence[Sequence[tuple[Any, float]]]) -> list[list[Passage]]:
        wanted = list({point for found in ranked for point, _ in found})
        if not wanted:
            return [[] for _ in ranked]
        with asking(self.manifest.url) as ask:
            points = ask(lambda c: c.retrieve(self.manifest.collection, wanted, with_payload=True))
        passages = {p.id: passage_of(p.payload) for p in points}
        return [
            [
                passages[point].ranked(rank, score)
                for rank, (point, score) in enumerate(
                    ((p, s) for p, s in found if p in passages), 1
                )
            ]
            for found in ranked
        ]


def open_qdrant(
    folder: Path | str,
    *,
    engine: str | None = None,
    checkpoint: str | None = None,
    **settings: Any,
) -> QdrantRetriever:
    """The collection that an index folder names. Raises ``IndexFault`` naming the mend: no
    extra, no server, no collection, an unfinished build, another checkpoint or engine."""
    folder = Path(folder).resolve()
    manifest = QdrantManifest.read(folder)
    if engine not in (None, ENGINE):
        raise IndexFault(f"the index is in Qdrant and can't be searched with {engine}")
    given = checked(settings)
    if not manifest.ready:
        raise IndexFault(
            f"the collection {manifest.collection} is not whole: run its hopsmith index again, "
            "which goes on where it stopped"
        )
    encoder = encoder_of(checkpoint_of(manifest.encoder, manifest.checkpoint, checkpoint))
    with asking(manifest.url) as ask:
        if not ask(lambda c: c.collection_exists(manifest.collection)):
            raise IndexFault(
                f"there is no collection {manifest.collection} at {manifest.url}: index the corpus "
                "again"
            )
    return QdrantRetriever(folder, manifest, encoder, given)


def _reopen(
    folder: Path, checkpoint: str, settings: Mapping[str, Any], conditions: Sequence[str]
) -> QdrantRetriever:
    opened = open_qdrant(folder, checkpoint=checkpoint, **settings)
    return opened.where(*conditions) if conditions else opened


def _requests(vector: Any, tokens: Sequence[str], size: int, wordy: int, only: Any) -> list[Any]:
    """MaxSim over the candidates, and both candidate lists by themselves, for their ranks."""
    from qdrant_client import models

    near, few = size + SPARE, wordy + SPARE
    mean = [pooled(vector).tolist()]
    prefetch = [models.Prefetch(query=mean, using=POOLED, limit=near, filter=only)]
    if tokens:
        words = models.SparseVector(**term_weights(tokens, None))
        prefetch.append(models.Prefetch(query=words, using=WORDS, limit=few, filter=only))
    out = [
        models.QueryRequest(
            prefetch=prefetch,
            query=vector.tolist(),
            using=TOKENS,
            limit=near + few,
            with_payload=["id", "windows"],
        ),
        models.QueryRequest(query=mean, using=POOLED, limit=near, filter=only, with_payload=False),
    ]
    if tokens:
        out.append(
            models.QueryRequest(
                query=words, using=WORDS, limit=few, filter=only, with_payload=["n"]
            )
        )
    return out


def _by_words(points: Sequence[Any]) -> list[Any]:
    """Ids in the order of BM25's scores, equal ones as they were added."""
    order = sorted(points, key=lambda p: (-round(p.score / EQUAL), p.payload["n"]))
    return [p.id for p in order]


def _is_long(point: Any) -> bool:
    return len(point.payload.get("windows") or ()) > 1
