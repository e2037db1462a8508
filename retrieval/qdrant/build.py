"""Building a Qdrant collection: passages are streamed in batches, and what lies there already,
unchanged, is not encoded again. So a build that was cut short goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from retrieval.build import IndexReport
from retrieval.corpus import CorpusHash, unique
from retrieval.documents import DocumentCorpus
from retrieval.encoder import Progress, encoder
from retrieval.engines import checked
from retrieval.errors import CorpusError, IndexFault
from retrieval.lexical import tokenise
from retrieval.passage import Passage
from retrieval.qdrant.connection import asking
from retrieval.qdrant.manifest import NAME, QdrantManifest
from retrieval.qdrant.points import POOLED, TOKENS, WORDS
from retrieval.qdrant.streaming import CHUNK, chunks, commit, report, stream
from retrieval.segment import content
from retrieval.wire import is_url


def build_qdrant(
    corpus: Iterable[Passage],
    out: Path | str,
    *,
    url: str,
    collection: str,
    checkpoint: str | None = None,
    settings: Mapping[str, Any] | None = None,
    shards: int | None = None,
    replicas: int | None = None,
    total: int | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> IndexReport:
    """Index a corpus into a collection, and write to ``out`` the small folder that opens it.

    ``url`` is a server's, or a folder for the client's local mode. ``shards`` and ``replicas`` are
    the collection's, in a cluster. The corpus is gone through twice. Called again after a crash it
    goes on. Raises ``CorpusError``, ``IndexFault``; a collection that ``out`` does not name is
    never touched.
    """
    out = Path(out)
    known = checked(settings or {})
    url = url if is_url(url) else str(Path(url).resolve())
    ours = _ours(out, url, collection, overwrite)
    passages = corpus if iter(corpus) is not corpus else list(corpus)
    average = _average(passages)
    coder = encoder(checkpoint)
    manifest = QdrantManifest(
        url=url,
        collection=collection,
        encoder=coder.spec.identity,
        checkpoint=coder.spec.hub,
        settings=known,
        average_words=average,
    )
    if isinstance(corpus, DocumentCorpus):
        manifest.cut = asdict(corpus.cut)
    with asking(url) as ask:
        there = ask(lambda c: c.collection_exists(collection))
        if there and not ours:
            raise IndexFault(
                f"the collection {collection} is there already, and {out} does not name it: choose "
                "another --collection, or the --out that it was begun with"
            )
        if there and (overwrite or ours is None or ours.encoder != manifest.encoder):
            ask(lambda c: c.delete_collection(collection))
            there = False
        out.mkdir(parents=True, exist_ok=True)
        manifest.write(out)
        if not there:
            ask(lambda c: _create(c, manifest, shards, replicas))
    done = stream(manifest, coder, unique(passages), total, progress)
    commit(out, manifest, done, CorpusHash())
    return report(out, manifest, len(done.ids))


def _ours(out: Path, url: str, collection: str, overwrite: bool) -> QdrantManifest | None:
    """The unfinished build to go on with, or the finished one to replace. Raises ``IndexFault``
    when ``out`` is taken."""
    if not out.exists() or not any(out.iterdir()):
        return None
    if not (out / NAME).is_file():
        raise IndexFault(f"{out} holds something else: choose another --out")
    found = QdrantManifest.read(out)
    if found.ready and not overwrite:
        raise IndexFault(
            f"{out} exists: choose another --out, add to it with hopsmith add, or --overwrite"
        )
    if (found.url, found.collection) != (url, collection):
        raise IndexFault(
            f"{out} names the collection {found.collection} at {found.url}: choose another --out"
        )
    return found


def _average(passages: Iterable[Passage]) -> float:
    """Mean words of a passage. Raises ``CorpusError`` for an empty corpus."""
    words = count = 0
    for chunk in chunks(passages, CHUNK):
        words += sum(map(len, tokenise([content(p) for p in chunk])))
        count += len(chunk)
    if not count:
        raise CorpusError("the corpus is empty: it needs at least one passage with words")
    return words / count


def _create(
    client: Any, manifest: QdrantManifest, shards: int | None, replicas: int | None
) -> None:
    from qdrant_client import models

    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    dim = int(manifest.encoder["dim"])
    client.create_collection(
        manifest.collection,
        vectors_config={
            TOKENS: models.VectorParams(
                size=dim,
                distance=models.Distance.DOT,
                multivector_config=several,
                datatype=models.Datatype.FLOAT16,
                on_disk=True,
                hnsw_config=models.HnswConfigDiff(m=0),
            ),
            POOLED: models.VectorParams(
                size=dim, distance=models.Distance.DOT, multivector_config=several
            ),
        },
        sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        on_disk_payload=True,
        shard_number=shards,
        replication_factor=replicas,
    )
    if is_url(manifest.url):
        for name, kind in (("n", "integer"), ("metadata.source", "keyword")):
            client.create_payload_index(manifest.collection, name, kind, wait=True)
