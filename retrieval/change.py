"""Changing an index without building it again: what is new is a segment of its own, what is deleted
is marked, and the manifest's replacement makes it so. BM25 is made anew, which takes seconds for
100,000 passages, so that its document frequencies stay exact."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from retrieval.build import IndexReport, report, write_lexical
from retrieval.compiled import check_compiler
from retrieval.corpus import CorpusHash, unique
from retrieval.documents import DocumentCorpus
from retrieval.documents.renewal import renewed
from retrieval.embedding import Embedder
from retrieval.encoder import Progress
from retrieval.errors import CorpusError, IndexFault
from retrieval.index import OpenIndex
from retrieval.manifest import Manifest, SegmentEntry
from retrieval.passage import Passage
from retrieval.plaid import build_plaid
from retrieval.qdrant import add_to_qdrant, delete_from_qdrant, is_qdrant
from retrieval.segment import Segment, write_segment
from retrieval.writing import alone, full_disk, making

EMBEDDED = ".embedded"
"""What an addition that broke off had embedded."""
MOST_SEGMENTS = 32
"""Segments beyond which an addition compacts the index."""
MOST_DELETED = 0.5
"""Share of deleted passages beyond which a deletion compacts it."""


def add_passages(
    folder: Path | str,
    corpus: Iterable[Passage],
    *,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Append passages as a new segment. Raises ``CorpusError`` for an id that is there already.

    Documents (``DocumentCorpus``) that were indexed before are brought up to date: pieces that are
    as they were stay, others replace them in the same step.
    """
    folder = Path(folder)
    if is_qdrant(folder):
        return add_to_qdrant(folder, corpus, checkpoint=checkpoint, progress=progress)
    with changing(folder) as manifest:
        if manifest.engine == "plaid":
            check_compiler()
        index = OpenIndex(folder, manifest, checkpoint)
        coder = index.encoder if manifest.encoder else None
        if isinstance(coder, Embedder):
            coder = coder.noting(folder / EMBEDDED)
        gone: list[int] = []
        if isinstance(corpus, DocumentCorpus):
            fresh = unique(renewed(index, corpus, gone))
            manifest.cut = manifest.cut or asdict(corpus.cut)
        else:
            fresh = unique(corpus, (p.id for p in index.passages()))
        total = CorpusHash(manifest.corpus_hash)
        first = next(fresh, None)
        if first is None and not isinstance(corpus, DocumentCorpus):
            raise CorpusError("nothing to add: the corpus is empty")
        count = 0
        if first is not None:
            name = _next(manifest)
            with making(folder / "segments" / name) as new:
                passages = itertools.chain([first], fresh)
                count, tokens, digest = write_segment(
                    new, passages, coder, index.codec, progress=progress
                )
                _plaid(index, new)
            manifest.segments.append(SegmentEntry(name=name, passages=count, tokens=tokens))
            total.join(digest)
        for number in gone:
            total.remove(index.passage(number))
            segment, place = index.at(number)
            manifest.segments[segment].deleted.append(place)
        if count or gone:
            _commit(folder, manifest, total)
        if isinstance(coder, Embedder) and coder.journal:
            coder.journal.forget()
        if len(manifest.segments) > MOST_SEGMENTS or _mostly_deleted(manifest):
            _compact(folder, manifest)
    return replace(report(folder, manifest, count), removed=len(gone))


def delete_passages(folder: Path | str, ids: Iterable[str]) -> IndexReport:
    """Take passages out by id. Raises ``CorpusError`` naming ids that aren't there."""
    folder = Path(folder)
    if is_qdrant(folder):
        return delete_from_qdrant(folder, ids)
    wanted = set(ids)
    with changing(folder) as manifest:
        index = OpenIndex(folder, manifest)
        total = CorpusHash(manifest.corpus_hash)
        found = set()
        for number in index.alive_numbers:
            passage = index.passage(int(number))
            if passage.id in wanted:
                found.add(passage.id)
                total.remove(passage)
                segment, place = index.at(int(number))
                manifest.segments[segment].deleted.append(place)
        if wanted - found:
            raise CorpusError(f"no passage has the id {sorted(wanted - found)[:5]}")
        if len(found) == len(index.alive_numbers):
            raise CorpusError("that would leave the index empty: delete its folder instead")
        if found:
            _commit(folder, manifest, total)
        if _mostly_deleted(manifest):
            _compact(folder, manifest)
    return report(folder, manifest, len(found))


def compact(folder: Path | str) -> IndexReport:
    """Write the live passages as one segment and drop the others' files."""
    folder = Path(folder)
    if is_qdrant(folder):
        raise IndexFault(f"{folder} lies in Qdrant, which compacts by itself: nothing to do")
    with changing(folder) as manifest:
        _compact(folder, manifest)
    return report(folder, manifest, 0)


@contextmanager
def changing(folder: Path) -> Iterator[Manifest]:
    """The manifest of an index that nobody else changes meanwhile (``alone``). What a crashed
    writer left is swept first."""
    Manifest.read(folder)
    with alone(folder), full_disk(folder):
        manifest = Manifest.read(folder)
        _sweep(folder, manifest)
        yield manifest


def _mostly_deleted(manifest: Manifest) -> bool:
    return manifest.passages < (1 - MOST_DELETED) * sum(s.passages for s in manifest.segments)


def _next(manifest: Manifest) -> str:
    return f"{manifest.serial + 1:06d}"


def _commit(folder: Path, manifest: Manifest, total: CorpusHash) -> None:
    manifest.serial += 1
    manifest.passages = sum(s.passages - len(s.deleted) for s in manifest.segments)
    manifest.corpus_hash = total.hex
    write_lexical(folder, manifest)
    manifest.write(folder)
    _sweep(folder, manifest)


def _sweep(folder: Path, manifest: Manifest) -> None:
    """Remove what the manifest doesn't name. Readers that opened it before keep their maps."""
    named = {s.name for s in manifest.segments}
    for path in (folder / "segments").iterdir():
        if path.name not in named:
            shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob("bm25-*"):
        if path.name != manifest.lexical:
            shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(".manifest.json.*"):
        path.unlink(missing_ok=True)


def _compact(folder: Path, manifest: Manifest) -> None:
    index = OpenIndex(folder, manifest)
    name = _next(manifest)
    with making(folder / "segments" / name) as new:
        tokens = _merge(index, new)
        _plaid(index, new)
    manifest.segments = [SegmentEntry(name=name, passages=len(index.alive_numbers), tokens=tokens)]
    _commit(folder, manifest, CorpusHash(manifest.corpus_hash))


def _plaid(index: OpenIndex, folder: Path) -> None:
    """Give a new segment its PLAID index, where the index is searched by it."""
    if index.manifest.engine == "plaid" and index.manifest.encoder is not None:
        dim = int(index.manifest.encoder["dim"])
        build_plaid(Segment(folder, index.codec, dim), dim)


def _merge(index: OpenIndex, folder: Path) -> int:
    """Copy live passages with their vectors, as they are stored, into one segment folder; returns
    its tokens."""
    offsets, spans, tokens = [0], [], 0
    with (
        (folder / "passages.jsonl").open("wb") as texts,
        (folder / "vectors.bin").open("wb") as vectors,
        (folder / "pooled.bin").open("wb") as means,
    ):
        for place, number in enumerate(index.alive_numbers):
            segment, own = index.at(int(number))
            line, *windows = index.segments[segment].stored(own)
            offsets.append(offsets[-1] + texts.write(line))
            for stored, mean, length in zip(*windows, strict=True):
                vectors.write(stored)
                means.write(mean)
                spans.append((tokens, tokens + length, place))
                tokens += length
    np.save(folder / "offsets.npy", np.asarray(offsets, np.int64))
    np.save(folder / "windows.npy", np.asarray(spans, np.int64).reshape(-1, 3))
    return tokens
