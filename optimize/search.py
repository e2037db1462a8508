"""One search for better prompts: candidates scored on dev, kept as they come, resumed after a
kill."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.question import Question
from optimize.answers import AnswerStore
from optimize.demos import tidy
from optimize.evaluate import evaluate
from optimize.objective import Objective
from optimize.proposing import PromptLMs
from optimize.run import write_json
from optimize.tunable import kept, masked
from programs import MultiHopProgram
from programs.state import strip, unfreeze


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
    minibatch: int = 3
    """Training questions that GEPA reflects on at a time."""
    batch: int = 8
    """Training questions of a step of SIMBA, which runs each ``samples`` times."""
    samples: int = 3
    parts: tuple[str, ...] = ()
    """Predictors, roles or sub-programs that are tuned alone; empty for all."""


@dataclass(frozen=True)
class Candidate:
    """One program tried."""

    number: int
    score: float
    """The objective's mean on dev."""
    name: str
    demos: int = 0
    note: str = ""


@dataclass
class PromptSearch:
    """What an optimizer works with, and where its candidates go."""

    start: MultiHopProgram
    paths: frozenset[str]
    """Predictors that may change."""
    train: Sequence[Question]
    dev: Sequence[Question]
    objective: Objective
    store: AnswerStore
    workers: int
    folder: Path
    """Of this optimizer and this start."""
    hidden: Mapping[str, str]
    """Ids and texts of passages that no demonstration may quote."""
    settings: PromptSettings
    lms: PromptLMs = field(default_factory=PromptLMs)
    report: Callable[[Candidate], None] | None = None
    found: list[tuple[Candidate, MultiHopProgram]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """Where what optimizers print goes."""
        return self.folder / "optimizer.log"

    def student(self) -> MultiHopProgram:
        """A copy of the start in which an optimizer sees the tunable predictors alone."""
        return masked(self.start, self.paths)

    def finished(self, built: MultiHopProgram) -> MultiHopProgram:
        """What an optimizer built, made fit to keep: predictors that it may not change as they
        were, its logs and marks off, demonstrations bounded and clean."""
        program = kept(self.start, built, self.paths)
        unfreeze(program)
        strip(program)
        tidy(program, hidden=self.hidden, max_tokens=self.settings.demo_tokens)
        return program

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
            self._path(number),
            {"name": name, "score": mean, "note": note, "state": program.dump_state()},
        )
        if self.report is not None:
            self.report(candidate)
        return candidate

    def known(self, number: int, name: str) -> MultiHopProgram | None:
        """A candidate that was built before a kill, from its state."""
        path = self._path(number)
        if not path.is_file():
            return None
        saved = json.loads(path.read_text())
        if saved.get("name") != name:
            return None
        program: MultiHopProgram = self.start.deepcopy()
        program.load_state(saved["state"])
        return program

    @property
    def best(self) -> tuple[Candidate, MultiHopProgram]:
        """The best so far; of equal ones the first."""
        return max(self.found, key=lambda pair: (pair[0].score, -pair[0].number))

    def _path(self, number: int) -> Path:
        return self.folder / f"candidate-{number:03d}.json"
