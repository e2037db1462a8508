"""IndexRetriever: the engines that search an index folder.

- ``exact``: MaxSim over all passages, the reference;
- ``two-stage``: candidates by BM25 and by pooled vectors, MaxSim over the candidates, fused with
  BM25's rank (reciprocal rank fusion): the default for all but small corpora;
- ``plaid``: colbert-ai's PLAID (``retrieval.plaid``), which an index has when it was built for it;
- ``dense``: pooled vectors; ``bm25``: words.

MaxSim is divided by the number of query tokens. ``two-stage`` orders by the fused rank and reports
the MaxSim score, since fused scores carry rank only and can't be compared between queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.contract import BaseRetriever
from retrieval.encoder import pooled
from retrieval.errors import IndexFault
from retrieval.lexical import best, tokenise
from retrieval.passage import Passage
from retrieval.threads import in_threads, one_thread
from retrieval.where import Condition, conditions_of

if TYPE_CHECKING:
    from retrieval.index import OpenIndex

ENGINES = ("exact", "two-stage", "plaid", "dense", "bm25")

DEFAULTS: dict[str, Any] = {
    "pool": 64,
    "lexical_share": 0.5,
    "fusion_constant": 10,
    "maxsim_weight": 1.0,
    "lexical_weight": 1.0,
    "pooled_weight": 0.0,
}
"""Candidates per query and the share of them that BM25 names (pooled vectors name the rest); the
fusion's constant and the weights of the three ranks: MaxSim's, BM25's, the pooled vectors'."""

WEIGHTS = ("maxsim_weight", "lexical_weight", "pooled_weight")


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that are None. Raises ``IndexFault`` for one that there isn't, or a
    value that can't be."""
    known = {name: value for name, value in settings.items() if value is not None}
    if unknown := set(known) - set(DEFAULTS):
        raise IndexFault(f"no setting {sorted(unknown)}; there are {', '.join(DEFAULTS)}")
    for name, value in known.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name == "pool" and not (number and isinstance(value, int) and value >= 1):
            raise IndexFault(f"pool must be a whole number from 1 on, got {value!r}")
        most = 1 if name == "lexical_share" else math.inf
        if not number or not 0 <= value <= most or value == math.inf:
            to = "0 to 1" if most == 1 else "0 on"
            raise IndexFault(f"{name} must be a number from {to}, got {value!r}")
    if not any({**DEFAULTS, **known}[name] for name in WEIGHTS):
        raise IndexFault(f"one of {', '.join(WEIGHTS)} must be above 0")
    return known


TIES = 50
"""Passages ranked beyond ``k``, so that ties at the cut are ordered by id too."""
SAME = 1e-6
"""Scores closer than this are equal: batched and single ones differ in the last bits."""


class IndexRetriever(BaseRetriever):
    """An opened index under one engine. Everything it reads is immutable, so it is thread-safe."""

    def __init__(self, index: OpenIndex, engine: str, settings: Mapping[str, Any]) -> None:
        self.index = index
        self.engine = engine
        self.settings = {**DEFAULTS, **settings} if engine == "two-stage" else {}

    def __reduce__(self) -> tuple[Any, ...]:
        index = self.index
        conditions = tuple(map(str, index.conditions))
        return (
            _reopen,
            (index.folder, self.engine, index.checkpoint, dict(self.settings), conditions),
        )

    def where(self, *conditions: str | Condition) -> IndexRetriever:
        return IndexRetriever(
            self.index.where(conditions_of(conditions)), self.engine, self.settings
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        manifest = self.index.manifest
        return {
            "engine": self.engine,
            "encoder": None if self.engine == "bm25" else manifest.encoder,
            "vectors": None if self.engine in ("bm25", "dense") else manifest.vectors,
            "settings": dict(self.settings),
        }

    @property
    def corpus_hash(self) -> str:
        return self.index.corpus_hash

    def __len__(self) -> int:
        return len(self.index.alive_numbers)

    def corpus(self) -> Iterator[Passage]:
        """Every passage, in the order in which they were added."""
        return self.index.passages()

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        if not len(self):
            return [[] for _ in queries]
        rank = {
            "exact": self._exact,
            "two-stage": self._two_stage,
            "plaid": self._plaid,
            "dense": self._dense,
            "bm25": self._bm25,
        }[self.engine]
        return [self._passages(numbers, scores, k) for numbers, scores in rank(queries, k, pool)]

    def _passages(self, numbers: Any, scores: Any, k: int) -> list[Passage]:
        found = [self.index.passage(int(n)) for n in numbers[:k]]
        return [
            p.ranked(rank, float(s))
            for rank, (p, s) in enumerate(zip(found, scores[:k], strict=True), 1)
        ]

    def _ordered(self, numbers: Any, scores: Any, n: int) -> tuple[Any, Any]:
        """The ``n`` best, equal scores (to rounding) by passage id."""
        keys = np.round(scores / SAME)
        take = best(keys, min(n, len(keys)))
        if n < len(keys):
            take = np.flatnonzero(keys >= keys[take[-1]])
        if _has_ties(keys[take]):
            ids = [self.index.passage(int(numbers[i])).id for i in take]
            take = take[sorted(range(len(take)), key=lambda j: (-keys[take[j]], ids[j]))]
        else:
            take = take[np.argsort(-keys[take], kind="stable")]
        return numbers[take[:n]], scores[take[:n]]

    def _bm25(self, queries: list[str], k: int, pool: int | None) -> list[tuple[Any, Any]]:
        out = []
        for tokens in tokenise(queries):
            top = partial(self.index.lexical.top, tokens)
            numbers, scores = self._ordered(*_untied(top, top(k + TIES), k), k)
            if len(numbers) < k:
                rest = self.index.by_id[~np.isin(self.index.by_id, numbers)][: k - len(numbers)]
                numbers = np.concatenate((numbers, rest))
                scores = np.concatenate((scores, np.zeros(len(rest), np.float32)))
            out.append((numbers, scores))
        return out

    def _dense(self, queries: list[str], k: int, pool: int | None) -> list[tuple[Any, Any]]:
        means = np.stack([pooled(q) for q in self.index.encoder.queries(queries)])
        out = []
        for mean, found in zip(means, self.index.nearest(means, k + TIES), strict=True):
            more = partial(self._nearest_one, mean)
            out.append(self._ordered(*_untied(more, found, k), k))
        return out

    def _nearest_one(self, mean: Any, n: int) -> tuple[Any, Any]:
        return self.index.nearest(mean[None], n)[0]

    def _exact(self, queries: list[str], k: int, pool: int | None) -> list[tuple[Any, Any]]:
        vectors = self.index.encoder.queries(queries)
        numbers = self.index.alive_numbers
        with one_thread if len(queries) == 1 and self.index.small else nullcontext():
            scores = self.index.maxsim_all(vectors)
        return [self._ordered(numbers, s, k) for s in scores]

    def _plaid(self, queries: list[str], k: int, pool: int | None) -> list[tuple[Any, Any]]:
        n = max(k, pool or 0)
        vectors = self.index.encoder.queries(queries)
        found = [self.index.plaid_scores(v, n) for v in vectors]
        return [self._ordered(numbers, scores, min(k, len(numbers))) for numbers, scores in found]

    def _two_stage(self, queries: list[str], k: int, pool: int | None) -> list[tuple[Any, Any]]:
        size = max(k, pool or self.settings["pool"])
        wordy = math.ceil(size * self.settings["lexical_share"])
        vectors = self.index.encoder.queries(queries)
        near = self.index.nearest(np.stack([pooled(v) for v in vectors]), size)
        lexical = [self.index.lexical.top(t, wordy)[0] for t in tokenise(queries)]

        def one(query: Any, close: Any, words: Any) -> tuple[Any, Any]:
            rest = close[~np.isin(close, words)][: size - len(words)]
            candidates = np.sort(np.concatenate((words, rest)))
            with one_thread:
                scores = self.index.maxsim(query, candidates)
            numbers, scores = self._ordered(candidates, scores, len(candidates))
            return self._fused(numbers, scores, words, close)

        return in_threads(one, vectors, [numbers for numbers, _ in near], lexical)

    def _fused(self, numbers: Any, scores: Any, words: Any, close: Any) -> tuple[Any, Any]:
        """Reciprocal rank fusion of MaxSim's order with BM25's and the pooled vectors'."""
        constant = self.settings["fusion_constant"]
        fused = self.settings["maxsim_weight"] / (constant + 1 + np.arange(len(numbers)))
        for name, ranked in (("lexical_weight", words), ("pooled_weight", close)):
            weight = self.settings[name]
            if weight and len(ranked):
                by_number = np.argsort(ranked)
                at = np.searchsorted(ranked, numbers, sorter=by_number).clip(max=len(ranked) - 1)
                rank = by_number[at]
                fused += np.where(ranked[rank] == numbers, weight / (constant + 1 + rank), 0.0)
        order = np.argsort(-fused, kind="stable")
        return numbers[order], scores[order]


def _untied(
    more: Callable[[int], tuple[Any, Any]], found: tuple[Any, Any], k: int
) -> tuple[Any, Any]:
    """``found`` (the ``k + TIES`` best), or ``more`` of them until the last score is below the one
    at ``k``: a cut among equal scores would be by number, not by id."""
    wanted = k + TIES
    while len(found[1]) >= wanted and found[1][k - 1] - found[1][-1] <= SAME:
        wanted *= 4
        found = more(wanted)
    return found


def _has_ties(keys: Any) -> bool:
    return len(np.unique(keys)) < len(keys)


def _reopen(
    folder: Path,
    engine: str,
    checkpoint: str | None,
    settings: Mapping[str, Any],
    conditions: Sequence[str],
) -> IndexRetriever:
    from retrieval.index import open_index

    opened = open_index(folder, engine=engine, checkpoint=checkpoint, **settings)
    return opened.where(*conditions) if conditions else opened
