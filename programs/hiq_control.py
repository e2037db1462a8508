"""Hi-Q's control policy: when a node is split, how, and whether the split is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from programs.arguments import is_number
from programs.errors import ProgramError
from programs.trigger import cost_threshold

Trigger = Literal["unresolved", "always", "threshold"]
Decomposition = Literal["binary", "static", "independent"]


@dataclass(frozen=True)
class Control:
    """The control policy; the paper's ablations are its other settings."""

    trigger: Trigger = "unresolved"
    """``unresolved``: split where the reader answers null. ``always``: split first, read only what
    can't be split. ``threshold``: split where P(unresolved), as the reader states it, exceeds the
    threshold."""
    decomposition: Decomposition = "binary"
    """``binary``: two needs at a time, recursively. ``static``: all sub-questions at once, in
    their order. ``independent``: static, and each asked as written, without the others' answers.
    """
    verify: bool = True
    """Whether a split must recover its parent, with one repair."""
    threshold: float | None = None
    """Of ``trigger="threshold"``; None takes ``expand_cost / fail_cost``."""
    expand_cost: float = 1.0
    fail_cost: float = 4.0

    def __post_init__(self) -> None:
        if self.trigger not in get_args(Trigger):
            raise ProgramError(f"trigger is one of {get_args(Trigger)}, got {self.trigger!r}")
        if self.decomposition not in get_args(Decomposition):
            raise ProgramError(
                f"decomposition is one of {get_args(Decomposition)}, got {self.decomposition!r}"
            )
        if not isinstance(self.verify, bool):
            raise ProgramError(f"verify is true or false, got {self.verify!r}")
        for name in ("threshold", "expand_cost", "fail_cost"):
            value = getattr(self, name)
            if not is_number(value) and (name, value) != ("threshold", None):
                raise ProgramError(f"{name} is a number, got {value!r}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ProgramError(f"threshold is a probability from 0 to 1, got {self.threshold}")
        cost_threshold(self.expand_cost, self.fail_cost)

    @property
    def bar(self) -> float:
        """P(unresolved) above which a node is split."""
        if self.threshold is not None:
            return self.threshold
        return cost_threshold(self.expand_cost, self.fail_cost)
