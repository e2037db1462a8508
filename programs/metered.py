"""MeteredAdapter: the one place where every LM call of a question passes, whoever makes it.

A ledger with a ``check`` (``optimize.limits``) is asked before each call and may end the run there.

An ``Adapter`` sees signature and inputs before any text, so that answering adapters (the oracle,
scripted ones), ``dspy.ReAct`` and agents are metered alike. Tokens and money come from the LM's own
record of the call, which it also writes for calls that the cache answered.
"""

from __future__ import annotations

import time
from typing import Any

import dspy
from dspy.adapters.base import Adapter
from dspy.utils.exceptions import AdapterParseError

from programs.ledger import LEDGER, PRICE, Account, Ledger, priced
from programs.scope import current


class MeteredAdapter(Adapter):  # type: ignore[misc]
    """Wraps an adapter: spends from the meter before each call, writes the ledgers after it."""

    def __init__(self, inner: Adapter) -> None:
        super().__init__()
        self.inner: Adapter = inner.inner if isinstance(inner, MeteredAdapter) else inner

    def __call__(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        scope = current()
        check = getattr(dspy.settings.get(LEDGER), "check", None)
        if check is not None:
            check()
        if scope is not None:
            scope.meter.spend(final=scope.final)
            scope.tell("asking", role=_role())
        entries: list[dict[str, Any]] = []
        started = time.perf_counter()
        failures = 0
        try:
            watched = _recorded(lm, entries)
            with dspy.context(disable_history=False):
                return list(self.inner(watched, lm_kwargs, signature, demos, inputs))
        except AdapterParseError:
            failures = 1
            raise
        finally:
            account = _account(entries, failures, time.perf_counter() - started)
            account = priced(account, dspy.settings.get(PRICE))
            for ledger in (scope.ledger if scope else None, dspy.settings.get(LEDGER)):
                if isinstance(ledger, Ledger):
                    ledger.enter(_role(), account)

    async def acall(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Asynchronous calls run in a worker thread: one path, one meter."""
        import asyncio

        return await asyncio.to_thread(self.__call__, *args, **kwargs)

    def format(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.inner.format(*args, **kwargs)
        return messages

    def parse(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        parsed: dict[str, Any] = self.inner.parse(*args, **kwargs)
        return parsed


def _recorded(lm: Any, entries: list[dict[str, Any]]) -> Any:
    """A shallow copy of the LM that also writes its record of each call to ``entries``.

    The original keeps its history only when the surrounding settings ask for one: histories hold
    whole prompts.
    """
    if not isinstance(lm, dspy.BaseLM):
        return lm
    keep = not dspy.settings.disable_history
    watched = lm.copy()

    def record(entry: dict[str, Any]) -> None:
        entries.append(entry)
        if keep:
            lm.update_history(entry)

    watched.update_history = record
    return watched


def _account(entries: list[dict[str, Any]], failures: int, seconds: float) -> Account:
    account = Account(lm_calls=1, parse_failures=failures, seconds=seconds)
    for entry in entries:
        usage = entry.get("usage") or {}
        response = entry.get("response")
        cached = not usage and _was_cached(response)
        prompt, completion, provider_cached = _tokens(usage, response)
        cost = entry.get("cost")
        account += Account(
            cached_calls=int(cached),
            prompt_tokens=prompt,
            completion_tokens=completion,
            provider_cached_tokens=0 if cached else provider_cached,
            cached_prompt_tokens=prompt if cached else 0,
            cached_completion_tokens=completion if cached else 0,
            cost=0.0 if cached and cost is not None else cost,
            saved=cost if cached else None,
        )
    return account


def _was_cached(response: Any) -> bool:
    usage = getattr(response, "usage", None)
    return usage is not None and _count(usage, "input_tokens", "prompt_tokens") > 0


def _tokens(usage: Any, response: Any) -> tuple[int, int, int]:
    if usage:
        details = usage.get("prompt_tokens_details") or {}
        return (
            int(usage.get("prompt_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
            _count(details, "cached_tokens"),
        )
    told = getattr(response, "usage", None)
    return (
        _count(told, "input_tokens", "prompt_tokens"),
        _count(told, "output_tokens", "completion_tokens"),
        0,
    )


def _count(source: Any, *names: str) -> int:
    for name in names:
        value = source.get(name) if isinstance(source, dict) else getattr(source, name, None)
        if value:
            return int(value)
    return 0


def _role() -> str:
    """The role of the innermost step that is asking; of other modules, their class name."""
    for module in reversed(dspy.settings.caller_modules or []):
        role = getattr(module, "role", None)
        if isinstance(role, str):
            return role
    callers = dspy.settings.caller_modules or []
    return type(callers[0]).__name__.lower() if callers else "other"
