"""EndpointLM: a ``dspy.LM`` that knows its endpoint's limits and has patience with it."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from dspy.clients.lm import LM
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_exponential_jitter,
)

from hopsmith.window import check_fits
from programs.errors import Cancelled
from programs.faults import may_pass
from programs.scope import current

LONGEST_WAIT = 60.0
"""Seconds. An endpoint that wants to be left alone for longer is not asked again."""
_backoff = wait_exponential_jitter(initial=1, max=LONGEST_WAIT, jitter=1)

_slots: dict[str, threading.BoundedSemaphore] = {}
_lock = threading.Lock()


class EndpointLM(LM):
    """Takes one of its endpoint's slots for each call, refuses what can't fit before sending it,
    draws rollouts from seeds of their own, and asks again after what may pass: 429, 500s, silence,
    a dropped connection.

    Before it asks again it waits 1, 2, 4 … seconds, or as long as ``Retry-After`` says, and up to a
    second more at random, so that many workers don't come back at once; its slot is free meanwhile.
    It doesn't wait beyond the deadline of the question under way, nor for an asker who hung up.
    The limit is the endpoint's: all LMs of one endpoint in this process share its slots. A copy
    shares them too.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: str = "",
        at_once: int = 16,
        window: int | None = None,
        retries: int = 0,
        **options: Any,
    ) -> None:
        """``endpoint`` is a URL, or a provider's name; the first LM of an endpoint sets its
        ``at_once``. ``window`` is in tokens, None to ask the endpoint or the catalogue."""
        super().__init__(model, **{**options, "num_retries": 0})
        self.endpoint = endpoint
        self.at_once = at_once
        self.window = window
        self.retries = retries

    def __call__(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        self._check(prompt, messages)
        again = Retrying(**self._patience(), sleep=_sleep)
        return again(self._ask, prompt, messages, self._seeded(options))

    async def acall(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        await asyncio.to_thread(self._check, prompt, messages)
        again = AsyncRetrying(**self._patience())
        return await again(self._aask, prompt, messages, self._seeded(options))

    def _ask(self, prompt: Any, messages: Any, options: dict[str, Any]) -> Any:
        with self._slot():
            return super().__call__(prompt, messages=messages, **options)

    async def _aask(self, prompt: Any, messages: Any, options: dict[str, Any]) -> Any:
        async with self._async_slot():
            return await super().acall(prompt, messages=messages, **options)

    def _patience(self) -> dict[str, Any]:
        return {
            "stop": lambda state: state.attempt_number > self.retries or _too_late(state),
            "retry": retry_if_exception(_may_pass),
            "wait": _wait,
            "reraise": True,
        }

    def _check(self, prompt: Any, messages: Any) -> None:
        if messages:
            check_fits(self, messages)
        elif isinstance(prompt, str):
            check_fits(self, [{"content": prompt}])

    def _seeded(self, options: dict[str, Any]) -> dict[str, Any]:
        """With a fixed seed all rollouts of a prompt would be the same one: each gets a seed
        derived from its number, and several completions at once get none."""
        seed = self.kwargs.get("seed")
        if seed is None or "seed" in options:
            return options
        if (options.get("n") or self.kwargs.get("n") or 1) > 1:
            return {**options, "seed": None}
        rollout = options.get("rollout_id", self.kwargs.get("rollout_id"))
        if rollout is None:
            return options
        digest = hashlib.sha256(f"{seed}:{rollout}".encode()).digest()
        return {**options, "seed": int.from_bytes(digest[:4], "big") >> 1}

    def _semaphore(self) -> threading.BoundedSemaphore:
        with _lock:
            return _slots.setdefault(self.endpoint, threading.BoundedSemaphore(self.at_once))

    @contextmanager
    def _slot(self) -> Iterator[None]:
        with self._semaphore():
            yield

    @asynccontextmanager
    async def _async_slot(self) -> AsyncIterator[None]:
        """Polls: a wait in a thread that is cancelled would keep the slot for ever."""
        semaphore = self._semaphore()
        while not semaphore.acquire(blocking=False):
            await asyncio.sleep(0.01)
        try:
            yield
        finally:
            semaphore.release()


def _told_to_wait(fault: BaseException | None) -> float | None:
    hint = getattr(fault, "retry_after", None)
    return None if hint is None else float(hint)


def _may_pass(fault: BaseException) -> bool:
    hint = _told_to_wait(fault)
    return may_pass(fault) and (hint is None or hint <= LONGEST_WAIT)


def _wait(state: RetryCallState) -> float:
    """Seconds until the next try."""
    hint = _told_to_wait(state.outcome.exception() if state.outcome else None)
    return float(_backoff(state)) if hint is None else hint + random.random()


def _too_late(state: RetryCallState) -> bool:
    """Whether the next try would come after the question's deadline."""
    scope = current()
    deadline = scope.meter.deadline if scope else None
    return deadline is not None and time.monotonic() + state.upcoming_sleep >= deadline


def _sleep(seconds: float) -> None:
    scope = current()
    if scope is None:
        time.sleep(seconds)
    elif scope.meter.cancelled.wait(seconds):
        raise Cancelled
