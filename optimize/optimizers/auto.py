"""Which optimizer suits: by the number of training questions, by what is known of their hops, by
whether an LM can write prompts, and by the calls that are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.question import Question
from optimize.optimizers import Need, need
from optimize.search import PromptSettings

FEW, MANY = 10, 50
"""Below FEW training questions reflecting on failures sees too little; from MANY on, searching
combinations of instructions and demonstrations pays (MIPROv2's authors ask for a few hundred)."""


@dataclass(frozen=True)
class Pick:
    """What ``auto`` takes, and why."""

    optimizer: str
    settings: PromptSettings
    why: str


def pick(
    settings: PromptSettings,
    train: Sequence[Question],
    dev: int,
    *,
    predictors: int,
    writes: bool,
    calls_each: float,
    calls_left: int | None,
) -> Pick:
    """Choose an optimizer and how many candidates the call limit allows.

    ``writes``: an LM can write prompts. ``calls_each``: LM calls of a question. ``calls_left``:
    None without a limit.
    """
    n = len(train)
    hops = sum(bool(question.hops) for question in train)
    if not writes:
        wanted, because = "bootstrap", "no LM can write prompts (the oracle answers)"
    elif n < FEW:
        wanted, because = "bootstrap", f"{n} training questions are few for an LM to reflect on"
    elif n >= MANY and (calls_left is None or calls_left >= 20 * calls_each * dev):
        wanted, because = "mipro", f"{n} training questions allow a search over combinations"
    elif hops >= n / 2:
        wanted, because = "gepa", f"{hops} of {n} training questions have hops to learn from"
    else:
        wanted, because = "bootstrap", f"{n} training questions, few of them with hops"
    for name in dict.fromkeys((wanted, "bootstrap")):
        if name == "bootstrap" and not settings.max_demos:
            return Pick("none", settings, f"{because}, and no demonstration may be kept")
        fitting = _fitting(name, settings, n, dev, predictors, calls_each, calls_left)
        if fitting is not None:
            cut = fitting.candidates != settings.candidates
            note = f"; {fitting.candidates} candidates fit the call limit" if cut else ""
            less = "" if name == wanted else f"; {wanted} doesn't fit the call limit"
            return Pick(name, fitting, because + less + note)
    return Pick("none", settings, "not one candidate fits the call limit")


def _fitting(
    name: str,
    settings: PromptSettings,
    train: int,
    dev: int,
    predictors: int,
    calls_each: float,
    calls_left: int | None,
) -> PromptSettings | None:
    """The settings with as many candidates as the calls left allow; None when that is none."""
    if calls_left is None:
        return settings
    for candidates in range(settings.candidates, 0, -1):
        cut = replace(settings, candidates=candidates)
        if calls(need(name, cut, train, dev, predictors), calls_each) <= calls_left:
            return cut
    return None


def calls(asked: Need, calls_each: float) -> float:
    """LM calls of an estimate."""
    return asked.questions * calls_each + asked.proposals
