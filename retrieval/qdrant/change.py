"""Changing a Qdrant collection: adding passages, renewing documents, deleting by id.

The lock and the numbers lie in the index folder, so a collection is changed from one folder, and
from one host where hosts share it without its locks. A copy of the folder searches what was there
when it was copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
from retrieval.qdrant.filters import count, filter_of
from retrieval.qdrant.manifest import QdrantManifest
from retrieval.qdrant.points import passage_of, points_by_passage, remove, scroll
from retrieval.qdrant.streaming import commit, mark_of, report, stream, sweep
from retrieval.writing import alone


def add_to_qdrant(
    folder: Path | str,
    corpus: Iterable[Passage],
    *,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Add passages; documents that were indexed before are brought up to date. Called again after
    a crash it goes on. Until it ends, searches find what was there before.

    Raises ``CorpusError`` for an id that is there already.
    """
    folder = Path(folder)
    with _changing(folder) as manifest:
        coder = encoder_of(checkpoint_of(manifest.encoder, manifest.checkpoint, checkpoint))
        gone = dict[str, Passage]()
        if isinstance(corpus, DocumentCorpus):
            manifest.cut = manifest.cut or asdict(corpus.cut)
            fresh = unique(_renewed(manifest, corpus, gone))
        else:
            fresh = unique(corpus)
        done = stream(manifest, coder, fresh, None, progress, gone)
        if not done.ids and not isinstance(corpus, DocumentCorpus):
            raise CorpusError("nothing to add: the corpus is empty")
        commit(folder, manifest, done, gone)
    return replace(report(folder, manifest, len(done.ids)), removed=len(gone))


def delete_from_qdrant(folder: Path | str, ids: Iterable[str]) -> IndexReport:
    """Take passages out by id. Raises ``CorpusError`` naming ids that aren't there."""
    folder, wanted = Path(folder), set(ids)
    with _changing(folder) as manifest:
        there, _ = points_by_passage(manifest, wanted)
        if absent := sorted(wanted - set(there)):
            raise CorpusError(f"no passage has the id {absent[:5]}")
        if len(there) == manifest.passages:
            raise CorpusError("that would leave the index empty: delete the collection instead")
        total = CorpusHash(manifest.corpus_hash)
        for _, payload in there.values():
            total.remove(passage_of(payload))
        remove(manifest, [point for point, _ in there.values()])
        manifest.passages -= len(there)
        manifest.corpus_hash = total.hex
        manifest.write(folder)
    return report(folder, manifest, len(there))


@contextmanager
def _changing(folder: Path) -> Iterator[QdrantManifest]:
    """The manifest of a whole collection that nobody else changes meanwhile (``alone``)."""
    with alone(folder):
        manifest = QdrantManifest.read(folder)
        if not manifest.ready:
            raise IndexFault(
                f"the collection {manifest.collection} is not whole: run its hopsmith index again"
            )
        sweep(folder, manifest)
        if count(manifest, filter_of(manifest)) != manifest.passages:
            _recount(folder, manifest)
        yield manifest


def _recount(folder: Path, manifest: QdrantManifest) -> None:
    """Count and hash what is there: a change that was cut short had begun to remove some."""
    total, passages = CorpusHash(), 0
    for _, payload in scroll(manifest, filter_of(manifest)):
        total.add(passage_of(payload))
        passages += 1
    manifest.passages, manifest.corpus_hash = passages, total.hex
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
            payload["id"]: (point, payload)
            for point, payload in scroll(manifest, models.Filter(must=[same]))
            if payload["n"] < manifest.numbered
        }
        pieces = {piece.id: piece for piece in group}
        others, _ = points_by_passage(manifest, pieces.keys() - there.keys(), ["n"])
        if others:
            raise CorpusError(
                f"{source} would get the id {min(others)!r}, which another passage of the index "
                "has: rename the file, or delete that passage first"
            )
        stay = {
            name
            for name, piece in pieces.items()
            if name in there and there[name][1]["mark"] == mark_of(manifest, piece)
        }
        gone.update({p: passage_of(old) for name, (p, old) in there.items() if name not in stay})
        yield from (piece for name, piece in pieces.items() if name not in stay)
