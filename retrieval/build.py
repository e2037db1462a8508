"""Building an index folder from a corpus."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.codec import Codec, Float16, ProductQuantised
from retrieval.compiled import check_compiler
from retrieval.corpus import unique
from retrieval.documents import DocumentCorpus
from retrieval.embedding import Embedder
from retrieval.embedding import embedder as embedder_named
from retrieval.encoder import Encoder, Progress, encoder
from retrieval.engines import ENGINES, checked
from retrieval.errors import CorpusError, IndexFault
from retrieval.index import OpenIndex
from retrieval.lexical import build_lexical
from retrieval.manifest import Manifest, SegmentEntry
from retrieval.passage import Passage
from retrieval.plaid import FOLDER as PLAID
from retrieval.plaid import build_plaid
from retrieval.segment import Segment, content, write_segment
from retrieval.writing import alone, making, settle

AUTO_EXACT = 1_000
"""``engine="auto"`` scores corpora up to this many passages exactly."""
OVER_EMBEDDINGS = ("auto", "dense", "two-stage", "exact")
"""Engines that work over one vector a passage."""
PQ_PASSAGES = 1_500
"""Passages whose tokens train a quantiser, at most; spread over the first ``PQ_HEAD``."""
PQ_HEAD = 15_000


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a build, an addition or a deletion did."""

    folder: Path
    engine: str
    passages: int
    """In the index now."""
    changed: int
    """Added or deleted by this call."""
    bytes_per_passage: float
    """Of token vectors and pooled vectors, and of PLAID where the index has it."""
    corpus_hash: str
    removed: int = 0
    """Replaced by what was added."""


def build_index(
    corpus: Iterable[Passage],
    out: Path | str,
    *,
    engine: str = "auto",
    checkpoint: str | None = None,
    embedder: str | None = None,
    vectors: str = "float16",
    settings: Mapping[str, Any] | None = None,
    total: int | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> IndexReport:
    """Index a corpus into a new folder.

    ``progress`` is told (passages done, passages in all, by ``total``). The folder appears when all
    is written; an interrupted or failed build leaves nothing, and an index that was there before
    stays. With an ``embedder`` (``retrieval.embedding``) in place of a checkpoint, what was
    embedded before a build broke off is kept for the next one. A change of the index that is there
    is overwritten when it ends before the build does; one under way then fails the build. Raises
    ``CorpusError`` (empty, duplicate id), ``IndexFault``.
    """
    out = Path(out)
    _check(out, engine, vectors, overwrite)
    if engine == "plaid":
        check_compiler()
    settings = checked(settings or {})
    if settings and engine == "bm25":
        raise IndexFault(
            f"bm25 has no setting {', '.join(settings)}: leave it out, or take --engine two-stage"
        )
    coder = _coder(out.resolve(), engine, checkpoint, embedder)
    with making(out) as folder:
        passages = _some(unique(corpus))
        codec: Codec | None = None
        known: dict[str, Any] = {}
        if coder is not None:
            codec, known, passages = _codec(vectors, coder, passages)
            codec.save(folder)
        name = "000001"
        count, tokens, digest = write_segment(
            folder / "segments" / name,
            passages,
            coder,
            codec,
            known=known,
            total=total,
            progress=progress,
        )
        if engine == "auto":
            engine = "exact" if count <= AUTO_EXACT else "two-stage"
        if engine == "plaid" and coder is not None and codec is not None:
            build_plaid(Segment(folder / "segments" / name, codec, coder.spec.dim), coder.spec.dim)
        manifest = Manifest(
            engine=engine,
            encoder=None if coder is None else coder.spec.identity,
            checkpoint=None if coder is None else coder.spec.hub,
            vectors=vectors,
            settings=settings,
            cut=asdict(corpus.cut) if isinstance(corpus, DocumentCorpus) else None,
            segments=[SegmentEntry(name=name, passages=count, tokens=tokens)],
            passages=count,
            corpus_hash=digest.hex,
        )
        write_lexical(folder, manifest)
        manifest.write(folder)
    if isinstance(coder, Embedder) and coder.journal:
        coder.journal.forget()
    return report(out, manifest, count)


def _coder(
    out: Path, engine: str, checkpoint: str | None, embedder: str | None
) -> Encoder | Embedder | None:
    if embedder is None:
        return None if engine == "bm25" else encoder(checkpoint)
    if engine not in OVER_EMBEDDINGS or checkpoint is not None:
        raise IndexFault(
            f"an embedder goes with the engines {', '.join(OVER_EMBEDDINGS)}, and without a "
            "checkpoint"
        )
    return embedder_named(embedder).noting(out.parent / f".{out.name}.embedded")


def _check(out: Path, engine: str, vectors: str, overwrite: bool) -> None:
    if engine != "auto" and engine not in ENGINES:
        raise IndexFault(f"no engine {engine!r}; there are auto, {', '.join(ENGINES)}")
    if vectors not in (Float16.name, ProductQuantised.name):
        raise IndexFault(f"vectors are kept as float16 or pq, not {vectors!r}")
    if not out.exists():
        return
    if out.resolve().is_mount():
        raise IndexFault(f"{out} is a mount point and can't be replaced: name a folder inside it")
    if out.resolve() == Path.cwd():
        raise IndexFault(
            f"{out} is the folder that you are in: name a folder inside it, or run this elsewhere"
        )
    if not out.is_dir():
        raise IndexFault(f"{out} is a file: choose another --out")
    taken = any(out.iterdir())
    if taken and not overwrite:
        raise IndexFault(
            f"{out} exists: choose another --out, add to it with hopsmith add, or --overwrite"
        )
    if taken and not (out / "manifest.json").is_file():
        raise IndexFault(f"{out} holds something else than an index: choose another --out")
    if taken:
        with alone(out):
            pass


def _some(passages: Iterable[Passage]) -> Iterable[Passage]:
    stream = iter(passages)
    first = next(stream, None)
    if first is None:
        raise CorpusError("the corpus is empty: it needs at least one passage with words")
    return itertools.chain([first], stream)


def _codec(
    name: str, coder: Encoder | Embedder, passages: Iterable[Passage]
) -> tuple[Codec, dict[str, Any], Iterable[Passage]]:
    """The codec of a new index, what was encoded to fit it (windows and their vectors, so that none
    is encoded twice), and the passages from the start: a quantiser reads ahead."""
    if name == Float16.name:
        return Float16(coder.spec.dim), {}, passages
    stream = iter(passages)
    head = list(itertools.islice(stream, PQ_HEAD))
    step = max(1, len(head) // PQ_PASSAGES)
    windows = coder.windows([content(p) for p in head[::step]])
    texts = list(dict.fromkeys(w for ws in windows for w in ws))[: 2 * PQ_PASSAGES]
    vectors = coder.passages(texts)
    codec = ProductQuantised.train(np.concatenate(vectors))
    return codec, dict(zip(texts, vectors, strict=True)), itertools.chain(head, stream)


def write_lexical(folder: Path, manifest: Manifest) -> None:
    """Make BM25 over the live passages, so that its document frequencies are exact, and name it in
    the manifest."""
    name = f"bm25-{manifest.serial:06d}"
    shutil.rmtree(folder / name, ignore_errors=True)
    index = OpenIndex(folder, manifest)
    build_lexical((content(p) for p in index.passages()), folder / name)
    settle(folder / name)
    manifest.lexical = name


def report(folder: Path, manifest: Manifest, changed: int) -> IndexReport:
    """What the index is now."""
    size = sum(
        path.stat().st_size
        for s in manifest.segments
        for kind in ("*.bin", f"{PLAID}/*")
        for path in (folder / "segments" / s.name).glob(kind)
    )
    return IndexReport(
        folder=folder,
        engine=manifest.engine,
        passages=manifest.passages,
        changed=changed,
        bytes_per_passage=size / sum(s.passages for s in manifest.segments),
        corpus_hash=manifest.corpus_hash,
    )
