"""EndpointLM: a ``dspy.LM`` that knows its endpoint's limits."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from dspy.clients.lm import LM

from hopsmith.window import check_fits

_slots: dict[str, threading.BoundedSemaphore] = {}
_lock = threading.Lock()


class EndpointLM(LM):
    """Takes one of its endpoint's slots for each call, refuses what can't fit before sending it,
    and draws rollouts from seeds of their own.

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
        **options: Any,
    ) -> None:
        """``endpoint`` is a URL, or a provider's name; the first LM of an endpoint sets its
        ``at_once``. ``window`` is in tokens, None to ask the endpoint or the catalogue."""
        super().__init__(model, **options)
        self.endpoint = endpoint
        self.at_once = at_once
        self.window = window

    def __call__(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        self._check(prompt, messages)
        with self._slot():
            return super().__call__(prompt, messages=messages, **self._seeded(options))

    async def acall(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        await asyncio.to_thread(self._check, prompt, messages)
        async with self._async_slot():
            return await super().acall(prompt, messages=messages, **self._seeded(options))

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
