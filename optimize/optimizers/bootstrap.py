"""``dspy.BootstrapFewShotWithRandomSearch``: demonstrations from the program's own good answers."""

from __future__ import annotations

import dspy

from optimize.optimizers import Need
from optimize.proposing import proposing
from optimize.search import PromptSearch, PromptSettings
from programs import MultiHopProgram


def need(settings: PromptSettings, train: int, dev: int, predictors: int) -> Need:
    """Each candidate bootstraps from a few training questions and is scored on dev."""
    return Need(settings.candidates * (dev + min(train, 4 * settings.max_demos)))


def run(search: PromptSearch) -> None:
    """A candidate at a time (``restrict``), so that each is kept as it is found: the optimizer's
    own evaluation resubmits slow questions and keeps nothing when it is killed."""
    seeds = [-1, *range(search.settings.candidates - 1)][: search.settings.candidates]
    for number, seed in enumerate(seeds, 1):
        name = f"bootstrap seed {seed}"
        built = search.known(number, name) or _built(search, seed)
        search.score(number, name, built)


def _built(search: PromptSearch, seed: int) -> MultiHopProgram:
    """Raw training questions would become demonstrations of every predictor:
    ``max_labeled_demos=0`` leaves out the labels-only candidate too."""
    settings, teacher = search.settings, search.lms.teacher
    with proposing(search.log):
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=search.objective,
            max_bootstrapped_demos=settings.max_demos,
            max_labeled_demos=0,
            max_rounds=1,
            num_candidate_programs=max(1, settings.candidates),
            num_threads=search.workers,
            teacher_settings={} if teacher is None else {"lm": teacher},
            max_errors=len(search.train) + len(search.dev) + 1,
        )
        built: MultiHopProgram = optimizer.compile(
            search.student(),
            trainset=list(search.train),
            valset=list(search.train[:1]),
            restrict=[seed],
        )
    return search.finished(built)
