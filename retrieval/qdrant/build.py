"""Building a Qdrant collection: passages are streamed in batches, and what lies there already,
unchanged, is not encoded again. So a build that was cut short goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from retrieval.build import IndexReport
from retrieval.corpus import Corpus, unique
from retrieval.documents import DocumentCorpus
from retrieval.encoder import Progress, encoder
from retrieval.engines import checked
from retrieval.errors import CorpusError, IndexFault
from retrieval.lexical import tokenise
from retrieval.passage import Passage
from retrieval.qdrant.connection import asking
from retrieval.qdrant.manifest import NAME, NEXT, QdrantManifest
from retrieval.qdrant.points import POOLED, TOKENS, WORDS
from retrieval.qdrant.streaming import CHUNK, chunks, commit, report, stream, sweep
from retrieval.segment import content
from retrieval.wire import is_url
from retrieval.writing import LOCK, alone


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
    goes on. An index that is overwritten answers until the new one is whole, which is built in a
    collection beside it: ``collection`` with ``-next``, or without where the old one has it. Raises
    ``CorpusError``, ``IndexFault``; a collection that ``out`` does not name is never touched.
    """
    out = Path(out)
    known = checked(settings or {})
    url = url if is_url(url) else str(Path(url).resolve())
    named = _there(out, url, collection, overwrite)
    passages = corpus if iter(corpus) is not corpus else list(corpus)
    average = _average(_quietly(passages))
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
        if named is None and ask(lambda c: c.collection_exists(collection)):
            raise _foreign(collection, out)
    out.mkdir(parents=True, exist_ok=True)
    with alone(out):
        old = _there(out, url, collection, overwrite)
        if old and old.ready:
            sweep(out, old)
            manifest.replaces = old.collection
            manifest.collection = _beside(collection, old)
        _prepare(out, manifest, shards, replicas)
        done = stream(manifest, coder, unique(passages), total, progress)
        commit(out, manifest, done, {})
        sweep(out, manifest)
    return report(out, manifest, len(done.ids))


def _there(out: Path, url: str, collection: str, overwrite: bool) -> QdrantManifest | None:
    """The unfinished build to go on with, or the finished one to replace. Raises ``IndexFault``
    when ``out`` is taken."""
    if not out.exists() or {path.name for path in out.iterdir()} <= {LOCK}:
        return None
    if not (out / NAME).is_file():
        raise IndexFault(f"{out} holds something else: choose another --out")
    found = QdrantManifest.read(out)
    if found.ready and not overwrite:
        raise IndexFault(
            f"{out} exists: choose another --out, add to it with hopsmith add, or --overwrite"
        )
    if found.url != url or found.collection not in (collection, f"{collection}-next"):
        raise IndexFault(
            f"{out} names the collection {found.collection} at {found.url}: choose another --out"
        )
    return found


def _beside(collection: str, old: QdrantManifest) -> str:
    """Where an index is built that replaces another: under the name given, or beside it."""
    return collection if old.collection != collection else f"{collection}-next"


def _prepare(out: Path, manifest: QdrantManifest, shards: int | None, replicas: int | None) -> None:
    """Have the collection there, with what an unfinished build of the same encoder put in. Raises
    ``IndexFault`` for one of somebody else's."""
    name, collection = NEXT if manifest.replaces else NAME, manifest.collection
    begun = QdrantManifest.read(out, name) if (out / name).is_file() else None
    with asking(manifest.url) as ask:
        if begun and (begun.collection, begun.encoder) != (collection, manifest.encoder):
            old = begun.collection
            ask(lambda c: c.delete_collection(old))
            begun = None
        there = ask(lambda c: c.collection_exists(collection))
        if there and begun is None:
            raise _foreign(collection, out)
        manifest.write(out, name)
        if not there:
            ask(lambda c: _create(c, manifest, shards, replicas))


def _foreign(collection: str, out: Path) -> IndexFault:
    return IndexFault(
        f"the collection {collection} is there already, and {out} does not name it: choose another "
        "--collection, or the --out that it was begun with"
    )


def _quietly(corpus: Iterable[Passage]) -> Iterable[Passage]:
    """The corpus for a first pass: what it skips it says in the next."""
    if not isinstance(corpus, Corpus | DocumentCorpus):
        return corpus
    quiet = copy(corpus)
    quiet.warn = None
    return quiet


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
