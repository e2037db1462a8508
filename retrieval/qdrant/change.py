"""Changing a Qdrant collection: adding passages, renewing documents, deleting by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

from retrieval.build import IndexReport
from retrieval.checkpoint import checkpoint_of
from retrieval.corpus import CorpusHash, unique
from retrieval.documents import DocumentCorpus
from retrieval.encoder import Progress, encoder_of
from retrieval.errors import CorpusError, IndexFault
from retrieval.passage import Passage
from retrieval.qdrant.manifest import QdrantManifest
from retrieval.qdrant.points import passage_of, payloads_of, point_id, remove, scroll
from retrieval.qdrant.streaming import commit, late, mark_of, report, stream


def add_to_qdrant(
    folder: Path | str,
    corpus: Iterable[Passage],
    *,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Add passages; documents that were indexed before are brought up to date. Called again after
    a crash it goes on. Until it ends, searches find what has arrived so far.

    Raises ``CorpusError`` for an id that is there already.
    """
    folder = Path(folder)
    manifest = _whole(folder)
    coder = encoder_of(checkpoint_of(manifest.encoder, manifest.checkpoint, checkpoint))
    total, gone = CorpusHash(manifest.corpus_hash), dict[str, Passage]()
    resumed = any(late(manifest))
    documents = isinstance(corpus, DocumentCorpus)
    if isinstance(corpus, DocumentCorpus):
        manifest.cut = manifest.cut or asdict(corpus.cut)
        fresh = unique(_renewed(manifest, corpus, gone))
    else:
        fresh = unique(corpus)
    done = stream(manifest, coder, fresh, None, progress, gone if documents else {})
    if not done.ids and not documents:
        raise CorpusError("nothing to add: the corpus is empty")
    for passage in gone.values():
        total.remove(passage)
    remove(manifest, sorted(set(gone) - done.ids))
    manifest.passages -= len(gone)
    commit(folder, manifest, done, total)
    if resumed:
        _recount(folder, manifest)
    return replace(report(folder, manifest, len(done.ids)), removed=len(gone))


def delete_from_qdrant(folder: Path | str, ids: Iterable[str]) -> IndexReport:
    """Take passages out by id. Raises ``CorpusError`` naming ids that aren't there."""
    folder = Path(folder)
    manifest = _whole(folder)
    wanted = {point_id(i): i for i in ids}
    there = {
        point: passage_of(payload)
        for point, payload in payloads_of(manifest, list(wanted)).items()
        if payload["n"] < manifest.numbered
    }
    if absent := sorted(wanted[point] for point in set(wanted) - set(there)):
        raise CorpusError(f"no passage has the id {absent[:5]}")
    if len(there) == manifest.passages:
        raise CorpusError("that would leave the index empty: delete the collection instead")
    total = CorpusHash(manifest.corpus_hash)
    for passage in there.values():
        total.remove(passage)
    remove(manifest, list(there))
    manifest.passages -= len(there)
    manifest.corpus_hash = total.hex
    manifest.write(folder)
    return report(folder, manifest, len(there))


def _whole(folder: Path) -> QdrantManifest:
    manifest = QdrantManifest.read(folder)
    if not manifest.ready:
        raise IndexFault(
            f"the collection {manifest.collection} is not whole: run its hopsmith index again"
        )
    return manifest


def _recount(folder: Path, manifest: QdrantManifest) -> None:
    """Count and hash all that is there: a change that was cut short may have replaced some."""
    total, count = CorpusHash(), 0
    for _, payload in scroll(manifest):
        total.add(passage_of(payload))
        count += 1
    manifest.passages, manifest.corpus_hash = count, total.hex
    manifest.write(folder)


def _renewed(
    manifest: QdrantManifest, corpus: DocumentCorpus, gone: dict[str, Passage]
) -> Iterator[Passage]:
    """The pieces of documents that the collection does not have as they are; ``gone`` gets those
    that it has and the documents do not. As ``retrieval.documents.renewal``, a source at a time."""
    from qdrant_client import models

    for source, group in groupby(corpus, key=lambda piece: str(piece.metadata["source"])):
        same = models.FieldCondition(key="metadata.source", match=models.MatchValue(value=source))
        there = {
            point: payload
            for point, payload in scroll(manifest, models.Filter(must=[same]))
            if payload["n"] < manifest.numbered
        }
        pieces = {point_id(piece.id): piece for piece in group}
        others = payloads_of(manifest, [p for p in pieces if p not in there], ["id", "n"])
        for payload in others.values():
            if payload["n"] < manifest.numbered:
                raise CorpusError(
                    f"{source} would get the id {payload['id']!r}, which another passage of the "
                    "index has: rename the file, or delete that passage first"
                )
        stay = {
            point
            for point, piece in pieces.items()
            if point in there and there[point]["mark"] == mark_of(manifest, piece)
        }
        gone.update({p: passage_of(there[p]) for p in there if p not in stay})
        yield from (piece for point, piece in pieces.items() if point not in stay)
