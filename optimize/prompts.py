"""Prompts: DSPy's optimizers behind one interface.

Every candidate is scored on dev, logged and kept; a limit ends the search with the best state so
far; a killed search goes on where it stopped (candidates' states lie in the folder, LM answers in
the compile's own cache).
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import dspy

from benchmarks.question import Question
from optimize.answers import AnswerStore
from optimize.demos import tidy
from optimize.errors import OptimizeError
from optimize.evaluate import evaluate
from optimize.limits import LimitReached
from optimize.objective import Objective
from optimize.run import write_json
from programs import MeteredAdapter, MultiHopProgram, fingerprint
from programs.state import strip, unfreeze

Optimizer = Literal["none", "bootstrap"]
OPTIMIZERS: tuple[Optimizer, ...] = ("none", "bootstrap")


@dataclass(frozen=True)
class PromptSettings:
    """What a prompts stage may do."""

    candidates: int = 4
    """Candidates tried besides the program as it is."""
    max_demos: int = 2
    """Demonstrations per predictor."""
    demo_tokens: int = 900
    """Tokens (estimated) of demonstrations per predictor."""
    seed: int = 0


@dataclass(frozen=True)
class Candidate:
    """One program tried."""

    number: int
    score: float
    """The objective's mean on dev."""
    name: str
    demos: int = 0
    note: str = ""


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


@dataclass
class _Search:
    train: Sequence[Question]
    dev: Sequence[Question]
    objective: Objective
    store: AnswerStore
    workers: int
    folder: Path
    hidden: Collection[str]
    settings: PromptSettings
    report: Callable[[Candidate], None] | None = None
    found: list[tuple[Candidate, MultiHopProgram]] = field(default_factory=list)

    def score(self, number: int, name: str, program: MultiHopProgram, note: str = "") -> Candidate:
        """Evaluate a candidate on dev and keep its state."""
        result = evaluate(
            program,
            self.dev,
            answer_rule=self.objective.answer_rule,
            store=self.store,
            workers=self.workers,
        )
        values = [self.objective.of(record) for record in result.records]
        demos = sum(len(p.demos) for p in program.predictors())
        mean = math.fsum(values) / max(1, len(values))
        candidate = Candidate(number, mean, name, demos, note)
        self.found.append((candidate, program))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(
            self.folder / f"candidate-{number:03d}.json",
            {"name": name, "score": mean, "note": note, "state": program.dump_state()},
        )
        if self.report is not None:
            self.report(candidate)
        return candidate

    def known(self, number: int, name: str, like: MultiHopProgram) -> MultiHopProgram | None:
        """A candidate that was built before a kill, from its state."""
        path = self.folder / f"candidate-{number:03d}.json"
        if not path.is_file():
            return None
        saved = json.loads(path.read_text())
        if saved.get("name") != name:
            return None
        program: MultiHopProgram = like.deepcopy()
        program.load_state(saved["state"])
        return program


def tune_prompts(
    program: MultiHopProgram,
    train: Sequence[Question],
    dev: Sequence[Question],
    *,
    optimizer: Optimizer,
    objective: Objective,
    store: AnswerStore,
    folder: Path,
    workers: int = 4,
    hidden: Collection[str] = (),
    settings: PromptSettings | None = None,
    teacher_lm: dspy.LM | None = None,
    on_candidate: Callable[[Candidate], None] | None = None,
) -> PromptChoice:
    """Search better prompts for a program; the result is never worse on dev than the start.

    ``folder`` keeps candidates by the start's fingerprint, so that another start does not take
    them up. ``hidden`` are passages that no demonstration may quote.
    """
    if optimizer not in OPTIMIZERS:
        raise OptimizeError(f"no prompt optimizer {optimizer!r}; there are {', '.join(OPTIMIZERS)}")
    settings = settings or PromptSettings()
    search = _Search(
        train,
        dev,
        objective,
        store,
        workers,
        folder / f"{optimizer}-{fingerprint(program)[:16]}",
        hidden,
        settings,
        on_candidate,
    )
    stopped = False
    before = search.score(0, "start", program).score
    try:
        if optimizer == "bootstrap":
            _bootstrap(program, search, teacher_lm)
    except LimitReached:
        stopped = True
    best, chosen = max(search.found, key=lambda pair: (pair[0].score, -pair[0].number))
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


def _bootstrap(program: MultiHopProgram, search: _Search, teacher_lm: dspy.LM | None) -> None:
    """dspy.BootstrapFewShotWithRandomSearch, a candidate at a time (``restrict``), so that each is
    kept as it is found. Raw training questions would become demonstrations of every predictor:
    ``max_labeled_demos=0`` leaves out its labels-only candidate too."""
    settings = search.settings
    seeds = [-1, *range(settings.candidates - 1)][: settings.candidates]
    for number, seed in enumerate(seeds, 1):
        name = f"bootstrap seed {seed}"
        built = search.known(number, name, program)
        if built is None:
            built = _bootstrapped(program, search, seed, teacher_lm)
        search.score(number, name, built)


def _bootstrapped(
    program: MultiHopProgram, search: _Search, seed: int, teacher_lm: dspy.LM | None
) -> MultiHopProgram:
    settings = search.settings
    with kept_prints(search.folder / "optimizer.log"), metered():
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=search.objective,
            max_bootstrapped_demos=settings.max_demos,
            max_labeled_demos=0,
            max_rounds=1,
            num_candidate_programs=max(1, settings.candidates),
            num_threads=search.workers,
            teacher_settings={} if teacher_lm is None else {"lm": teacher_lm},
            max_errors=len(search.train) + len(search.dev) + 1,
        )
        built: MultiHopProgram = optimizer.compile(
            program.deepcopy(),
            trainset=list(search.train),
            valset=list(search.train[:1]),
            restrict=[seed],
        )
    unfreeze(built)
    strip(built)
    tidy(built, hidden=search.hidden, max_tokens=settings.demo_tokens)
    return built


@contextlib.contextmanager
def kept_prints(path: Path) -> Iterator[None]:
    """What optimizers print (on both streams) goes to a file beside their candidates."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        yield


@contextlib.contextmanager
def metered() -> Iterator[None]:
    """Meter an optimizer's own LM calls too: they are outside any question's scope."""
    adapter: Any = dspy.settings.adapter or dspy.JSONAdapter()
    with dspy.context(adapter=MeteredAdapter(adapter)):
        yield
