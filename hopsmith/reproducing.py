"""Running a study of a paper: every method on every benchmark given, with every LM and setting,
each as a run folder, so that a study that was killed goes on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import Benchmark, Question, load, subset
from benchmarks.oracle import OracleError
from benchmarks.statistics import statistics
from hopsmith.commands.questions import files_of, split_of
from hopsmith.errors import HopsmithError
from hopsmith.judging import judge_run
from hopsmith.knowledge import GraphPlace
from hopsmith.lm import ORACLE
from hopsmith.running import dry_run as estimate_run
from hopsmith.running import limits, run_method
from hopsmith.session import retriever_for, say_faults, session
from hopsmith.settings import Settings
from optimize.estimate import RunEstimate
from optimize.limits import LimitedLedger
from optimize.saved import SavedRun
from optimize.studies import Column, Study
from optimize.study_table import Result, of_run, of_statistics, of_trigger
from programs import HopBudget, ProgramError, build
from programs import method as method_of
from retrieval import Retriever


@dataclass(frozen=True)
class Material:
    """What a study is run on."""

    data: Mapping[str, Path]
    """Question files by benchmark."""
    corpora: Mapping[str, Path]
    """Corpora by benchmark; the questions' pooled paragraphs without."""
    split: str = "dev"
    limit: int | None = None
    reasoning_lm: str | None = None
    """The writer's LM in columns that have one of their own."""
    judge_lm: str | None = None
    exclude: frozenset[str] = frozenset()
    """Questions left out of trigger diagnostics."""
    engine: str | None = None
    checkpoint: str | None = None


@dataclass
class Reproduced:
    """What came of it."""

    results: list[Result] = field(default_factory=list)
    runs: list[SavedRun] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What could not be run, and why, a line each."""
    estimates: dict[str, RunEstimate] = field(default_factory=dict)
    stopped: str | None = None


def reproduce(
    study: Study,
    settings: Sequence[Settings],
    material: Material,
    folder: Path,
    *,
    dry_run: bool = False,
) -> Reproduced:
    """Run a study. Benchmarks without a file are left out and named; so is a method that the LM
    can't answer for. Raises ``HopsmithError`` when nothing of it can be run."""
    unknown = sorted((set(material.data) | set(material.corpora)) - set(study.benchmarks))
    if unknown:
        raise HopsmithError(
            f"{study.name} is of {', '.join(study.benchmarks)}: it has no {', '.join(unknown)}"
        )
    given = [name for name in study.benchmarks if name in material.data]
    if not given:
        raise HopsmithError(
            f"{study.name} needs questions: give --data NAME=FILE for some of "
            f"{', '.join(study.benchmarks)}"
        )
    done = Reproduced()
    done.left_out += [f"{n}: no file given" for n in study.benchmarks if n not in given]
    ledger = limits(settings[0])
    for name in given:
        bench = load(
            name,
            corpus=material.corpora.get(name),
            seed=settings[0].seed,
            **files_of(material.split, material.data[name]),
        )
        say_faults(bench)
        questions = subset(split_of(bench, material.split), material.limit, settings[0].seed)
        if study.kind == "statistics":
            asked = replace(bench, questions={material.split: questions})
            done.results += of_statistics(statistics(asked), name)
            continue
        retriever = retriever_for(settings[0].index, bench, material.engine, material.checkpoint)
        for one in settings:
            for column in study.columns:
                work = _Cell(study, column, bench, questions, retriever, material, folder, ledger)
                work.run(_for(study, column, one, material), done, dry_run=dry_run)
                if done.stopped is not None:
                    return done
    return done


def _for(study: Study, column: Column, settings: Settings, material: Material) -> Settings:
    """Settings of a column: the writer's LM, the reasoning effort. What is measured in seconds is
    asked for without the cache, in which one method would find another's answers."""
    update: dict[str, Any] = {"lm_cache": False} if study.kind == "cost" else {}
    if column.writer and material.reasoning_lm is not None:
        update["role_lm"] = {**settings.role_lm, "writer": material.reasoning_lm}
    if column.effort is not None:
        update["reasoning_effort"] = column.effort
    return settings.model_copy(update=update)


@dataclass(frozen=True)
class _Cell:
    """One benchmark in one column: every method."""

    study: Study
    column: Column
    bench: Benchmark
    questions: Sequence[Question]
    retriever: Retriever
    material: Material
    folder: Path
    ledger: LimitedLedger

    def run(self, settings: Settings, done: Reproduced, *, dry_run: bool) -> None:
        with session(settings, self.questions) as here:
            for name in self.study.methods:
                where = f"{name} on {self.bench.name}"
                try:
                    if settings.lm == ORACLE and not method_of(name).info.oracle:
                        done.left_out.append(f"{where}: the oracle can't answer for it")
                        continue
                    program = self._program(name, settings)
                    asked = (self.bench, self.material.split, self.questions, here, self.ledger)
                    place = self.folder / "runs" / self._label(name, settings.lm)
                    if dry_run:
                        label = self._label(name, settings.lm)
                        done.estimates[label], _ = estimate_run(program, *asked, folder=place)
                        continue
                    ran = run_method(program, *asked, folder=place)
                except (OracleError, ProgramError) as fault:
                    done.left_out.append(f"{where}: {fault}")
                    continue
                if ran.stopped is not None:
                    done.stopped = ran.stopped
                    return
                done.runs.append(self._judged(ran.run, settings))
                lm, column = settings.lm, self.column.name
                of = (lm, column, name, self.bench.name)
                done.results += of_run(done.runs[-1], self.study.metrics, *of)
                if self.study.kind == "trigger":
                    done.results += of_trigger(done.runs[-1], self.material.exclude, *of)

    def _judged(self, run: SavedRun, settings: Settings) -> SavedRun:
        if self.material.judge_lm is None or "correctness" not in self.study.metrics:
            return run
        return judge_run(run, settings, self.material.judge_lm).run

    def _program(self, name: str, settings: Settings) -> Any:
        knowledge = GraphPlace.of(settings, self.bench).for_method(name, self.retriever)
        bounds = HopBudget.parse(self.column.budget, method_of(name).default_budget())
        return build(name, self.retriever, bounds, knowledge=knowledge)

    def _label(self, name: str, lm: str) -> str:
        parts = (lm.replace("/", "_"), self.column.name.replace(" ", "_"), self.bench.name, name)
        return "-".join(part for part in parts if part)
