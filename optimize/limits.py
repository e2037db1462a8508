"""Limits on what a compile may spend: a ledger that stops at them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from optimize.run import write_json
from programs import Account, Ledger

KEPT_EVERY = 1.0
"""Seconds between two writings of a kept ledger."""


class LimitReached(BaseException):
    """The call or cost limit is reached. A ``BaseException``: SIMBA and ``dspy.Evaluate`` swallow
    ``Exception`` and would score 0 and go on."""


class LimitedLedger(Ledger):
    """A ledger (``dspy.context(hopsmith_ledger=…)``) that every LM call is written to and that
    raises ``LimitReached`` once a limit is reached. Calls that a cache answered cost nothing and
    don't count against the limits. The call that reaches the limit is kept; calls under way at
    that moment may still end.

    ``kept_calls`` and ``kept_cost`` are a share of the limits that is kept back for later: while
    they are set, the limits are lower by them.

    With a ``path`` it goes on from what lies there, and is written there about once a second while
    it grows, and at the end of ``with ledger:``, so that limits and sums hold over several starts.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        path: Path | None = None,
    ) -> None:
        super().__init__(_kept(path))
        self.path = path
        self._written = 0.0
        self._keeping = threading.Lock()
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.kept_calls = 0
        self.kept_cost = 0.0

    @property
    def reached(self) -> str | None:
        """Which limit is reached, in words; None while there is room."""
        total = self.total
        asked = total.lm_calls - total.cached_calls
        if self.max_calls is not None and asked >= self.max_calls - self.kept_calls:
            return f"--max-calls {self.max_calls}"
        room = None if self.max_cost is None else self.max_cost - self.kept_cost
        if room is not None and (total.cost or 0.0) >= room:
            return f"--max-cost {self.max_cost}"
        return None

    def check(self) -> None:
        """Raise when a limit is reached."""
        reached = self.reached
        if reached is not None:
            raise LimitReached(reached)

    def enter(self, role: str, account: Account) -> None:
        super().enter(role, account)
        if time.monotonic() - self._written >= KEPT_EVERY:
            self.keep()

    def keep(self) -> None:
        """Write it to its path, if it has one."""
        if self.path is not None:
            with self._keeping:
                self._written = time.monotonic()
                write_json(self.path, self.to_json())

    def __enter__(self) -> LimitedLedger:
        return self

    def __exit__(self, *fault: Any) -> None:
        self.keep()


def _kept(path: Path | None) -> dict[str, Account]:
    if path is None or not path.is_file():
        return {}
    return {role: Account(**sums) for role, sums in json.loads(path.read_text()).items()}
