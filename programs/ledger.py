"""Ledger: calls, tokens and money by role, spent and saved by our cache kept apart."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

LEDGER = "hopsmith_ledger"
"""Key in ``dspy.settings`` of a ledger that lives longer than a question (a stage, a compile)."""
PRICE = "hopsmith_price"
"""Key in ``dspy.settings``: dollars per million (input, output) tokens, overriding price tables."""


@dataclass(frozen=True, slots=True)
class Account:
    """Sums over calls. Token counts are as if nothing had been cached by us; ``cached_…`` says how
    much of them our cache answered."""

    lm_calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_completion_tokens: int = 0
    provider_cached_tokens: int = 0
    """Prompt tokens that the LM server's own prefix cache served."""
    cost: float | None = None
    saved: float | None = None
    parse_failures: int = 0
    seconds: float = 0.0
    """Summed over calls; concurrent calls count each."""

    def __add__(self, other: Account) -> Account:
        def plus(a: Any, b: Any) -> Any:
            return b if a is None else a if b is None else a + b

        return Account(
            **{f.name: plus(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Ledger:
    """Accounts by role; thread-safe."""

    def __init__(self, by_role: Mapping[str, Account] | None = None) -> None:
        self._by_role: dict[str, Account] = dict(by_role or {})
        self._lock = threading.Lock()

    def enter(self, role: str, account: Account) -> None:
        """Add to a role's account."""
        with self._lock:
            self._by_role[role] = self._by_role.get(role, Account()) + account

    def merge(self, other: Ledger) -> None:
        """Add all of another ledger."""
        for role, account in other.by_role.items():
            self.enter(role, account)

    @property
    def by_role(self) -> dict[str, Account]:
        with self._lock:
            return dict(self._by_role)

    @property
    def total(self) -> Account:
        return sum(self.by_role.values(), Account())

    def to_json(self) -> dict[str, Any]:
        return {role: account.to_json() for role, account in sorted(self.by_role.items())}

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self


def priced(account: Account, price: tuple[float, float] | None) -> Account:
    """The account with money computed from dollars per million (input, output) tokens."""
    if price is None:
        return account
    dollars_in, dollars_out = price

    def money(prompt: int, completion: int) -> float:
        return (prompt * dollars_in + completion * dollars_out) / 1e6

    saved = money(account.cached_prompt_tokens, account.cached_completion_tokens)
    return replace(
        account,
        cost=money(account.prompt_tokens, account.completion_tokens) - saved,
        saved=saved,
    )
