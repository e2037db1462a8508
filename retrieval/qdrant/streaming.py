"""Passages into a collection, once: what both a build and an addition do. A point's number tells
whether the change that brought it has ended (``QdrantManifest.numbered``)."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval.build import IndexReport
from retrieval.corpus import CorpusHash
from retrieval.encoder import Encoder, Progress
from retrieval.errors import CorpusError
from retrieval.passage import Passage
from retrieval.qdrant.connection import asking
from retrieval.qdrant.manifest import ENGINE, NEXT, QdrantManifest
from retrieval.qdrant.points import (
    POOLED,
    TOKENS,
    point_ids,
    points_by_passage,
    points_of,
    remove,
    scroll,
)

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

CHUNK = 512
"""Passages looked up, encoded and tokenised together."""
SAMPLE = 64
"""Points that the size of a passage is measured on."""


@dataclass
class _Done:
    """What a stream of passages left in the collection."""

    ids: set[str] = field(default_factory=set)
    """Of points."""
    digest: CorpusHash = field(default_factory=CorpusHash)
    numbered: int = 0
    """Beyond every number that was given."""


def stream(
    manifest: QdrantManifest,
    coder: Encoder,
    passages: Iterable[Passage],
    total: int | None,
    progress: Progress | None,
    replacing: Mapping[str, Passage] | None = None,
) -> _Done:
    """Put passages into the collection. Those that a change which was cut short left there, as
    they are, are not encoded again. Raises ``CorpusError`` at an id of the index's own, unless its
    point is in ``replacing``."""
    done = _Done(numbered=manifest.numbered)
    for chunk in chunks(passages, CHUNK):
        whole, late = points_by_passage(manifest, [p.id for p in chunk], ["mark", "n"])
        base = len(done.ids)
        fresh = []
        for number, passage in enumerate(chunk, manifest.numbered + base):
            mark, (point, other) = mark_of(manifest, passage), point_ids(passage.id)
            if passage.id in whole:
                taken, _ = whole[passage.id]
                if taken not in (replacing or {}):
                    raise CorpusError(
                        f"the id {passage.id!r} is in the index already: ids must be unique"
                    )
                point = other if taken == point else point
            before: dict[str, Any] = {}
            if passage.id in late:
                point, before = late[passage.id]
            done.ids.add(point)
            done.digest.add(passage)
            done.numbered = max(done.numbered, number + 1)
            if before and before["mark"] == mark:
                done.numbered = max(done.numbered, before["n"] + 1)
            else:
                fresh.append((point, number, mark, passage))

        def tell(now: int, of: int, base: int = base, size: int = len(chunk)) -> None:
            if progress is not None:
                progress(base + now * size // of, total or base + size)

        for batch in points_of(coder, fresh, manifest.average_words, tell):
            with asking(manifest.url) as ask:
                ask(partial(_upsert, manifest.collection, batch))
        tell(1, 1)
    return done


def commit(
    folder: Path, manifest: QdrantManifest, done: _Done, gone: Mapping[str, Passage]
) -> None:
    """Remove what earlier tries left besides and what is ``gone``, by its points; then say in the
    manifest what is there now."""
    remove(manifest, [*(point for point in late(manifest) if point not in done.ids), *gone])
    total = CorpusHash(manifest.corpus_hash)
    for passage in gone.values():
        total.remove(passage)
    total.join(done.digest)
    manifest.passages += len(done.ids) - len(gone)
    manifest.numbered = done.numbered
    manifest.corpus_hash = total.hex
    manifest.ready = True
    manifest.write(folder)


def sweep(folder: Path, manifest: QdrantManifest) -> None:
    """Drop the collection that a whole one has taken the place of."""
    if old := manifest.replaces:
        with asking(manifest.url) as ask:
            ask(lambda c: c.delete_collection(old))
        (folder / NEXT).unlink(missing_ok=True)
        manifest.replaces = None
        manifest.write(folder)


def late(manifest: QdrantManifest) -> Iterator[str]:
    """The points of a change that has not ended."""
    from qdrant_client import models

    late = models.FieldCondition(key="n", range=models.Range(gte=manifest.numbered))
    return (point for point, _ in scroll(manifest, models.Filter(must=[late])))


def mark_of(manifest: QdrantManifest, passage: Passage) -> str:
    """What a point was made of: 32 hex digits."""
    made_of = [
        passage.id,
        passage.title,
        passage.text,
        dict(passage.metadata),
        manifest.encoder,
        manifest.average_words,
    ]
    text = json.dumps(made_of, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def report(folder: Path, manifest: QdrantManifest, changed: int) -> IndexReport:
    with asking(manifest.url) as ask:
        sample, _ = ask(
            lambda c: c.scroll(
                manifest.collection, limit=SAMPLE, with_payload=False, with_vectors=[TOKENS, POOLED]
            )
        )
    dim = int(manifest.encoder["dim"])
    size = sum(2 * dim * len(p.vector[TOKENS]) + 4 * dim * len(p.vector[POOLED]) for p in sample)
    return IndexReport(
        folder=folder,
        engine=ENGINE,
        passages=manifest.passages,
        changed=changed,
        bytes_per_passage=size / len(sample),
        corpus_hash=manifest.corpus_hash,
    )


def chunks(items: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    stream = iter(items)
    while chunk := list(itertools.islice(stream, size)):
        yield chunk


def _upsert(collection: str, points: Any, client: QdrantClient) -> Any:
    return client.upsert(collection, points, wait=True)
