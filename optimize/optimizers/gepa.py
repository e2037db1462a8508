"""``dspy.GEPA``: an LM reflects on what each step did, told from the hops, and rewrites its
instruction."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt.bootstrap_trace import FailedPrediction
from dspy.teleprompt.gepa import InstructionProposer

from optimize.feedback import HopFeedback
from optimize.optimizers import Need
from optimize.proposing import can_write, proposing
from optimize.search import PromptSearch, PromptSettings
from programs import MeteredAdapter
from programs.step import ROLE_LMS


def need(settings: PromptSettings, train: int, dev: int, predictors: int) -> Need:
    """Each proposal is tried on a minibatch twice, an accepted one on all of dev."""
    return Need(metric_calls(settings, dev), settings.candidates)


def metric_calls(settings: PromptSettings, dev: int) -> int:
    """GEPA's budget, in questions: the start on dev, then ``candidates`` proposals."""
    return dev + settings.candidates * (2 * settings.minibatch + dev)


def run(search: PromptSearch) -> None:
    """Its proposer brings an adapter of its own, so that one is metered here. Every candidate that
    it accepts is scored on dev through the search too: answers that GEPA had for it come from the
    LM cache."""
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
            component_selector=AskedInTurn(student),
            num_threads=search.workers,
            log_dir=str(_folder(search, lm)),
            warn_on_score_mismatch=False,
            seed=settings.seed,
            use_merge=len(student.predictors()) > 1,
            gepa_kwargs={"callbacks": [_Keeper(search, student)], "use_cloudpickle": False},
        )
        optimizer.compile(student, trainset=list(search.train), valset=list(search.dev))


def _folder(search: PromptSearch, writer: dspy.LM) -> Path:
    """Where GEPA keeps its state, for one start and one recipe, since it takes up old candidates
    without a word.

    The state lacks the random generators of its choices and the questions under way, so that one
    who goes on from it goes another way. Where all LM answers lie on disk since the first start,
    it therefore walks the same way once more over them (but for ties when two candidates are
    merged, which Python's hash seed decides). Elsewhere, going on from the state is what costs
    least.
    """
    folder = search.folder / "gepa"
    cached = folder / "all-answers-cached"
    lms = [writer, dspy.settings.lm, *(dspy.settings.get(ROLE_LMS) or {}).values()]
    if not dspy.cache.enable_disk_cache or not all(lm.cache for lm in lms if can_write(lm)):
        cached.unlink(missing_ok=True)
        return folder
    if cached.is_file() and len(dspy.cache.disk_cache):
        shutil.rmtree(folder)
    if not folder.is_dir():
        folder.mkdir(parents=True)
        cached.touch()
    return folder


class AskedInTurn:
    """Rewrites the predictors in turn, as GEPA does, but passes over one that none of the
    minibatch's questions asked: there is nothing to reflect on, and their answers would be spent
    for nothing."""

    def __init__(self, student: Any) -> None:
        self.signatures = {path: p.signature for path, p in student.named_predictors()}

    def __call__(
        self,
        state: Any,
        trajectories: list[Any],
        subsample_scores: list[float],
        candidate_idx: int,
        candidate: dict[str, str],
    ) -> list[str]:
        asked = [
            step[0].signature
            for each in trajectories
            for step in each["trace"]
            if isinstance(step[2], FailedPrediction)
            or not isinstance(each["prediction"], FailedPrediction)
        ]
        names = state.list_of_named_predictors
        turns = state.named_predictor_id_to_update_next_for_program_candidate
        for _ in names:
            name = names[turns[candidate_idx]]
            turns[candidate_idx] = (turns[candidate_idx] + 1) % len(names)
            own = self.signatures[name].with_instructions(candidate[name])
            if any(signature.equals(own) for signature in asked):
                break
        return [name]


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
        if event["candidate_idx"] == 0:  # the start
            return
        program = self.student.deepcopy()
        for path, predictor in program.named_predictors():
            text = event["candidate"].get(path)
            if text is not None:
                predictor.signature = predictor.signature.with_instructions(text)
        built = self.search.finished(program)
        state = built.dump_state()
        if all(known.dump_state() != state for _, known in self.search.found):
            number = len(self.search.found)
            self.search.score(number, _name(number), built)


def _name(number: int) -> str:
    return f"gepa candidate {number}"
