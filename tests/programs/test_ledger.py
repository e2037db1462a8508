"""Ledger: what is spent and what our cache saved are kept apart; nothing is counted twice."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from programs import Account, Ledger, MeteredAdapter
from programs.ledger import LEDGER, PRICE, priced
from signatures import Resolve


class Engine:
    """Answers every request alike, with 100 tokens in and 10 out."""

    supports_response_schema = True
    supported_params = frozenset({"response_format"})
    calls = 0

    def complete(self, request: Any) -> Any:
        from dspy import lm15

        type(self).calls += 1
        return lm15.Response(
            id="1",
            model="scripted",
            message=lm15.Message.assistant('{"answer": "a"}'),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=100, output_tokens=10),
        )

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: Any) -> Engine:
        return cls()


@pytest.fixture
def lm(tmp_path: Any) -> dspy.LM:
    dspy.configure_cache(
        enable_disk_cache=False, enable_memory_cache=True, disk_cache_dir=str(tmp_path)
    )
    return dspy.LM("scripted/lm", engine=Engine(), cache=True)


def test_a_cached_call_is_saved_and_not_spent(lm: dspy.LM) -> None:
    ledger = Ledger()
    with dspy.context(
        lm=lm,
        adapter=MeteredAdapter(dspy.JSONAdapter()),
        **{LEDGER: ledger, PRICE: (10.0, 100.0)},
    ):
        for _ in range(3):
            dspy.Predict(Resolve)(context="c", question="q")
    total = ledger.total
    assert (total.lm_calls, total.cached_calls) == (3, 2)
    assert (total.prompt_tokens, total.cached_prompt_tokens) == (300, 200)
    assert (total.completion_tokens, total.cached_completion_tokens) == (30, 20)
    assert total.cost == pytest.approx(0.002)
    assert total.saved == pytest.approx(0.004)


def test_prompts_are_not_kept_when_histories_are_off(lm: dspy.LM) -> None:
    with dspy.context(lm=lm, adapter=MeteredAdapter(dspy.JSONAdapter()), disable_history=True):
        dspy.Predict(Resolve)(context="c2", question="q")
    assert not lm.history


def test_accounts_add_up_with_unknown_money() -> None:
    total = Account(lm_calls=1) + Account(lm_calls=2, cost=0.5)
    assert (total.lm_calls, total.cost, total.saved) == (3, 0.5, None)
    assert priced(Account(prompt_tokens=10), None).cost is None


def test_a_limit_stops_before_the_next_call(lm: dspy.LM) -> None:
    from optimize.limits import LimitedLedger, LimitReached

    ledger = LimitedLedger(max_calls=2)
    with dspy.context(
        lm=lm.copy(cache=False),
        adapter=MeteredAdapter(dspy.JSONAdapter()),
        **{LEDGER: ledger},
    ):
        for _ in range(2):
            dspy.Predict(Resolve)(context="c", question="q")
        with pytest.raises(LimitReached, match="--max-calls 2"):
            dspy.Predict(Resolve)(context="c", question="q")
