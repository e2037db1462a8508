"""Evidence: the append-only record of what was asked and found for one question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from programs.answers import stated
from retrieval import Passage

Status = Literal[
    "resolved", "unresolved", "repaired", "not_decomposable", "skipped", "error", "graph"
]
StopReason = Literal[
    "answered",
    "sufficient",
    "budget",
    "repeated_query",
    "no_new_passages",
    "unanswerable",
    "error",
]
STOP_REASONS: tuple[StopReason, ...] = (
    "answered",
    "sufficient",
    "budget",
    "repeated_query",
    "no_new_passages",
    "unanswerable",
    "error",
)


HOPS = "hops"
"""A cap of retrieval rounds."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One retrieval step (or one node of a query tree that needed none)."""

    id: int
    parent: int | None
    """Id of the hop whose result led to this one; None at a root."""
    depth: int
    role: str
    """Which role asked for it: planner, resolver, controller, …"""
    query: str
    """As asked, before answers of earlier hops went in."""
    refined: str
    """As searched."""
    passages: tuple[Passage, ...] = ()
    """Best first; empty when nothing was retrieved."""
    answer: str | None = None
    candidates: tuple[str, ...] = ()
    """Other answers that the passages support, where more than one is carried."""
    status: Status = "unresolved"
    error: str | None = None
    """A step's failure that its fallback covered."""
    source: str = "search"
    """Where the passages or the answer came from: ``search`` or ``graph``."""
    note: str = ""
    """Why the hop ended as it did: why it split, what was repaired."""


class Evidence:
    """Hops in the order in which they were taken, and the pool of passages that they found.

    Written by the question's own thread only; hops are replaced by ``update`` when their answer
    comes in after their retrieval, never removed.
    """

    def __init__(
        self, hops: Iterable[Hop] = (), listener: Callable[[Hop], None] | None = None
    ) -> None:
        """``listener`` is told of each hop when it is added, and again when it is filled in."""
        self._hops: list[Hop] = list(hops)
        self._listener = listener

    def add(
        self,
        *,
        role: str,
        query: str,
        refined: str | None = None,
        passages: Sequence[Passage] = (),
        parent: int | None = None,
        **fields: Any,
    ) -> Hop:
        """Append a hop; its id is its place, its depth one more than its parent's."""
        depth = fields.pop("depth", 0 if parent is None else self._hops[parent].depth + 1)
        hop = Hop(
            id=len(self._hops),
            parent=parent,
            depth=depth,
            role=role,
            query=query,
            refined=query if refined is None else refined,
            passages=tuple(passages),
            **fields,
        )
        self._hops.append(hop)
        self._tell(hop)
        return hop

    def update(self, hop: Hop | int, **fields: Any) -> Hop:
        """Fill in what was not known when the hop was added."""
        place = hop if isinstance(hop, int) else hop.id
        self._hops[place] = replace(self._hops[place], **fields)
        self._tell(self._hops[place])
        return self._hops[place]

    def extend(self, other: Evidence, parent: int | None = None) -> None:
        """Append another evidence's hops below ``parent``, renumbered."""
        base = len(self._hops)
        depth = 0 if parent is None else self._hops[parent].depth + 1
        for hop in other.hops:
            self._hops.append(
                replace(
                    hop,
                    id=hop.id + base,
                    parent=parent if hop.parent is None else hop.parent + base,
                    depth=hop.depth + depth,
                )
            )
            self._tell(self._hops[-1])

    def _tell(self, hop: Hop) -> None:
        if self._listener is not None:
            self._listener(hop)

    @property
    def hops(self) -> tuple[Hop, ...]:
        return tuple(self._hops)

    @property
    def queries(self) -> tuple[str, ...]:
        """As searched, in order; hops that retrieved nothing by search are left out."""
        return tuple(h.refined for h in self._hops if h.passages and h.source == "search")

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The pool without duplicates, in the order in which passages were first seen."""
        first: dict[str, Passage] = {}
        for hop in self._hops:
            for passage in hop.passages:
                first.setdefault(passage.id, passage)
        return tuple(first.values())

    def ranked(self) -> tuple[Passage, ...]:
        """The pool by best rank within any query, then score, then first seen (Hi-Q's pooled
        ranking). Ranking metrics look at this order."""
        best: dict[str, tuple[int, float, int, Passage]] = {}
        seen = 0
        for hop in self._hops:
            for place, passage in enumerate(hop.passages, 1):
                rank = passage.rank or place
                known = best.get(passage.id)
                if known is None:
                    best[passage.id] = (rank, -passage.score, seen, passage)
                    seen += 1
                elif (rank, -passage.score) < known[:2]:
                    best[passage.id] = (rank, -passage.score, known[2], passage)
        return tuple(entry[3] for entry in sorted(best.values(), key=lambda e: e[:3]))

    def asked(self, query: str) -> bool:
        """Whether an equal query (case, spaces and end marks aside) was searched before."""
        wanted = normal_query(query)
        return any(normal_query(h.refined) == wanted for h in self._hops)

    def new_passages(self, passages: Iterable[Passage]) -> list[Passage]:
        """Those that the pool doesn't hold yet."""
        held = {p.id for p in self.passages}
        return [p for p in passages if p.id not in held]

    def facts(self) -> list[str]:
        """Resolved hops as "sub-question → answer" lines, candidates joined by " or "."""
        lines = []
        for hop in self._hops:
            if hop.answer is not None:
                answers = " or ".join(dict.fromkeys((hop.answer, *hop.candidates)))
                lines.append(f"{hop.refined} → {answers}")
        return lines

    def best_answer(self) -> str | None:
        """The latest answer of any hop: what is left when no LM call is."""
        return next((h.answer for h in reversed(self._hops) if h.answer is not None), None)

    @property
    def errors(self) -> int:
        """Hops in which a step failed and its fallback was taken."""
        return sum(h.error is not None for h in self._hops)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a program ended: its answer and why it stopped there."""

    answer: str | None
    stop_reason: StopReason = "answered"
    error: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    cap: str = ""
    """The bound that came before an end of the method's own, as ``hops=4``; with the stop reason
    ``budget`` the program's ``hops``, if it isn't said."""


def ended(answer: str | None, stop: StopReason, error: str | None, cap: str = "") -> Conclusion:
    """The writer's last word: an empty answer is an abstention, or an error where it failed. That
    a cap came before it is kept."""
    if stated(answer):
        return Conclusion(answer, stop, cap=cap)
    cap = cap or (HOPS if stop == "budget" else "")
    return Conclusion(None, "error" if error else "unanswerable", error, cap=cap)


def normal_query(query: str) -> str:
    """Case folded, white space joined, closing punctuation dropped: for comparing queries."""
    return " ".join(query.casefold().split()).rstrip(" ?.!,;:")
