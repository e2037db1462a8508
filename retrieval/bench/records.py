"""What is measured, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from retrieval.errors import QueryError

DEPTHS = (2, 5, 10, 20)
BATCH = 32
"""Queries in a batch, and in a round."""
REFERENCE = "colbert-ai"
"""colbert-ai's own ``Searcher``, over the PLAID index of the bench."""

ANY_INDEX = ("dense", "bm25")
"""Engines that read no token vectors: how those are kept is the same to them."""


@dataclass(frozen=True, slots=True)
class BenchQuestion:
    """A query and the ids of the passages that answer it."""

    query: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Contender:
    """What is measured: an engine over vectors kept in one way."""

    engine: str
    vectors: str = "float16"

    @property
    def name(self) -> str:
        """As ``--engines`` says it."""
        plain = self.vectors == "float16" or self.engine in ANY_INDEX
        return self.engine if plain else f"{self.engine}-{self.vectors}"

    @property
    def index(self) -> str:
        """Which of the bench's indexes it searches."""
        return "plaid" if self.engine in ("plaid", REFERENCE) else self.vectors


CONTENDERS = (
    Contender(REFERENCE),
    Contender("plaid"),
    Contender("exact"),
    Contender("two-stage"),
    Contender("two-stage", "pq"),
    Contender("dense"),
    Contender("bm25"),
)


def contenders(names: Iterable[str]) -> tuple[Contender, ...]:
    """Those of these names, in the bench's order, over as few indexes as they need. Raises
    ``QueryError`` for a name there isn't."""
    wanted = set(names)
    known = {c.name: c for c in (*CONTENDERS, Contender("exact", "pq"))}
    if unknown := wanted - set(known):
        raise QueryError(f"no engine {sorted(unknown)}; the bench has {', '.join(known)}")
    chosen = [c for name, c in known.items() if name in wanted]
    kept = {c.vectors for c in chosen if c.engine not in ANY_INDEX}
    if len(kept) == 1:
        chosen = [
            replace(c, vectors=v) if c.engine in ANY_INDEX else c for v in kept for c in chosen
        ]
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a piece of work took."""

    seconds: float
    cpu_seconds: float
    """Of the process and its threads: says more than the clock where others want the cores."""


@dataclass(frozen=True, slots=True)
class BuildRow:
    """One index, built once."""

    index: str
    """How its vectors are kept, or ``plaid``."""
    seconds: float
    cpu_seconds: float
    bytes_per_passage: float
    """Of token and pooled vectors; with ``plaid``, of PLAID's files instead of token vectors."""
    peak_mb: float
    ratio: float | None = None
    """Seconds to those of the bare encoding of the same passages by the same encoder."""
    cpu_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One engine over the questions."""

    engine: str
    questions: int
    """Fewer than all when the bench was stopped."""
    recall: Mapping[int, float]
    """Mean of |top k ∩ gold| / |gold| by k."""
    recall_5_margin: float
    """Half of recall@5's 95% interval (normal approximation over questions)."""
    all_support_5: float
    """Share of questions with all gold passages among the first five."""
    single_qps: float
    """Queries a second, one call a query, the query's encoding included; median over rounds."""
    batch_qps: float
    """The same in calls of 32."""
    p50_ms: float
    """Of one query by itself."""
    p95_ms: float
    differ: int
    """Questions whose order of ids differs between single and batched calls."""
    peak_mb: float
    """Resident, memory-mapped pages included."""
    single_speedup: float | None = None
    """Against the reference: the median over rounds of the ratio on the same questions, which the
    two were asked one after the other."""
    batch_speedup: float | None = None


@dataclass(frozen=True, slots=True)
class BenchReport:
    """One run of the bench."""

    passages: int
    questions: int
    encoding: Cost | None
    """Of the passages, and nothing else."""
    builds: list[BuildRow]
    searches: list[SearchRow]
    left_out: dict[str, str] = field(default_factory=dict)
    """Engines that could not run, and why."""
    machine: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values; depths become keys such as ``recall@5``."""
        out = asdict(self)
        for row in out["searches"]:
            row.update({f"recall@{k}": v for k, v in row.pop("recall").items()})
        return out
