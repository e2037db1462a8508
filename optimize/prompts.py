"""Prompts: DSPy's optimizers behind one interface.

Every candidate is scored on dev, logged and kept; a limit ends the search with the best state so
far; a killed search goes on where it stopped (candidates' states lie in the folder, LM answers in
the compile's own cache). ``auto`` chooses an optimizer and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import dspy

from benchmarks.question import Question
from optimize.answers import AnswerStore
from optimize.errors import OptimizeError
from optimize.limits import LimitReached
from optimize.objective import Objective
from optimize.optimizers import Need, auto, need, run
from optimize.proposing import PromptLMs, can_write
from optimize.search import Candidate, PromptSearch, PromptSettings
from optimize.tunable import chosen_paths
from programs import MultiHopProgram, fingerprint

Optimizer = Literal["none", "auto", "bootstrap", "mipro", "gepa", "simba"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)


@dataclass(frozen=True)
class PromptChoice:
    """What the stage chose."""

    program: MultiHopProgram
    optimizer: str
    why: str
    before: float
    after: float
    candidates: tuple[Candidate, ...] = ()
    stopped: bool = False


def tune_prompts(
    program: MultiHopProgram,
    train: Sequence[Question],
    dev: Sequence[Question],
    *,
    optimizer: str,
    objective: Objective,
    store: AnswerStore,
    folder: Path,
    workers: int = 4,
    hidden: Mapping[str, str] | None = None,
    settings: PromptSettings | None = None,
    lms: PromptLMs | None = None,
    on_candidate: Callable[[Candidate], None] | None = None,
) -> PromptChoice:
    """Search better prompts for a program; the result is never worse on dev than the start.

    ``folder`` keeps candidates by the start's fingerprint, so that another start does not take
    them up. ``hidden`` are passages that no demonstration may quote. Raises ``OptimizeError``.
    """
    if optimizer not in OPTIMIZERS or optimizer == "auto":
        raise OptimizeError(f"no prompt optimizer {optimizer!r}; there are {', '.join(OPTIMIZERS)}")
    settings = settings or PromptSettings()
    search = PromptSearch(
        program,
        chosen_paths(program, settings.parts),
        train,
        dev,
        objective,
        store,
        workers,
        folder / f"{optimizer}-{fingerprint(program)[:16]}",
        hidden or {},
        settings,
        lms or PromptLMs(),
        on_candidate,
    )
    stopped = False
    before = search.score(0, "start", program).score
    try:
        if optimizer != "none":
            run(optimizer, search)
    except LimitReached:
        stopped = True
    best, chosen = search.best
    n = len(search.found) - 1
    why = (
        f"{best.name} has the best objective ({objective}) on dev: {best.score:.3f}, the start has "
        f"{before:.3f} ({n} candidate{'s' * (n != 1)} tried{', stopped at a limit' * stopped})"
    )
    return PromptChoice(
        chosen,
        optimizer,
        why,
        before,
        best.score,
        tuple(candidate for candidate, _ in search.found),
        stopped,
    )


def estimate(
    optimizer: str, program: MultiHopProgram, settings: PromptSettings, train: int, dev: int
) -> Need:
    """What a prompts stage will ask for at most; of ``auto``, what the dearest choice would."""
    predictors = len(chosen_paths(program, settings.parts))
    names = ("bootstrap", "mipro", "gepa") if optimizer == "auto" else (optimizer,)
    needs = [need(name, settings, train, dev, predictors) for name in names]
    return max(needs, key=lambda n: (n.questions, n.proposals))


def pick(
    program: MultiHopProgram,
    train: Sequence[Question],
    dev: int,
    settings: PromptSettings,
    *,
    lms: PromptLMs,
    calls_each: float,
    calls_left: int | None,
) -> auto.Pick:
    """Resolve ``auto``; see ``optimize.optimizers.auto``."""
    writers = (lms.prompt, lms.reflection, dspy.settings.lm)
    return auto.pick(
        settings,
        train,
        dev,
        predictors=len(chosen_paths(program, settings.parts)),
        writes=any(can_write(lm) for lm in writers),
        calls_each=calls_each,
        calls_left=calls_left,
    )


__all__ = [
    "OPTIMIZERS",
    "Candidate",
    "Optimizer",
    "PromptChoice",
    "PromptLMs",
    "PromptSettings",
    "estimate",
    "pick",
    "tune_prompts",
]
