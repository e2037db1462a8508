"""HopBudget: how far a program may go for one question; Knob: what may be tuned of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from programs.errors import BudgetError

LIMITS: dict[str, tuple[int, int]] = {
    "passages": (1, 1000),
    "retrieve": (1, 10_000),
    "sub_queries": (1, 20),
    "hops": (0, 50),
    "depth": (0, 10),
    "expansions": (0, 200),
    "candidates": (1, 10),
    "context_passages": (1, 100_000),
    "context_tokens": (16, 1_000_000),
    "lm_calls": (1, 1_000),
}
HANDED_ON = ("passages", "retrieve", "lm_calls", "think")
"""What a part that is built with its method always has of the method's budget."""


@dataclass(frozen=True, slots=True)
class HopBudget:
    """Bounds for one question. A method reads those that it declares as knobs."""

    passages: int = 5
    """k: passages retrieved per query."""
    retrieve: int = 100
    """Candidates scored per query before the cut to ``passages``."""
    sub_queries: int = 5
    """Planner's breadth m."""
    hops: int = 5
    """Retrieval rounds after the first."""
    depth: int = 4
    """Deepest level of a query tree below its root."""
    expansions: int = 20
    """Splits in the whole tree."""
    candidates: int = 1
    """Answers carried from a hop to the next."""
    context_passages: int = 15
    """Passages shown to the LM in one call."""
    context_tokens: int = 2400
    """Tokens (estimated) of passages shown in one call."""
    lm_calls: int = 40
    """Hard cap of logical LM calls per question; one is kept for the final answer."""
    think: tuple[str, ...] = ()
    """Roles that are asked with ChainOfThought; all others are asked with Predict."""

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise BudgetError(
                    f"budget: {name} must be a whole number from {low} to {high}, got {value!r}"
                )
        think = (self.think,) if isinstance(self.think, str) else tuple(self.think)
        object.__setattr__(self, "think", tuple(sorted(set(think))))

    @classmethod
    def parse(cls, text: str, base: HopBudget | None = None) -> HopBudget:
        """Read ``passages=5,hops=3,think=planner+resolver``; what isn't named stays as in ``base``.

        Raises ``BudgetError`` naming the fields there are.
        """
        changes: dict[str, Any] = {}
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, eq, value = (s.strip() for s in item.partition("="))
            if not eq or name not in {f.name for f in fields(cls)}:
                names = ", ".join(f.name for f in fields(cls))
                raise BudgetError(f"budget: {item!r} is not NAME=VALUE with NAME one of {names}")
            if name == "think":
                changes[name] = tuple(filter(None, value.split("+")))
                continue
            try:
                changes[name] = int(value)
            except ValueError:
                raise BudgetError(f"budget: {name} takes a whole number, got {value!r}") from None
        return replace(base or cls(), **changes)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> HopBudget:
        """The inverse of ``to_json``; raises ``BudgetError`` on an unknown field."""
        unknown = set(state) - {f.name for f in fields(cls)}
        if unknown:
            raise BudgetError(f"budget: unknown fields {sorted(unknown)}; a newer export?")
        return cls(**{**state, "think": tuple(state.get("think", ()))})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "think": list(self.think)}

    def handed_on(self, part: HopBudget, own: HopBudget) -> HopBudget:
        """The budget of a part that is built with its method: bounds of each search and of all
        calls are these; how far the part goes is its own, unless it is set here otherwise than in
        ``own``, the method's default."""
        given = {name: getattr(self, name) for name in HANDED_ON}
        return replace(part, **{**self.changes(own), **given})

    def changes(self, other: HopBudget) -> dict[str, Any]:
        """The bounds that differ from another budget's."""
        return {n: getattr(self, n) for n in LIMITS if getattr(self, n) != getattr(other, n)}

    def capped(self, caps: Mapping[str, int]) -> HopBudget:
        """With each named bound lowered to its cap; a cap above the bound changes nothing."""
        for name in caps:
            if name not in LIMITS:
                raise BudgetError(f"budget: no bound {name!r}; there are {', '.join(LIMITS)}")
        return replace(self, **{n: min(getattr(self, n), cap) for n, cap in caps.items()})


@dataclass(frozen=True, slots=True)
class Knob:
    """One tunable bound of a method's budget, with the values that a search may try."""

    name: str
    """A field of HopBudget, or ``think.ROLE``: whether that role is asked to reason first."""
    values: tuple[Any, ...]
    """In rising order of cost."""

    def apply(self, budget: HopBudget, value: Any) -> HopBudget:
        """``budget`` with this knob set."""
        if self.name.startswith("think."):
            role = self.name.removeprefix("think.")
            think = set(budget.think) - {role}
            return replace(budget, think=tuple(think | ({role} if value else set())))
        return replace(budget, **{self.name: value})

    def read(self, budget: HopBudget) -> Any:
        """This knob's value in ``budget``."""
        if self.name.startswith("think."):
            return self.name.removeprefix("think.") in budget.think
        return getattr(budget, self.name)


def think(*roles: str) -> tuple[Knob, ...]:
    """The Predict-or-ChainOfThought knobs of these roles."""
    return tuple(Knob(f"think.{role}", (False, True)) for role in roles)


def apply_all(budget: HopBudget, knobs: Iterable[Knob], values: Mapping[str, Any]) -> HopBudget:
    """``budget`` with each knob that ``values`` names set."""
    for knob in knobs:
        if knob.name in values:
            budget = knob.apply(budget, values[knob.name])
    return budget
