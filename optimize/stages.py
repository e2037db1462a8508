"""The stages of a compile, each a nested MLflow run over the same store of answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import Benchmark, Question
from optimize import figures
from optimize.answers import AnswerStore
from optimize.budgets import BudgetChoice, TrialRow, tune_budget
from optimize.errors import OptimizeError
from optimize.evaluate import Evaluation, evaluate
from optimize.final import FinalTable, rows_text
from optimize.limits import LimitedLedger, LimitReached
from optimize.objective import Objective
from optimize.optimizers.auto import Pick
from optimize.prompt_text import prompt_diff, prompt_text
from optimize.prompts import (
    Candidate,
    PromptChoice,
    PromptLMs,
    estimate,
    pick,
    tune_prompts,
)
from optimize.recipe import SPARE, Estimate, Narrator, Recipe
from optimize.rows import RunHeader
from optimize.run import close_run, header, open_run, write_json
from optimize.thresholds import ThresholdChoice, tune_thresholds
from optimize.thresholds import need as threshold_need
from optimize.tracking import TrackedRun, Tracker
from programs import MultiHopProgram
from retrieval.contract import ReadsCorpus


@dataclass
class Work:
    """One compile under way."""

    program: MultiHopProgram
    benchmark: Benchmark
    folder: Path
    recipe: Recipe
    tracker: Tracker
    narrator: Narrator
    ceiling: bool
    store: AnswerStore
    ledger: LimitedLedger
    lms: PromptLMs
    key: str
    runs: dict[str, str] = field(default_factory=dict)

    def questions(self, split: str) -> Sequence[Question]:
        return self.benchmark.questions.get(split, ())

    @property
    def final_split(self) -> str:
        """``test``, or ``dev`` where there is none."""
        return "test" if self.questions("test") else "dev"

    @property
    def objective(self) -> Objective:
        return Objective(answer_rule=self.benchmark.answer_rule)

    @property
    def calls_left(self) -> int | None:
        """LM calls that the search may still make; None without a limit."""
        if self.ledger.max_calls is None:
            return None
        total = self.ledger.total
        asked = total.lm_calls - total.cached_calls
        return max(0, self.ledger.max_calls - self.ledger.kept_calls - asked)

    def keep_back(self, expected: Estimate) -> None:
        """Lower the search's limits by what the final table will take."""
        questions = SPARE * expected.table
        self.ledger.kept_calls = math.ceil(questions * expected.calls_each)
        self.ledger.kept_cost = questions * (expected.cost_each or 0.0)

    @contextmanager
    def stage(self, name: str, about: str, parent: TrackedRun) -> Iterator[TrackedRun]:
        """A nested run, with what the stage spent as its metrics."""
        self.narrator.stage(name, about)
        before = self.ledger.total
        with self.tracker.run(f"{self.key}-{name}", name, parent) as run:
            try:
                yield run
            finally:
                spent = asdict(self.ledger.total)
                for what, amount in asdict(before).items():
                    if isinstance(amount, (int, float)) and spent[what] is not None:
                        run.metrics({f"spent.{what}": spent[what] - amount})

    def evaluated(self, stage: str, split: str, program: MultiHopProgram, label: str) -> Evaluation:
        """A program on a split, as a run folder of its own."""
        questions = self.questions(split)
        about = header(
            program,
            questions,
            benchmark=self.benchmark.name,
            split=split,
            answer_rule=self.benchmark.answer_rule,
            ceiling=self.ceiling,
        )
        folder = self.folder / "runs" / f"{label}-{split}-{about.fingerprint[:8]}"
        result = evaluate(
            program,
            questions,
            answer_rule=self.benchmark.answer_rule,
            store=self.store,
            workers=self.recipe.workers,
            progress=lambda done, total, _: self.narrator.question(stage, done, total),
        )
        _keep_run(folder, about, questions, result)
        self.runs[f"{label}-{split}"] = str(folder)
        return result


def _keep_run(
    folder: Path, about: RunHeader, questions: Sequence[Question], result: Evaluation
) -> None:
    rows = open_run(folder, about, questions)
    for row in result.rows:
        known = rows.get(row.id, row.fingerprint)
        if known is None or known.stop_reason == "error":
            rows.put(row)
    close_run(folder, result)


def baseline(work: Work, run: TrackedRun) -> Estimate:
    """The method as it is, on dev; and from it what is to come. Raises ``OptimizeError`` when a
    limit is reached before it is measured."""
    program = work.program
    about = f"{program.info.name} as it is, on {len(work.questions('dev'))} dev questions"
    with work.stage("baseline", about, run) as stage:
        try:
            result = work.evaluated("baseline", "dev", program, "baseline")
        except LimitReached as limit:
            raise OptimizeError(
                f"{limit} is reached before the baseline is measured: allow more (what was "
                "answered is kept)"
            ) from None
        stage.params({"fingerprint": result.fingerprint, "budget": program.budget.to_json()})
        stage.metrics(result.values())
        stage.text("predictions.jsonl", rows_text(result))
        stage.text("prompts.md", prompt_text(program))
    return _estimate(work, result)


def _estimate(work: Work, result: Evaluation) -> Estimate:
    """From the baseline's mean question."""
    n = max(1, len(result.rows))
    recipe = work.recipe
    dev, train = len(work.questions("dev")), len(work.questions("train"))
    table = 2 * len(work.questions(work.final_split))
    asked = estimate(recipe.optimizer, work.program, recipe.prompts, train, dev)
    questions = recipe.trials * dev + asked.questions + table
    if recipe.thresholds is not None:
        questions += threshold_need(work.program, recipe.thresholds, train)
    values = result.values()
    seconds = sum(r.seconds for r in result.rows) / n / max(1, recipe.workers)
    return Estimate(
        questions,
        table,
        values.get("lm_calls") or 0.0,
        seconds,
        values.get("cost"),
        asked.proposals,
    )


def budget(work: Work, run: TrackedRun, program: MultiHopProgram) -> BudgetChoice:
    """An Optuna study over the method's knobs, on dev."""
    recipe = work.recipe
    about = f"up to {recipe.trials} trials on {len(work.questions('dev'))} dev questions"
    with work.stage("budget", about, run) as stage:
        if recipe.storage is not None:
            work.narrator.say(
                "other processes may join: the same command with another --out and --join "
                f"{study_name(program, work.key)}"
            )

        def told(row: TrialRow) -> None:
            stage.metrics({f"trial.{n}": v for n, v in row.values.items()}, step=row.number)
            key, name = f"{work.key}-trial-{row.number}", f"trial {row.number}"
            with work.tracker.run(key, name, stage) as nested:
                nested.params(row.point)
                nested.metrics(row.values)
                nested.tags({"state": row.state, "note": row.note})

        choice = search_budget(
            program,
            work.benchmark,
            recipe,
            work.store,
            work.folder,
            study_name(program, work.key),
            work.narrator,
            told,
        )
        stage.params({f"chosen.{n}": v for n, v in choice.point.items()})
        stage.params(
            {"rule": choice.rule, "trials": len(choice.rows), "exhausted": choice.exhausted}
        )
        stage.table("trials.csv", [_flat(row, choice) for row in choice.rows])
        stage.figure("history.png", figures.history(choice))
        stage.figure("pareto.png", figures.pareto(choice))
        if choice.importances:
            stage.figure("importances.png", figures.importances(choice))
            stage.json("importances.json", choice.importances)
        work.narrator.say(f"chosen: {choice.rule}")
    return choice


def study_name(program: MultiHopProgram, key: str) -> str:
    """A compile's budget study, whoever works on it."""
    return f"{program.info.name}-{key[:16]}"


def search_budget(
    program: MultiHopProgram,
    benchmark: Benchmark,
    recipe: Recipe,
    store: AnswerStore,
    folder: Path,
    name: str,
    narrator: Narrator,
    on_trial: Callable[[TrialRow], None] | None = None,
) -> BudgetChoice:
    """This process's part in a budget study, to its end."""

    def told(row: TrialRow) -> None:
        narrator.trial(row, recipe.trials)
        if on_trial is not None:
            on_trial(row)

    return tune_budget(
        program,
        benchmark.questions["dev"],
        store=store,
        trials=recipe.trials,
        storage=recipe.storage or folder / "study.log",
        study_name=name,
        seed=recipe.seed,
        workers=recipe.workers,
        answer_rule=benchmark.answer_rule,
        prefer=recipe.prefer,
        objective=recipe.objective,
        freeze=recipe.freeze,
        on_trial=told,
        on_wait=lambda n: narrator.say(f"waiting for {n} trials of other processes"),
    )


def _flat(row: TrialRow, choice: BudgetChoice) -> dict[str, Any]:
    return {
        "trial": row.number,
        "state": row.state,
        **row.point,
        **row.values,
        "questions": row.questions,
        "front": row.number in choice.front,
        "chosen": row.number == choice.trial,
        "note": "repeated" if row.repeated else row.note,
    }


def prompts(
    work: Work, run: TrackedRun, program: MultiHopProgram, calls_each: float
) -> PromptChoice | None:
    """A DSPy optimizer on train, its candidates chosen by dev; None where ``auto`` finds that
    none fits."""
    recipe, train = work.recipe, work.questions("train")
    optimizer: str = recipe.optimizer
    settings, why = recipe.prompts, ""
    if optimizer == "auto":
        picked = _picked(work, program, calls_each)
        optimizer, settings, why = picked.optimizer, picked.settings, picked.why
        work.narrator.say(f"prompts by {optimizer}: {why}")
        if optimizer == "none":
            return None
    with work.stage("prompts", f"{optimizer} on {len(train)} train questions", run) as stage:

        def told(candidate: Candidate) -> None:
            work.narrator.candidate(candidate)
            stage.metrics({"candidate": candidate.score}, step=candidate.number)

        choice = tune_prompts(
            program,
            train,
            work.questions("dev"),
            optimizer=optimizer,
            objective=work.objective,
            store=work.store,
            folder=work.folder / "prompts",
            workers=recipe.workers,
            hidden=_hidden(work),
            settings=settings,
            lms=work.lms,
            on_candidate=told,
        )
        stage.params(
            {
                "optimizer": optimizer,
                "picked because": why or "asked for",
                "objective": str(work.objective),
                "why": choice.why,
            }
        )
        stage.metrics({"before": choice.before, "after": choice.after})
        stage.table("candidates.csv", [asdict(c) for c in choice.candidates])
        stage.text("prompts.md", prompt_text(choice.program))
        stage.text("diff.txt", prompt_diff(program, choice.program))
        work.narrator.say(choice.why)
    return choice


def _picked(work: Work, program: MultiHopProgram, calls_each: float) -> Pick:
    """What ``auto`` takes: chosen once for a compile, so that it goes on with the same after a
    kill, when fewer calls are left."""
    path = work.folder / "prompts" / "auto.json"
    if path.is_file():
        saved = json.loads(path.read_text())
        settings = replace(work.recipe.prompts, candidates=saved["candidates"])
        return Pick(saved["optimizer"], settings, saved["why"])
    picked = pick(
        program,
        work.questions("train"),
        len(work.questions("dev")),
        work.recipe.prompts,
        lms=work.lms,
        calls_each=calls_each,
        calls_left=work.calls_left,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {
            "optimizer": picked.optimizer,
            "candidates": picked.settings.candidates,
            "why": picked.why,
        },
    )
    return picked


def _hidden(work: Work) -> dict[str, str]:
    """Passages that dev and test questions are about, with their texts where the corpus is at hand:
    no demonstration may quote them."""
    texts = {
        passage: ""
        for split in ("dev", "test")
        for question in work.questions(split)
        for passage in question.supporting
    }
    retriever = work.program.retriever
    own = retriever.corpus() if isinstance(retriever, ReadsCorpus) else ()
    for passage in work.benchmark.corpus or own:
        if passage.id in texts:
            texts[passage.id] = passage.text
    return texts


def thresholds(work: Work, run: TrackedRun, program: MultiHopProgram) -> ThresholdChoice:
    """The yes/no decisions, fitted on train."""
    assert work.recipe.thresholds is not None
    asked = min(work.recipe.thresholds.questions, len(work.questions("train")))
    about = f"yes/no decisions on {asked} train questions"
    with work.stage("thresholds", about, run) as stage:
        choice = tune_thresholds(
            program,
            work.questions("train"),
            work.questions("dev"),
            objective=work.objective,
            store=work.store,
            folder=work.folder / "prompts",
            workers=work.recipe.workers,
            settings=work.recipe.thresholds,
        )
        stage.params({"why": choice.why, "objective": str(work.objective)})
        stage.params({f"{d.path}.{d.field}": d.threshold for d in choice.fitted})
        stage.metrics({"before": choice.before, "after": choice.after})
        stage.json("report.json", list(choice.report))
        work.narrator.say(choice.why)
    if choice.stopped:
        raise LimitReached(work.ledger.reached or "a limit")
    return choice


def final(work: Work, run: TrackedRun, program: MultiHopProgram) -> FinalTable | None:
    """Baseline and compiled on test; None when a limit is reached before it is done."""
    split = work.final_split
    about = f"baseline and compiled on {len(work.questions(split))} {split} questions"
    with work.stage("final", about, run) as stage:
        try:
            before = work.evaluated("final", split, work.program, "baseline")
            after = work.evaluated("final", split, program, "compiled")
        except LimitReached:
            return None
        table = FinalTable.of(
            split,
            work.questions(split),
            before,
            after,
            ceiling=work.ceiling,
            seed=work.recipe.seed,
        )
        table.log(stage)
        stage.text("baseline.jsonl", rows_text(before))
        stage.text("compiled.jsonl", rows_text(after))
    return table
