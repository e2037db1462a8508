"""``dspy.SIMBA``: rules and demonstrations from questions on which the program's tries differ."""

from __future__ import annotations

import random

import dspy

from optimize.optimizers import Need
from optimize.proposing import proposing
from optimize.search import PromptSearch, PromptSettings
from programs import MultiHopProgram


def need(settings: PromptSettings, train: int, dev: int, predictors: int) -> Need:
    """A step samples every question of its batch, tries its new programs on the batch, checks the
    best of them again, and the result on dev."""
    batch, samples = min(settings.batch, train), settings.samples
    once = batch * (samples + (samples + 1) + 2) + dev
    return Need(settings.candidates * once, settings.candidates * (samples + 1))


def run(search: PromptSearch) -> None:
    """A step at a time, each from the best program so far on a batch of its own: DSPy's class
    keeps its pool of programs in memory, and returns nothing when it is stopped. Between steps
    the best is kept, not the whole pool."""
    lm = search.lms.writer(search.lms.prompt, "simba", "--prompt-lm")
    for number in range(1, search.settings.candidates + 1):
        name = f"simba step {number}"
        built = search.known(number, name) or _step(search, number, lm)
        search.score(number, name, built)


def _step(search: PromptSearch, number: int, lm: dspy.LM) -> MultiHopProgram:
    settings = search.settings
    rng = random.Random(f"{settings.seed}:{number}")
    batch = rng.sample(list(search.train), min(settings.batch, len(search.train)))
    with proposing(search.log):
        optimizer = dspy.SIMBA(
            metric=search.objective,
            bsize=len(batch),
            num_candidates=settings.samples,
            max_steps=1,
            max_demos=settings.max_demos,
            prompt_model=lm,
            teacher_settings=None if search.lms.teacher is None else {"lm": search.lms.teacher},
            num_threads=search.workers,
        )
        student = search.student()
        student.load_state(search.best[1].dump_state())
        built: MultiHopProgram = optimizer.compile(
            student, trainset=batch, seed=settings.seed * 1000 + number
        )
    return search.finished(built)
