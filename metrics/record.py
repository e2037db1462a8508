"""Record: everything that a metric may look at, as plain values. Metrics know no program, no
retriever and no data set; whoever evaluates fills this record in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GoldStep:
    """One gold hop."""

    passage: str | None
    question: str | None = None
    answer: str | None = None
    sentences: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One hop that a program took."""

    query: str
    passages: tuple[str, ...] = ()
    """Ids retrieved at this hop, best first."""
    answer: str | None = None
    role: str = ""
    status: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What one question cost, or one role of it."""

    lm_calls: int = 0
    """Logical LM calls: retries and fallbacks included, cached or not."""
    cached_calls: int = 0
    prompt_tokens: int = 0
    """As if nothing had been cached by us."""
    cached_prompt_tokens: int = 0
    """Of these, tokens of calls that our cache answered."""
    completion_tokens: int = 0
    cached_completion_tokens: int = 0
    cost: float | None = None
    """Money spent, in dollars; None when no price is known."""
    saved: float | None = None
    """Money that our cache saved."""
    parse_failures: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """One question, its gold, and what a program made of it."""

    id: str
    question: str
    answer: str | None
    """The prediction; None when the program abstained or failed."""
    answers: tuple[str, ...] = ()
    """Gold, aliases included."""
    answerable: bool = True
    kind: str = ""
    supporting: tuple[str, ...] = ()
    gold: tuple[GoldStep, ...] = ()
    ordered: bool = False
    """Whether ``gold`` is a chain with sub-questions and answers; metrics of order are N/A else."""
    ranked: tuple[str, ...] = ()
    """Ids of all passages seen, in the evidence's pooled ranking."""
    steps: tuple[Step, ...] = ()
    stop_reason: str = ""
    at_cap: bool = False
    """Whether a bound of the budget came before an answer or an open end."""
    cap: str = ""
    """Which bound (``hops=4``, ``lm_calls=40``, ``deadline``); empty where the run doesn't say."""
    fallbacks: int = 0
    """Hops in which a step failed and its fallback was taken."""
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    usage_by_role: Mapping[str, Usage] = field(default_factory=dict)
    retrievals: int = 0
    """Queries searched."""
    passages_read: int = 0
    """Distinct passages retrieved."""
    seconds: float = 0.0
    answer_rule: str = "squad"
    cited: tuple[str, ...] = ()
    """Ids that the answer cites, where the program says so."""
    cited_sentences: tuple[tuple[str, int], ...] | None = None
    """(passage id, 0-based sentence) that the answer rests on; None where the program names no
    sentences."""
    judged: bool | None = None
    """Whether an LM judge called the answer right; None when none was asked."""
