"""Limits of a server, and admission: so many questions at once, a short queue, then 429.

The queue only bridges the moment until a question ends. It is bounded in length and in time, since
a question that waits long is answered late: whoever can't start soon is told when to come back.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass

from hopsmith.serving.problems import busy

WAIT_SHARE = 0.2
"""How long a question may wait for its turn, as a share of what a question takes on average."""
FIRST_WAIT = 1.0
"""Seconds that it may wait before any question has been answered."""
SMOOTHING = 0.1
MOST_RETRY_AFTER = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes on."""

    concurrency: int = 8
    """Questions answered at once."""
    queue: int = 8
    """Questions that wait for their turn, at most."""
    queue_seconds: float | None = None
    """How long one waits, at most; None: a fifth of what a question takes on average."""
    seconds: float = 120.0
    """Until a question must be answered, waiting included."""
    question_chars: int = 4000
    body_bytes: int = 256 * 1024


class Admission:
    """Counts the questions under way; first come, first served. Used from one event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.running = 0
        self.mean: float | None = None
        """Seconds that a question takes, smoothed."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self) -> None:
        """Take a place. Raises ``Problem`` (429) when there is none, nor soon."""
        if self.running < self.limits.concurrency:
            self.running += 1
            return
        if self.waiting >= self.limits.queue:
            raise busy(self.retry_after)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait_for(turn, self.patience)
        except asyncio.TimeoutError:
            raise busy(self.retry_after) from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def leave(self, seconds: float) -> None:
        """Give a place back after a question that took so long."""
        self.mean = seconds if self.mean is None else self.mean + SMOOTHING * (seconds - self.mean)
        self._pass_on()

    @property
    def patience(self) -> float:
        """Seconds that a question may wait for its turn."""
        if self.limits.queue_seconds is not None:
            return self.limits.queue_seconds
        share = FIRST_WAIT if self.mean is None else WAIT_SHARE * self.mean
        return min(share, self.limits.seconds)

    @property
    def retry_after(self) -> int:
        """Whole seconds after which a place should be free."""
        rounds = (self.waiting + 1) / self.limits.concurrency
        return max(1, min(MOST_RETRY_AFTER, math.ceil((self.mean or 1.0) * rounds)))

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1
