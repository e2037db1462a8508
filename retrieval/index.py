"""An index folder: built, opened, grown and thinned.

Layout: ``manifest.json`` · ``segments/NAME/…`` (``retrieval.segment``) · ``bm25-N/`` ·
``quantiser.npy`` where vectors are quantised. Everything but the manifest is written once under a
new name; replacing the manifest is what makes a change happen.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.codec import PQ_TRAIN, Codec, Float16, ProductQuantised, open_codec
from retrieval.corpus import CorpusHash, unique
from retrieval.encoder import Encoder, Progress, encoder
from retrieval.engines import ENGINES, EXACT_CHUNK, IndexRetriever
from retrieval.errors import CorpusError, IndexFault
from retrieval.lexical import Lexical, best, build_lexical
from retrieval.manifest import Manifest, SegmentEntry
from retrieval.passage import Passage
from retrieval.segment import Segment, content, write_segment

AUTO_EXACT = 1_000
"""``engine="auto"`` scores corpora up to this many passages exactly."""


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
    corpus_hash: str


class OpenIndex:
    """An index's files, memory-mapped; a snapshot of the manifest it was opened with."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        dim = int((manifest.encoder or {}).get("dim", 1))
        self.dim = dim
        self.codec: Codec | None = (
            open_codec(manifest.vectors, folder, dim) if manifest.encoder else None
        )
        self.segments = [
            Segment(folder / "segments" / entry.name, self.codec, dim)
            for entry in manifest.segments
        ]
        self.bases = np.cumsum([0, *(len(s) for s in self.segments)])
        alive = np.ones(int(self.bases[-1]), bool)
        for base, entry in zip(self.bases, manifest.segments, strict=False):
            alive[np.asarray(entry.deleted, np.int64) + base] = False
        self.alive = alive
        self.alive_numbers = np.flatnonzero(alive)

    @cached_property
    def encoder(self) -> Encoder:
        """The checkpoint that the index was encoded with. Raises ``IndexFault`` when the one of
        that name here has other weights."""
        here = encoder(self.manifest.checkpoint)
        if here.spec.identity != self.manifest.encoder:
            was = self.manifest.encoder or {}
            differs = [k for k, v in here.spec.identity.items() if was.get(k) != v]
            raise IndexFault(
                f"the index was encoded with another checkpoint than {here.spec.name} is here "
                f"({', '.join(differs)} differ): index the corpus again, or bring that checkpoint"
            )
        return here

    @cached_property
    def lexical(self) -> Lexical:
        if self.manifest.lexical is None:
            raise IndexFault("the index has no BM25 part: index the corpus again")
        return Lexical(self.folder / self.manifest.lexical, self.alive_numbers)

    def passage(self, number: int) -> Passage:
        at = int(np.searchsorted(self.bases, number, side="right")) - 1
        return self.segments[at].passage(number - int(self.bases[at]))

    def passages(self) -> Iterator[Passage]:
        """The live passages, in the order in which they were added."""
        return (self.passage(int(n)) for n in self.alive_numbers)

    @cached_property
    def windows(self) -> Any:
        """All windows as rows (segment, window in segment, passage number), live ones only."""
        rows = [
            np.stack(
                (
                    np.full(len(s.windows), i),
                    np.arange(len(s.windows)),
                    s.windows[:, 2] + self.bases[i],
                ),
                axis=1,
            )
            for i, s in enumerate(self.segments)
        ]
        every = np.concatenate(rows) if rows else np.zeros((0, 3), np.int64)
        return every[self.alive[every[:, 2]]]

    @cached_property
    def _first_window(self) -> Any:
        """For each passage number the range of its rows in ``windows``."""
        numbers = self.windows[:, 2]
        every = np.arange(len(self.alive) + 1)
        return np.searchsorted(numbers, every)

    @cached_property
    def _pooled(self) -> Any:
        rows = [s.pooled[: len(s.windows)] for s in self.segments]
        every = np.concatenate(rows) if len(rows) != 1 else rows[0]
        flat = np.concatenate(
            [s.windows[:, 2] + self.bases[i] for i, s in enumerate(self.segments)]
        )
        keep = self.alive[flat]
        return np.asarray(every if keep.all() else every[keep], np.float32)

    def nearest(self, means: Any, n: int) -> list[tuple[Any, Any]]:
        """For each pooled query the ``n`` nearest passages: numbers and scores, best first."""
        numbers = self.windows[:, 2]
        out = []
        for start in range(0, len(means), 32):
            for scores in means[start : start + 32] @ self._pooled.T:
                places = best(scores, n if len(numbers) == len(self.alive_numbers) else 4 * n)
                found = numbers[places]
                _, first = np.unique(found, return_index=True)
                first.sort()
                out.append((found[first][:n], scores[places][first][:n]))
        return out

    def maxsim(self, query: Any, numbers: Any) -> Any:
        """MaxSim over query tokens of some passages, each by its best window; shape (len,)."""
        if not len(numbers):
            return np.zeros(0, np.float32)
        spans = [np.arange(self._first_window[n], self._first_window[n + 1]) for n in numbers]
        owner = np.repeat(np.arange(len(numbers)), [len(s) for s in spans])
        rows = self.windows[np.concatenate(spans)]
        scores = self._window_scores([query], rows)[0]
        out = np.full(len(numbers), -np.inf, np.float32)
        np.maximum.at(out, owner, scores)
        return out

    def maxsim_all(self, queries: Sequence[Any]) -> list[Any]:
        """MaxSim of all live passages for each query; each of shape (live passages,)."""
        place = np.cumsum(self.alive) - 1
        out = np.full((len(queries), len(self.alive_numbers)), -np.inf, np.float32)
        for start in range(0, len(self.windows), EXACT_CHUNK):
            rows = self.windows[start : start + EXACT_CHUNK]
            for i, scores in enumerate(self._window_scores(queries, rows)):
                np.maximum.at(out[i], place[rows[:, 2]], scores)
        return list(out)

    def _window_scores(self, queries: Sequence[Any], rows: Any) -> list[Any]:
        """Score of each window row for each query: the sum over query tokens of the best token,
        divided by the number of query tokens."""
        import torch

        out = [np.empty(len(rows), np.float32) for _ in queries]
        tokens = torch.from_numpy(np.ascontiguousarray(np.concatenate(queries)))
        ends = np.cumsum([0, *(len(q) for q in queries)])
        for segment in np.unique(rows[:, 0]):
            mine = np.flatnonzero(rows[:, 0] == segment)
            vectors, starts = self.segments[int(segment)].vectors(rows[mine, 1])
            sims = (tokens @ torch.from_numpy(np.ascontiguousarray(vectors)).T).numpy()
            tops = np.maximum.reduceat(sims, starts, axis=1)
            for i in range(len(queries)):
                own = tops[ends[i] : ends[i + 1]]
                out[i][mine] = own.sum(0) / len(own)
        return out


def open_index(folder: Path | str, *, engine: str | None = None, **settings: Any) -> IndexRetriever:
    """Open an index under the engine it was built for, or another that it has the parts for.

    Raises ``IndexFault`` naming the mend: no index there, another format, no vectors.
    """
    folder = Path(folder)
    manifest = Manifest.read(folder)
    engine = engine or manifest.engine
    if engine not in ENGINES:
        raise IndexFault(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if engine != "bm25" and manifest.encoder is None:
        raise IndexFault(
            f"the index has no vectors, which {engine} needs: index with --engine {engine}"
        )
    known = {k: v for k, v in {**manifest.settings, **settings}.items() if v is not None}
    try:
        return IndexRetriever(OpenIndex(folder.resolve(), manifest), engine, known)
    except FileNotFoundError as fault:
        raise IndexFault(
            f"the index lacks {Path(str(fault.filename)).name}: index the corpus again"
        ) from fault


def build_index(
    corpus: Iterable[Passage],
    out: Path | str,
    *,
    engine: str = "auto",
    checkpoint: str | None = None,
    vectors: str = "float16",
    settings: dict[str, Any] | None = None,
    total: int | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> IndexReport:
    """Index a corpus into a new folder.

    ``progress`` is told (passages done, passages in all). The folder appears when all is written;
    an interrupted or failed build leaves nothing, and an index that was there before stays.
    Raises ``CorpusError`` (empty, duplicate id), ``IndexFault``.
    """
    out = Path(out)
    if engine != "auto" and engine not in ENGINES:
        raise IndexFault(f"no engine {engine!r}; there are auto, {', '.join(ENGINES)}")
    if vectors not in (Float16.name, ProductQuantised.name):
        raise IndexFault(f"vectors are kept as float16 or pq, not {vectors!r}")
    if out.exists() and not overwrite and any(out.iterdir() if out.is_dir() else [out]):
        raise IndexFault(
            f"{out} exists: choose another --out, add to it with hopsmith add, or --overwrite"
        )
    coder = None if engine == "bm25" else encoder(checkpoint)
    with _making(out) as making:
        stream = unique(corpus)
        first = list(itertools.islice(stream, 1))
        if not first:
            raise CorpusError("the corpus is empty: it needs at least one passage with words")
        passages: Iterable[Passage] = itertools.chain(first, stream)
        codec: Codec | None = None
        if coder is not None:
            codec, passages = _codec(vectors, coder, passages, making)
        name = "000001"
        count, tokens, digest = write_segment(
            making / "segments" / name, passages, coder, codec, total=total, progress=progress
        )
        if engine == "auto":
            engine = "exact" if count <= AUTO_EXACT else "two-stage"
        manifest = Manifest(
            engine=engine,
            encoder=None if coder is None else coder.spec.identity,
            checkpoint=None if coder is None else checkpoint,
            vectors=vectors,
            settings=settings or {},
            segments=[SegmentEntry(name=name, passages=count, tokens=tokens)],
            passages=count,
            corpus_hash=digest.hex,
        )
        _write_lexical(making, manifest)
        manifest.write(making)
    return _report(out, manifest, count)


def add_passages(
    folder: Path | str, corpus: Iterable[Passage], *, progress: Progress | None = None
) -> IndexReport:
    """Append passages as a new segment. Raises ``CorpusError`` for an id that is there already."""
    folder = Path(folder)
    with changing(folder) as manifest:
        index = OpenIndex(folder, manifest)
        taken = (p.id for p in index.passages())
        coder = index.encoder if manifest.encoder else None
        name = f"{manifest.serial + 1:06d}"
        with _making(folder / "segments" / name) as making:
            making.rmdir()
            count, tokens, digest = write_segment(
                making, unique(corpus, taken), coder, index.codec, progress=progress
            )
            if not count:
                raise CorpusError("nothing to add: the corpus is empty")
        manifest.segments.append(SegmentEntry(name=name, passages=count, tokens=tokens))
        total = CorpusHash(manifest.corpus_hash)
        total._sum = (total._sum + digest._sum) % (1 << 256)
        _commit(folder, manifest, total)
    return _report(folder, manifest, count)


def delete_passages(folder: Path | str, ids: Iterable[str]) -> IndexReport:
    """Take passages out by id. Raises ``CorpusError`` naming ids that aren't there."""
    folder = Path(folder)
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
                at = int(np.searchsorted(index.bases, number, side="right")) - 1
                manifest.segments[at].deleted.append(int(number - index.bases[at]))
        if wanted - found:
            raise CorpusError(f"no passage has the id {sorted(wanted - found)[:5]}")
        if len(found) == len(index.alive_numbers):
            raise CorpusError("that would leave the index empty: delete its folder instead")
        _commit(folder, manifest, total)
    return _report(folder, manifest, len(found))


def compact(folder: Path | str) -> IndexReport:
    """Write the live passages as one segment and drop the others' files."""
    folder = Path(folder)
    with changing(folder) as manifest:
        index = OpenIndex(folder, manifest)
        name = f"{manifest.serial + 1:06d}"
        with _making(folder / "segments" / name) as making:
            making.rmdir()
            _merge(index, making)
        tokens = int(sum(len_ for len_ in _token_counts(folder / "segments" / name)))
        manifest.segments = [
            SegmentEntry(name=name, passages=len(index.alive_numbers), tokens=tokens)
        ]
        _commit(folder, manifest, CorpusHash(manifest.corpus_hash))
    _sweep(folder)
    return _report(folder, manifest, 0)


def _token_counts(segment: Path) -> Any:
    windows = np.load(segment / "windows.npy")
    return windows[:, 1] - windows[:, 0] if len(windows) else np.zeros(0, np.int64)


def _merge(index: OpenIndex, folder: Path) -> None:
    """Copy live passages, their stored vectors and pooled vectors into one segment folder."""
    folder.mkdir(parents=True)
    offsets, spans, tokens = [0], [], 0
    place = np.cumsum(index.alive) - 1
    with (
        (folder / "passages.jsonl").open("wb") as texts,
        (folder / "vectors.bin").open("wb") as vectors,
        (folder / "pooled.bin").open("wb") as means,
    ):
        for number in index.alive_numbers:
            at = int(np.searchsorted(index.bases, number, side="right")) - 1
            segment, own = index.segments[at], int(number - index.bases[at])
            start, end = int(segment.offsets[own]), int(segment.offsets[own + 1])
            offsets.append(offsets[-1] + texts.write(segment._texts[start:end].tobytes()))
        for at, row, number in index.windows:
            segment = index.segments[int(at)]
            s, e, _ = segment.windows[int(row)]
            vectors.write(np.ascontiguousarray(segment._vectors[s:e]).tobytes())
            means.write(np.ascontiguousarray(segment.pooled[int(row)]).tobytes())
            spans.append((tokens, tokens + int(e - s), int(place[number])))
            tokens += int(e - s)
    np.save(folder / "offsets.npy", np.asarray(offsets, np.int64))
    np.save(folder / "windows.npy", np.asarray(spans, np.int64).reshape(-1, 3))


def _codec(
    name: str, coder: Encoder, passages: Iterable[Passage], folder: Path
) -> tuple[Codec, Iterable[Passage]]:
    """The codec of a new index; a quantiser is trained on the first passages."""
    if name == Float16.name:
        return Float16(coder.spec.dim), passages
    stream = iter(passages)
    head = list(itertools.islice(stream, PQ_TRAIN // 80))
    step = max(1, len(head) // 1500)
    sample = np.concatenate(coder.passages([content(p) for p in head[::step]]))
    codec = ProductQuantised.train(sample[:PQ_TRAIN].astype(np.float32))
    codec.save(folder)
    return codec, itertools.chain(head, stream)


def _write_lexical(folder: Path, manifest: Manifest) -> None:
    name = f"bm25-{manifest.serial:06d}"
    shutil.rmtree(folder / name, ignore_errors=True)
    index = OpenIndex(folder, manifest)
    build_lexical((content(p) for p in index.passages()), folder / name)
    manifest.lexical = name


def _commit(folder: Path, manifest: Manifest, total: CorpusHash) -> None:
    old = manifest.lexical
    manifest.serial += 1
    manifest.passages = sum(s.passages - len(s.deleted) for s in manifest.segments)
    manifest.corpus_hash = total.hex
    _write_lexical(folder, manifest)
    manifest.write(folder)
    if old and old != manifest.lexical:
        shutil.rmtree(folder / old, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove segment folders that the manifest doesn't name."""
    named = {s.name for s in Manifest.read(folder).segments}
    for segment in (folder / "segments").iterdir():
        if segment.name not in named:
            shutil.rmtree(segment, ignore_errors=True)


@contextmanager
def changing(folder: Path) -> Iterator[Manifest]:
    """One writer at a time (a lock file that the system frees when a process dies). What a crashed
    writer left is swept first."""
    import fcntl

    manifest = Manifest.read(folder)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise IndexFault(f"{folder} is being changed by another process: wait for it") from None
        manifest = Manifest.read(folder)
        _sweep(folder)
        with _full_disk(folder):
            yield manifest


@contextmanager
def _making(out: Path) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its place when the block ends well."""
    out.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.making-"))
    try:
        with _full_disk(out):
            yield making
            if out.exists():
                old = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.old-"))
                os.replace(out, old / out.name)
                os.replace(making, out)
                shutil.rmtree(old, ignore_errors=True)
            else:
                os.replace(making, out)
    finally:
        shutil.rmtree(making, ignore_errors=True)


@contextmanager
def _full_disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise IndexFault(
                f"the disk of {out} is full: free some space and run this again (what was there "
                "before is unchanged)"
            ) from fault
        raise


def _report(folder: Path, manifest: Manifest, changed: int) -> IndexReport:
    size = sum(
        f.stat().st_size
        for s in manifest.segments
        for f in (folder / "segments" / s.name).iterdir()
        if f.name in ("vectors.bin", "pooled.bin")
    )
    return IndexReport(
        folder=folder,
        engine=manifest.engine,
        passages=manifest.passages,
        changed=changed,
        bytes_per_passage=size / max(1, sum(s.passages for s in manifest.segments)),
        corpus_hash=manifest.corpus_hash,
    )
