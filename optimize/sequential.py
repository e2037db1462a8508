"""A paired sequential test that drops hopeless trials question by question.

After each question from ``AT_LEAST`` on (and then every ``STEP``), a trial is compared with each
member of the front that makes no more LM calls, on the questions that both have answered. It is
hopeless when for F1 and for hop recall alike the upper end of the one-sided interval of its mean
paired difference is below zero: t-interval at level ``ALPHA`` divided by the number of looks that
the run allows (Bonferroni), so that the chance of dropping a trial that is no worse stays below
``ALPHA`` over all looks at one member.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

AT_LEAST = 8
STEP = 4
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Scored:
    """One question of one trial."""

    f1: float
    hop_recall: float
    lm_calls: float
    seconds: float = 0.0


def looks(questions: int) -> int:
    """How often a run of so many questions is looked at."""
    return max(1, (questions - AT_LEAST) // STEP + 1)


def is_look(done: int) -> bool:
    return done >= AT_LEAST and (done - AT_LEAST) % STEP == 0


def hopeless(
    trial: Mapping[str, Scored], front: Sequence[Mapping[str, Scored]], questions: int
) -> int | None:
    """Index of the front's member that the trial can't reach, or None. Keys are question ids."""
    for i, member in enumerate(front):
        shared = [q for q in trial if q in member]
        if len(shared) < AT_LEAST:
            continue
        calls = math.fsum(trial[q].lm_calls - member[q].lm_calls for q in shared)
        if calls < 0:
            continue
        level = ALPHA / looks(questions)
        if all(
            _upper([getattr(trial[q], name) - getattr(member[q], name) for q in shared], level) < 0
            for name in ("f1", "hop_recall")
        ):
            return i
    return None


def _upper(differences: Sequence[float], level: float) -> float:
    """Upper end of the one-sided t-interval of a mean."""
    from scipy import stats

    n = len(differences)
    mean = math.fsum(differences) / n
    spread = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1) / n)
    if spread == 0:
        return mean
    return mean + float(stats.t.ppf(1 - level, n - 1)) * spread
