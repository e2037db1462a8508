"""An opened index folder, and the arithmetic over its memory-mapped vectors.

Layout: ``manifest.json`` · ``segments/NAME/…`` (``retrieval.segment``) · ``bm25-N/`` ·
``quantiser.npy`` where vectors are quantised. Everything but the manifest is written once under a
new name; replacing the manifest is what makes a change happen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.checkpoint import checkpoint_of
from retrieval.codec import Codec, open_codec
from retrieval.corpus import CorpusHash
from retrieval.embedding import Embedder, embedder_of, is_embedder
from retrieval.encoder import Encoder, encoder_of
from retrieval.engines import ENGINES, IndexRetriever, checked
from retrieval.errors import IndexFault, QueryError
from retrieval.lexical import Lexical, best
from retrieval.manifest import Manifest
from retrieval.passage import Passage
from retrieval.plaid import Plaid
from retrieval.segment import Segment
from retrieval.where import Condition, columns_of

TOKENS_AT_ONCE = 1 << 10
"""Passage tokens decoded at once: at 384 dimensions 1.5 MB, which stay in a core's cache until they
are multiplied. For one query that is two to three times as fast as 200 MB at once, for 32 queries
1.3 times."""
QUERY_TOKENS_AT_ONCE = 512
KEPT_BYTES = 256 << 20
"""Decoded vectors are kept in memory up to this size of all of them, as float32."""
POOLED_IN_MEMORY = 250_000
"""Windows up to which pooled vectors are held as float32; beyond, they are read from the map."""
POOLED_AT_ONCE = 1 << 16
OF_THE_LIVE = ("by_id", "windows", "_first_window", "_pooled", "lexical")
"""What an opened index keeps of its live passages."""


class OpenIndex:
    """An index's files, memory-mapped; a snapshot of the manifest it was opened with.

    Passages are numbered through the segments; ``alive_numbers`` are those not deleted.
    """

    def __init__(self, folder: Path, manifest: Manifest, checkpoint: str | None = None) -> None:
        self.folder = folder
        self.manifest = manifest
        self.checkpoint = checkpoint
        dim = int((manifest.encoder or {}).get("dim", 1))
        self.codec: Codec | None = (
            open_codec(manifest.vectors, folder, dim) if manifest.encoder else None
        )
        tokens = sum(entry.tokens for entry in manifest.segments)
        self.small = tokens * dim * 4 <= KEPT_BYTES
        self.segments = [
            Segment(folder / "segments" / entry.name, self.codec, dim, self.small)
            for entry in manifest.segments
        ]
        self.bases = np.cumsum([0, *(len(s) for s in self.segments)])
        self.alive = np.ones(int(self.bases[-1]), bool)
        for base, entry in zip(self.bases, manifest.segments, strict=False):
            self.alive[np.asarray(entry.deleted, np.int64) + base] = False
        self.alive_numbers = np.flatnonzero(self.alive)
        self.corpus_hash = manifest.corpus_hash
        self.conditions: tuple[Condition, ...] = ()

    def where(self, conditions: Sequence[Condition]) -> OpenIndex:
        """The same snapshot with only those passages alive that meet all conditions. Reads every
        passage once. Raises ``QueryError`` for a column that none has."""
        digest, kept, columns = CorpusHash(), [], set[str]()
        for number in self.alive_numbers:
            passage = self.passage(int(number))
            there = columns_of(passage)
            columns.update(there)
            if all(c.holds(there) for c in conditions):
                kept.append(int(number))
                digest.add(passage)
        for condition in conditions:
            if columns and condition.column not in columns:
                raise QueryError(
                    f"no passage has the column {condition.column!r}; there are "
                    f"{', '.join(sorted(columns))}"
                )
        narrow = copy.copy(self)
        for name in OF_THE_LIVE:
            narrow.__dict__.pop(name, None)
        narrow.alive = np.zeros_like(self.alive)
        narrow.alive[kept] = True
        narrow.alive_numbers = np.flatnonzero(narrow.alive)
        narrow.corpus_hash = digest.hex
        narrow.conditions = (*self.conditions, *conditions)
        if "lexical" in self.__dict__:
            narrow.__dict__["lexical"] = self.lexical.only(narrow.alive)
        return narrow

    @cached_property
    def encoder(self) -> Encoder | Embedder:
        """The checkpoint or embedder that the index was encoded with. Raises ``IndexFault`` when it
        isn't here or has other weights."""
        manifest = self.manifest
        if manifest.encoder is None:
            raise IndexFault("the index has no vectors: index the corpus with another --engine")
        if is_embedder(manifest.encoder):
            return embedder_of(manifest.encoder)
        return encoder_of(checkpoint_of(manifest.encoder, manifest.checkpoint, self.checkpoint))

    @cached_property
    def lexical(self) -> Lexical:
        if self.manifest.lexical is None:
            raise IndexFault("the index has no BM25 part: index the corpus again")
        return Lexical(self.folder / self.manifest.lexical, self.alive_numbers)

    def at(self, number: int) -> tuple[int, int]:
        """A passage's segment and its place there."""
        segment = int(np.searchsorted(self.bases, number, side="right")) - 1
        return segment, int(number - self.bases[segment])

    def passage(self, number: int) -> Passage:
        segment, place = self.at(number)
        return self.segments[segment].passage(place)

    def passages(self) -> Iterator[Passage]:
        """The live passages, in the order in which they were added."""
        return (self.passage(int(n)) for n in self.alive_numbers)

    @cached_property
    def by_id(self) -> Any:
        """The live numbers in the order of their ids."""
        ids = [p.id for p in self.passages()]
        return self.alive_numbers[sorted(range(len(ids)), key=ids.__getitem__)]

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
        every = np.concatenate(rows)
        return every[self.alive[every[:, 2]]]

    @cached_property
    def _first_window(self) -> Any:
        """For each passage number, and one beyond, where its rows in ``windows`` begin."""
        return np.searchsorted(self.windows[:, 2], np.arange(len(self.alive) + 1))

    @cached_property
    def _pooled(self) -> Any:
        return self._pooled_rows(0, len(self.windows))

    def _pooled_rows(self, start: int, end: int) -> Any:
        """Pooled vectors of the windows ``start`` to ``end``, float32."""
        rows = self.windows[start:end]
        out = []
        for segment in np.unique(rows[:, 0]):
            places = rows[rows[:, 0] == segment, 1]
            out.append(self.segments[int(segment)].pooled[places].astype(np.float32))
        return np.concatenate(out) if len(out) != 1 else out[0]

    def _pooled_scores(self, means: Any) -> Any:
        count = len(self.windows)
        if count <= POOLED_IN_MEMORY:
            return means @ self._pooled.T
        starts = range(0, count, POOLED_AT_ONCE)
        return np.concatenate(
            [means @ self._pooled_rows(s, min(s + POOLED_AT_ONCE, count)).T for s in starts], axis=1
        )

    def nearest(self, means: Any, n: int) -> list[tuple[Any, Any]]:
        """For each pooled query the ``n`` nearest passages: numbers and scores, best first. A
        passage of several windows has its best one's score."""
        owners = self.windows[:, 2]
        n = min(n, len(self.alive_numbers))
        out = []
        for start in range(0, len(means), 32):
            for scores in self._pooled_scores(means[start : start + 32]):
                wanted = n
                while True:
                    places = best(scores, wanted)
                    _, first = np.unique(owners[places], return_index=True)
                    if len(first) >= n:
                        break
                    wanted *= 4
                places = places[np.sort(first)[:n]]
                out.append((owners[places], scores[places]))
        return out

    def maxsim(self, query: Any, numbers: Any) -> Any:
        """MaxSim over query tokens of some passages, each by its best window; shape (len,)."""
        if not len(numbers):
            return np.zeros(0, np.float32)
        spans = [np.arange(self._first_window[n], self._first_window[n + 1]) for n in numbers]
        owner = np.repeat(np.arange(len(numbers)), [len(s) for s in spans])
        scores = self._window_scores([query], self.windows[np.concatenate(spans)])[0]
        out = np.full(len(numbers), -np.inf, np.float32)
        np.maximum.at(out, owner, scores)
        return out

    @cached_property
    def plaid(self) -> list[Plaid | None]:
        """The segments' PLAID indexes, loaded; None where a segment is too small for one."""
        if self.manifest.engine != "plaid":
            raise IndexFault("the index has no PLAID part: index the corpus with --engine plaid")
        return [s.plaid() for s in self.segments]

    def plaid_scores(self, query: Any, n: int) -> tuple[Any, Any]:
        """Numbers and MaxSim of what PLAID finds for one query, in no order: at least ``n``
        passages, or all. Segments without PLAID are scored exactly."""
        numbers: list[Any] = []
        scores: list[Any] = []
        for place, (segment, plaid) in enumerate(zip(self.segments, self.plaid, strict=True)):
            base = int(self.bases[place])
            owners = segment.windows[:, 2] + base
            alive = self.alive[owners]
            if plaid is None:
                rows = self.windows[self.windows[:, 0] == place]
                owned, found = rows[:, 2], self._window_scores([query], rows)[0]
            else:
                wanted = min(n, int(self.alive[base : base + len(segment)].sum()))
                enough = partial(_passages_of, owners, wanted)
                windows, found = plaid.search(query, n, enough, alive)
                owned = owners[windows]
            passages, owner = np.unique(owned, return_inverse=True)
            best_window = np.full(len(passages), -np.inf, np.float32)
            np.maximum.at(best_window, owner, found)
            numbers.append(passages)
            scores.append(best_window)
        return np.concatenate(numbers), np.concatenate(scores)

    def maxsim_all(self, queries: Sequence[Any]) -> list[Any]:
        """MaxSim of all live passages for each query; each of shape (live passages,)."""
        place = np.cumsum(self.alive) - 1
        owners = place[self.windows[:, 2]]
        out = np.full((len(queries), len(self.alive_numbers)), -np.inf, np.float32)
        for i, scores in enumerate(self._window_scores(queries, self.windows)):
            np.maximum.at(out[i], owners, scores)
        return list(out)

    def _window_scores(self, queries: Sequence[Any], rows: Any) -> list[Any]:
        """Score of each window row for each query: the sum over query tokens of the best token,
        divided by the number of query tokens."""
        out = [np.empty(len(rows), np.float32) for _ in queries]
        groups = [
            (first, last, np.concatenate(queries[first:last]))
            for first, last in _groups([len(q) for q in queries], QUERY_TOKENS_AT_ONCE)
        ]
        for segment in np.unique(rows[:, 0]):
            mine = np.flatnonzero(rows[:, 0] == segment)
            spans = self.segments[int(segment)].windows[rows[mine, 1]]
            for start, end in _groups(spans[:, 1] - spans[:, 0], TOKENS_AT_ONCE):
                places = mine[start:end]
                for first, last, tokens in groups:
                    found, starts = self.segments[int(segment)].products(tokens, rows[places, 1])
                    tops = np.maximum.reduceat(found, starts, axis=1)
                    at = 0
                    for i in range(first, last):
                        own = tops[at : at + len(queries[i])]
                        out[i][places] = own.sum(0) / len(own)
                        at += len(own)
        return out


def _passages_of(owners: Any, wanted: int, places: Any) -> bool:
    """Whether windows are of as many passages as are wanted."""
    return len(np.unique(owners[places])) >= wanted


def _groups(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours whose sizes sum to at most ``most`` (a larger one stands alone)."""
    start, total = 0, 0
    for i, size in enumerate(sizes):
        if i > start and total + size > most:
            yield start, i
            start, total = i, 0
        total += size
    if len(sizes):
        yield start, len(sizes)


def open_index(
    folder: Path | str,
    *,
    engine: str | None = None,
    checkpoint: str | None = None,
    **settings: Any,
) -> IndexRetriever:
    """Open an index under the engine it was built for, or another that it has the parts for.

    ``checkpoint`` says where the one that encoded it lies now (a folder or hub name), when it isn't
    found by itself. ``settings`` are those of ``retrieval.engines.DEFAULTS``. Raises ``IndexFault``
    naming the mend: no index there, another format, no vectors, another checkpoint.
    """
    folder = Path(folder)
    settings = checked(settings)
    serial = 0
    while True:
        manifest = Manifest.read(folder)
        try:
            return _opened(folder.resolve(), manifest, engine, checkpoint, settings)
        except FileNotFoundError as fault:
            if manifest.serial != serial:
                serial = manifest.serial
                continue
            raise IndexFault(
                f"the index lacks {Path(str(fault.filename)).name}: index the corpus again"
            ) from fault


def _opened(
    folder: Path,
    manifest: Manifest,
    engine: str | None,
    checkpoint: str | None,
    settings: dict[str, Any],
) -> IndexRetriever:
    """Maps every file that the engine reads, so that a later change can't take one away."""
    engine = engine or manifest.engine
    if engine not in ENGINES:
        raise IndexFault(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if engine != "bm25" and manifest.encoder is None:
        raise IndexFault(
            f"the index has no vectors, which {engine} needs: index with --engine {engine}"
        )
    index = OpenIndex(folder, manifest, checkpoint)
    retriever = IndexRetriever(index, engine, checked({**manifest.settings, **settings}))
    if engine != "bm25":
        _ = index.encoder
    if engine in ("bm25", "two-stage"):
        _ = index.lexical
    if engine == "plaid":
        _ = index.plaid
    return retriever
