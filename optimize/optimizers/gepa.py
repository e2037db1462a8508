"""``dspy.GEPA``: an LM reflects on what each step did, told from the hops, and rewrites its
instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer

from optimize.feedback import HopFeedback
from optimize.optimizers import Need
from optimize.proposing import proposing
from optimize.search import PromptSearch, PromptSettings
from programs import MeteredAdapter


def need(settings: PromptSettings, train: int, dev: int, predictors: int) -> Need:
    """Each proposal is tried on a minibatch twice, an accepted one on all of dev."""
    return Need(metric_calls(settings, dev), settings.candidates)


def metric_calls(settings: PromptSettings, dev: int) -> int:
    """GEPA's budget, in questions: the start on dev, then ``candidates`` proposals."""
    return dev + settings.candidates * (2 * settings.minibatch + dev)


def run(search: PromptSearch) -> None:
    """Its own folder resumes it; the folder belongs to one start and one recipe, since GEPA takes
    up old candidates without a word. Its proposer brings an adapter of its own, so that one is
    metered here. Every candidate that it accepts is scored on dev through the search too: answers
    that GEPA had for it come from the LM cache."""
    lm = search.lms.writer(search.lms.reflection or search.lms.prompt, "gepa", "--reflection-lm")
    settings = search.settings
    student = search.student()
    with proposing(search.log):
        optimizer = dspy.GEPA(
            metric=HopFeedback.of(student, search.objective),
            max_metric_calls=metric_calls(settings, len(search.dev)),
            reflection_minibatch_size=min(settings.minibatch, len(search.train)),
            reflection_lm=lm,
            instruction_proposer=InstructionProposer(adapter=MeteredAdapter(dspy.JSONAdapter())),
            add_format_failure_as_feedback=True,
            num_threads=search.workers,
            log_dir=str(search.folder / "gepa"),
            warn_on_score_mismatch=False,
            seed=settings.seed,
            use_merge=len(student.predictors()) > 1,
            gepa_kwargs={"callbacks": [_Keeper(search, student)], "use_cloudpickle": False},
        )
        optimizer.compile(student, trainset=list(search.train), valset=list(search.dev))


class _Keeper:
    """Keeps each candidate that GEPA has tried on all of dev."""

    def __init__(self, search: PromptSearch, student: Any) -> None:
        self.search = search
        self.student = student

    def on_optimization_start(self, event: Mapping[str, Any]) -> None:
        """Candidates from before a kill, from their states."""
        number = 1
        while (built := self.search.known(number, _name(number))) is not None:
            self.search.score(number, _name(number), built)
            number += 1

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        number = int(event["candidate_idx"])
        if number in {candidate.number for candidate, _ in self.search.found}:
            return
        program = self.student.deepcopy()
        for path, predictor in program.named_predictors():
            text = event["candidate"].get(path)
            if text is not None:
                predictor.signature = predictor.signature.with_instructions(text)
        self.search.score(number, _name(number), self.search.finished(program))


def _name(number: int) -> str:
    return f"gepa candidate {number}"
