"""RunEstimate: what is still to come of a run, from the questions that were asked already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optimize.rows import PredictionRow, ledger_of
from programs import Account


@dataclass(frozen=True)
class RunEstimate:
    """Sums over the questions that are still to be asked, by the mean of those that were.

    Calls and tokens are as if our cache answered nothing.
    """

    questions: int
    """Still to be asked."""
    sample: int
    """Questions that the means are of."""
    lm_calls: float
    prompt_tokens: float
    completion_tokens: float
    cost: float | None
    """Dollars; None where no price is known."""
    seconds: float
    """Of wall time, at the run's workers."""
    most_calls: int
    """LM calls of the sample's dearest question: one question may differ from the mean so far."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate(rows: Sequence[PredictionRow], left: int, workers: int) -> RunEstimate:
    """For ``left`` more questions like those of ``rows`` (at least one)."""
    accounts = [ledger_of(row).total for row in rows]
    total, n = sum(accounts, Account()), len(rows)
    money = None if total.cost is None else total.cost + (total.saved or 0.0)
    share = left / n
    return RunEstimate(
        questions=left,
        sample=n,
        lm_calls=total.lm_calls * share,
        prompt_tokens=total.prompt_tokens * share,
        completion_tokens=total.completion_tokens * share,
        cost=None if money is None else money * share,
        seconds=sum(row.seconds for row in rows) * share / max(1, min(workers, left or 1)),
        most_calls=max(a.lm_calls for a in accounts),
    )
