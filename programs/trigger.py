"""The soft trigger: expand when the chance of failing costs more than expanding.

Hi-Q's hard trigger takes a null answer for "unresolved". The paper derives that the choice is a
cost-sensitive threshold on P(unresolved) and leaves the probability open (its Appendices B and C):
expanding always costs ``expand``; not expanding costs ``fail`` when the node is unresolved; so
expand when P(unresolved) > expand / fail.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise

from programs.errors import ProgramError

_STATED = re.compile(r"P\(unresolved\) (\d\.\d+)")


def cost_threshold(expand: float, fail: float) -> float:
    """expand / fail, at most 1 (where expanding never pays). Raises ``ProgramError`` for costs
    that aren't positive numbers."""
    if not (math.isfinite(expand) and math.isfinite(fail) and expand > 0 and fail > 0):
        raise ProgramError(f"costs must be positive numbers, got expand {expand} and fail {fail}")
    return min(1.0, expand / fail)


def fit_threshold(cases: Iterable[tuple[float, bool]], expand: float, fail: float) -> float:
    """The threshold that would have cost least on ``cases``: pairs of a stated P(unresolved) and
    whether the node truly was unresolved.

    For a calibrated probability this comes near ``expand / fail``; for an LM's stated one it need
    not. Between equally good thresholds the one nearest to ``expand / fail`` is taken, and that
    itself when there are no cases.
    """
    known = sorted(cases)
    ratio = cost_threshold(expand, fail)
    stated = sorted({p for p, _ in known})
    middles = [(a + b) / 2 for a, b in pairwise(stated)]
    choices = [0.0, *middles, 1.0, ratio]

    def cost(threshold: float) -> float:
        return sum(expand if p > threshold else fail * unresolved for p, unresolved in known)

    return min(choices, key=lambda t: (cost(t), abs(t - ratio)))


def as_note(probability: float, threshold: float) -> str:
    """How a reading is written on its hop."""
    sign = ">" if probability > threshold else "≤"
    return f"P(unresolved) {probability:.3f} {sign} {threshold:.3f}"


def stated(note: str) -> float | None:
    """The probability that ``as_note`` wrote into a hop's note, if it did: for fitting."""
    match = _STATED.search(note)
    return float(match[1]) if match else None
