"""What a question carries with it: its meter, deadline, cancel flag and ledger.

The outermost ``forward`` opens a scope in ``dspy.context``; nested programs, tools and the oracle
find it there (plain ContextVars don't reach the workers of ``dspy.Parallel``, keys of
``dspy.context`` do).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import dspy

from programs.errors import Cancelled, OutOfBudget
from programs.ledger import Ledger

SCOPE = "hopsmith_scope"
"""Key in ``dspy.settings``. ``benchmarks.oracle`` reads it by this name."""
WINDOW = "hopsmith_window"
"""Key in ``dspy.settings``: a function from an LM to the tokens of its window, None if unknown."""


class Meter:
    """Counts one question's logical LM calls and keeps the last one for the final answer.

    Thread-safe; shared by reference between a question's threads. Retries and fallbacks count,
    cached calls too.
    """

    def __init__(
        self,
        lm_calls: int,
        deadline: float | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.cap = lm_calls
        self.deadline = deadline
        """``time.monotonic()`` after which no further call starts; None for none."""
        self.cancelled = cancelled if cancelled is not None else threading.Event()
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self._used

    @property
    def left(self) -> int:
        """Calls left for steps other than the final answer."""
        return max(0, self.cap - 1 - self._used)

    @property
    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def bound(self, name: str) -> str:
        """A bound that ``spend`` has named, with its value where it is one of the budget's."""
        return f"{name}={self.cap}" if name == "lm_calls" else name

    def spend(self, *, final: bool = False) -> None:
        """Take one call. Raises ``OutOfBudget`` when none is left (``final`` may take the reserve)
        or the deadline has passed, ``Cancelled`` when the asker has hung up."""
        if self.cancelled.is_set():
            raise Cancelled
        with self._lock:
            if self.expired:
                raise OutOfBudget("deadline")
            if self._used >= (self.cap if final else self.cap - 1):
                raise OutOfBudget("lm_calls")
            self._used += 1


Listener = Callable[[str, Mapping[str, Any]], None]
"""Told an event's name and values: ``started`` (``ledger``), ``asking`` (``role``, before each LM
call), ``hop`` (``program``, ``hop``)."""


@dataclass
class Scope:
    """One question under way."""

    question: str
    meter: Meter
    ledger: Ledger = field(default_factory=Ledger)
    listener: Listener | None = None
    """Told of what happens, as it happens; for streaming. Called from the question's threads."""
    final: bool = False
    """Set while the final answer is asked for, which may take the meter's reserve."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Role and problem of each step whose fallback was taken."""
    programs: Iterator[int] = field(default_factory=itertools.count)
    """Numbers the programs of the question, the outermost first."""

    def tell(self, event: str, **values: Any) -> None:
        """Tell the listener, if there is one."""
        if self.listener is not None:
            self.listener(event, values)

    def hop_listener(self) -> Callable[[Any], None] | None:
        """What tells the hops of one program: ids of hops count within a program. A nested
        program's hops are told when they happen, and again when an outer one takes them over."""
        if self.listener is None:
            return None
        number = next(self.programs)
        return lambda hop: self.tell("hop", program=number, hop=hop)


def current() -> Scope | None:
    """The scope of the question under way, if there is one."""
    scope = dspy.settings.get(SCOPE)
    return scope if isinstance(scope, Scope) else None


def entering(scope: Scope, **more: Any) -> AbstractContextManager[None]:
    """``with entering(scope): …`` makes it the current one, here and in workers."""
    context: AbstractContextManager[None] = dspy.context(**{SCOPE: scope}, **more)
    return context
