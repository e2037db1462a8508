"""What a compile does, what it will take, and who is told of it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from optimize.budgets import Prefer, TrialRow
from optimize.errors import OptimizeError
from optimize.formula import Formula
from optimize.prompts import Candidate, Optimizer, PromptSettings
from optimize.thresholds import ThresholdSettings

STAGES = ("baseline", "budget", "prompts", "thresholds", "final")

SPARE = 1.2
"""A compiled pipeline may take this much more than the baseline did, in what is kept back."""


@dataclass(frozen=True)
class Recipe:
    """What a compile does."""

    trials: int = 12
    optimizer: Optimizer = "bootstrap"
    prefer: Prefer = "balanced"
    objective: str | None = None
    freeze: tuple[str, ...] = ()
    prompts: PromptSettings = field(default_factory=PromptSettings)
    thresholds: ThresholdSettings | None = None
    """None leaves decisions as plain yes or no."""
    seed: int = 0
    workers: int = 4
    max_calls: int | None = None
    max_cost: float | None = None
    storage: str | None = None
    """URL of the database that the budget study is kept in; a file in the folder otherwise."""
    register: str | None = None
    """Name in MLflow's model registry; its alias ``champion`` moves only to a pipeline whose F1 on
    test is better than its baseline's with an interval above zero."""
    traces: int = 0
    """Questions of the final table whose traces go to MLflow."""

    def check(self) -> None:
        """Raises ``OptimizeError`` for what could only fail later."""
        if self.objective:
            Formula(self.objective)
        if self.optimizer == "bootstrap" and not self.prompts.max_demos:
            raise OptimizeError(
                "bootstrap makes demonstrations and none may be kept: allow one (--demos 1), or "
                "tune no prompts (--prompts none)"
            )
        if self.register is not None and not re.fullmatch(r"[^/:]*[^/:\s][^/:]*", self.register):
            raise OptimizeError(
                f"a registered model can't be named {self.register!r}: MLflow takes names without "
                "/ and :"
            )

    def settings(self) -> dict[str, Any]:
        """What makes this another compile, by name: not how wide, how far and where to."""
        aside = ("workers", "max_calls", "max_cost", "storage", "register", "traces")
        return {name: value for name, value in asdict(self).items() if name not in aside}


@dataclass(frozen=True)
class Estimate:
    """What a compile will take at most, from the baseline's mean question."""

    questions: int
    """In all that is to come."""
    table: int
    """Of these, questions of the final table."""
    calls_each: float
    seconds_each: float
    cost_each: float | None
    proposals: int = 0
    """LM calls that write prompts, besides."""


class Narrator:
    """Told what happens; the command line's one prints it. Override what you want to hear."""

    def stage(self, name: str, about: str) -> None: ...

    def estimate(self, estimate: Estimate) -> None: ...

    def question(self, stage: str, done: int, total: int) -> None: ...

    def trial(self, row: TrialRow, of: int) -> None: ...

    def candidate(self, candidate: Candidate) -> None: ...

    def say(self, line: str) -> None: ...
