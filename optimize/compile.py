"""Compile: the recipe of stages over train and dev, tracked, resumable, and exported at the end.

baseline → budget → prompts → final. Each stage is a nested MLflow run. All answers go through one
store in the compile's folder, so that a killed compile pays for nothing twice. Under a limit, what
the final table takes by the baseline's measure is kept back from the search, and the best pipeline
so far is exported.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dspy

from benchmarks import Benchmark, Question, questions_hash
from optimize import figures
from optimize.answers import AnswerStore
from optimize.budgets import BudgetChoice, Prefer, TrialRow, tune_budget
from optimize.errors import OptimizeError
from optimize.evaluate import Evaluation, evaluate
from optimize.export import export
from optimize.final import FinalTable, rows_text
from optimize.limits import LimitedLedger, LimitReached
from optimize.objective import Objective
from optimize.prompt_text import prompt_diff, prompt_text
from optimize.prompts import Candidate, Optimizer, PromptChoice, PromptSettings, tune_prompts
from optimize.rows import RunHeader
from optimize.run import close_run, header, open_run, write_json
from optimize.tracking import TrackedRun, Tracker
from programs import Account, MultiHopProgram, fingerprint
from programs.fingerprint import digest
from programs.ledger import LEDGER

STAGES = ("baseline", "budget", "prompts", "final")

SPARE = 1.2
"""A compiled pipeline may take this much more than the baseline did, in what is kept back."""


@dataclass(frozen=True)
class Recipe:
    """What a compile does."""

    trials: int = 12
    optimizer: Optimizer = "bootstrap"
    prefer: Prefer = "balanced"
    objective: str | None = None
    freeze: tuple[str, ...] = ()
    prompts: PromptSettings = field(default_factory=PromptSettings)
    seed: int = 0
    workers: int = 4
    max_calls: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True)
class Estimate:
    """What a compile will take at most, from the baseline's mean question."""

    questions: int
    """In all that is to come."""
    table: int
    """Of these, questions of the final table."""
    calls_each: float
    seconds_each: float
    cost_each: float | None


@dataclass(frozen=True)
class Compiled:
    """What came of it."""

    program: MultiHopProgram
    final: FinalTable | None
    """None when a limit was reached before it was done."""
    budget: BudgetChoice | None
    prompts: PromptChoice | None
    export: Path
    runs: Mapping[str, str]
    """Run folders by stage."""
    mlflow: Mapping[str, str | None]
    spent: Account
    stopped: str | None = None
    """The limit that ended the search, if one did."""


class Narrator:
    """Told what happens; the command line's one prints it. Override what you want to hear."""

    def stage(self, name: str, about: str) -> None: ...

    def estimate(self, estimate: Estimate) -> None: ...

    def question(self, stage: str, done: int, total: int) -> None: ...

    def trial(self, row: TrialRow, of: int) -> None: ...

    def candidate(self, candidate: Candidate) -> None: ...

    def say(self, line: str) -> None: ...


@dataclass
class _Work:
    program: MultiHopProgram
    benchmark: Benchmark
    folder: Path
    recipe: Recipe
    tracker: Tracker
    narrator: Narrator
    ceiling: bool
    store: AnswerStore
    ledger: LimitedLedger
    runs: dict[str, str] = field(default_factory=dict)

    def questions(self, split: str) -> Sequence[Question]:
        return self.benchmark.questions.get(split, ())

    @property
    def final_split(self) -> str:
        """``test``, or ``dev`` where there is none."""
        return "test" if self.questions("test") else "dev"

    def keep_back(self, estimate: Estimate) -> None:
        """Lower the search's limits by what the final table will take."""
        questions = SPARE * estimate.table
        self.ledger.kept_calls = math.ceil(questions * estimate.calls_each)
        self.ledger.kept_cost = questions * (estimate.cost_each or 0.0)

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
        _keep_run(folder, about, result)
        self.runs[f"{label}-{split}"] = str(folder)
        return result


def _keep_run(folder: Path, about: RunHeader, result: Evaluation) -> None:
    rows = open_run(folder, about)
    for row in result.rows:
        if rows.get(row.id, row.fingerprint) is None:
            rows.put(row)
    close_run(folder, result)


def compile_program(
    program: MultiHopProgram,
    benchmark: Benchmark,
    folder: Path,
    *,
    tracker: Tracker,
    recipe: Recipe | None = None,
    narrator: Narrator | None = None,
    ceiling: bool = False,
    teacher_lm: dspy.LM | None = None,
) -> Compiled:
    """Run the recipe with the LM and adapter of ``dspy.settings``.

    ``train`` and ``dev`` are needed; the final table is on ``test``, or on ``dev`` where there is
    no test, which it says. Started again with the same arguments it goes on where it stopped.
    Raises ``OptimizeError``, ``StopRun``, ``TooManyFailures``.
    """
    recipe = recipe or Recipe()
    narrator = narrator or Narrator()
    check_splits(benchmark)
    key = _key(program, benchmark, recipe)
    _claim(folder, key)
    work = _Work(
        program,
        benchmark,
        folder,
        recipe,
        tracker,
        narrator,
        ceiling,
        AnswerStore(folder / "answers.jsonl"),
        LimitedLedger(recipe.max_calls, recipe.max_cost),
    )
    name = f"compile {program.info.name} on {benchmark.name}"
    with tracker.run(key, name) as run, dspy.context(**{LEDGER: work.ledger}):
        _log_start(run, work)
        return _stages(work, run, key, teacher_lm)


def _stages(work: _Work, run: TrackedRun, key: str, teacher_lm: dspy.LM | None) -> Compiled:
    recipe, narrator = work.recipe, work.narrator
    program = work.program
    budget: BudgetChoice | None = None
    prompts: PromptChoice | None = None
    stopped: str | None = None
    dev = work.questions("dev")

    narrator.stage("baseline", f"{program.info.name} as it is, on {len(dev)} dev questions")
    with work.tracker.run(f"{key}-baseline", "baseline", run) as stage:
        try:
            result = work.evaluated("baseline", "dev", program, "baseline")
        except LimitReached as limit:
            raise OptimizeError(
                f"{limit} is reached before the baseline is measured: allow more (what was "
                "answered is kept)"
            ) from None
        _log_evaluation(stage, result, program)
    estimate = _estimate(work, result)
    narrator.estimate(estimate)
    work.keep_back(estimate)

    try:
        if recipe.trials > 0:
            narrator.stage("budget", f"up to {recipe.trials} trials on {len(dev)} dev questions")
            with work.tracker.run(f"{key}-budget", "budget", run) as stage:
                budget = _budget(work, stage, program, key)
                program = budget.program
                narrator.say(f"chosen: {budget.rule}")
        if recipe.optimizer != "none":
            narrator.stage(
                "prompts", f"{recipe.optimizer} on {len(work.questions('train'))} train questions"
            )
            with work.tracker.run(f"{key}-prompts", "prompts", run) as stage:
                prompts = _prompts(work, stage, program, teacher_lm)
                program = prompts.program
                narrator.say(prompts.why)
    except LimitReached as limit:
        stopped = str(limit)
    stopped = stopped or work.ledger.reached
    if stopped:
        narrator.say(f"{stopped} is reached: going on with the best pipeline so far")
    work.ledger.kept_calls, work.ledger.kept_cost = 0, 0.0

    final: FinalTable | None = None
    n = len(work.questions(work.final_split))
    narrator.stage("final", f"baseline and compiled on {n} {work.final_split} questions")
    with work.tracker.run(f"{key}-final", "final", run) as stage:
        try:
            final = _final(work, stage, program)
        except LimitReached as limit:
            stopped = str(limit)
            narrator.say(f"{stopped} is reached: exported without a final table")
    scores = {} if final is None else {final.split: final.to_json()}
    target = export(program, work.folder / "export", scores=scores, about=_about(work))
    if final is not None:
        run.metrics({f"final.{n}": v for n, v in final.compiled.items()})
        run.metrics({f"baseline.{n}": v for n, v in final.baseline.items()})
    run.text("prompts/before.md", prompt_text(work.program))
    run.text("prompts/after.md", prompt_text(program))
    run.text("prompts/diff.txt", prompt_diff(work.program, program))
    run.json("ledger.json", work.ledger.to_json())
    run.folder("export", target)
    write_json(
        work.folder / "compiled.json",
        {
            "final": final and {"split": final.split, **final.to_json()},
            "budget": program.budget.to_json(),
            "fingerprint": fingerprint(program),
            "stopped": stopped,
        },
    )
    return Compiled(
        program,
        final,
        budget,
        prompts,
        target,
        work.runs,
        {name: work.tracker.run_id(name) for name in (key, *(f"{key}-{s}" for s in STAGES))},
        work.ledger.total,
        stopped,
    )


def _final(work: _Work, stage: TrackedRun, program: MultiHopProgram) -> FinalTable:
    split = work.final_split
    before = work.evaluated("final", split, work.program, "baseline")
    after = work.evaluated("final", split, program, "compiled")
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


def _budget(work: _Work, stage: TrackedRun, program: MultiHopProgram, key: str) -> BudgetChoice:
    recipe = work.recipe

    def told(row: TrialRow) -> None:
        work.narrator.trial(row, recipe.trials)
        stage.metrics({f"trial.{n}": v for n, v in row.values.items()}, step=row.number)
        with work.tracker.run(f"{key}-trial-{row.number}", f"trial {row.number}", stage) as nested:
            nested.params(row.point)
            nested.metrics(row.values)
            nested.tags({"state": row.state, "note": row.note})

    choice = tune_budget(
        program,
        work.questions("dev"),
        store=work.store,
        trials=recipe.trials,
        storage=work.folder / "study.log",
        study_name=f"{program.info.name}-{fingerprint(program)[:16]}",
        seed=recipe.seed,
        workers=recipe.workers,
        answer_rule=work.benchmark.answer_rule,
        prefer=recipe.prefer,
        objective=recipe.objective,
        freeze=recipe.freeze,
        on_trial=told,
    )
    stage.params({f"chosen.{n}": v for n, v in choice.point.items()})
    stage.params({"rule": choice.rule, "trials": len(choice.rows), "exhausted": choice.exhausted})
    stage.table("trials.csv", [_flat(row, choice) for row in choice.rows])
    stage.figure("history.png", figures.history(choice))
    stage.figure("pareto.png", figures.pareto(choice))
    return choice


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


def _prompts(
    work: _Work, stage: TrackedRun, program: MultiHopProgram, teacher_lm: dspy.LM | None
) -> PromptChoice:
    recipe = work.recipe
    objective = Objective(answer_rule=work.benchmark.answer_rule)
    hidden = {
        passage
        for split in ("dev", "test")
        for question in work.questions(split)
        for passage in question.supporting
    }

    def told(candidate: Candidate) -> None:
        work.narrator.candidate(candidate)
        stage.metrics({"candidate": candidate.score}, step=candidate.number)

    choice = tune_prompts(
        program,
        work.questions("train"),
        work.questions("dev"),
        optimizer=recipe.optimizer,
        objective=objective,
        store=work.store,
        folder=work.folder / "prompts",
        workers=recipe.workers,
        hidden=hidden,
        settings=recipe.prompts,
        teacher_lm=teacher_lm,
        on_candidate=told,
    )
    stage.params({"optimizer": recipe.optimizer, "objective": str(objective), "why": choice.why})
    stage.metrics({"before": choice.before, "after": choice.after})
    stage.table("candidates.csv", [asdict(c) for c in choice.candidates])
    stage.text("prompts.md", prompt_text(choice.program))
    stage.text("diff.txt", prompt_diff(program, choice.program))
    return choice


def _estimate(work: _Work, result: Evaluation) -> Estimate:
    """From the baseline's mean question."""
    n = max(1, len(result.rows))
    recipe = work.recipe
    candidates = recipe.prompts.candidates if recipe.optimizer != "none" else 0
    dev, train = len(work.questions("dev")), len(work.questions("train"))
    table = 2 * len(work.questions(work.final_split))
    questions = recipe.trials * dev + candidates * (dev + min(train, 4 * recipe.prompts.max_demos))
    values = result.values()
    seconds = sum(r.seconds for r in result.rows) / n / max(1, recipe.workers)
    return Estimate(
        questions + table, table, values.get("lm_calls") or 0.0, seconds, values.get("cost")
    )


def _about(work: _Work) -> dict[str, Any]:
    recipe = work.recipe
    splits = ", ".join(f"{len(q)} {s}" for s, q in work.benchmark.questions.items())
    about = {
        "benchmark": f"{work.benchmark.name} ({splits} questions)",
        "recipe": f"{recipe.trials} budget trials, prompts by {recipe.optimizer}, "
        f"seed {recipe.seed}",
        "scores above": f"on {work.final_split}",
    }
    total = work.ledger.total
    about["spent"] = (
        f"{total.lm_calls} LM calls, {total.prompt_tokens + total.completion_tokens} tokens"
    )
    if work.final_split == "dev":
        about["warning"] = "there was no test split: these scores are of the questions tuned on"
    return about


def _log_start(run: TrackedRun, work: _Work) -> None:
    program = work.program
    run.params(
        {
            "method": program.info.name,
            "benchmark": work.benchmark.name,
            "fingerprint": fingerprint(program),
            "lm": getattr(dspy.settings.lm, "model", "none"),
            "retriever": digest(getattr(program.retriever, "identity", {}))[:16],
            "corpus_hash": getattr(program.retriever, "corpus_hash", "unknown"),
            "ceiling": work.ceiling,
            **{f"recipe.{k}": v for k, v in asdict(work.recipe).items() if k != "prompts"},
            **{f"recipe.prompts.{k}": v for k, v in asdict(work.recipe.prompts).items()},
        }
    )
    for split, questions in work.benchmark.questions.items():
        run.dataset(f"{work.benchmark.name}-{split}", questions_hash(questions), split)


def _log_evaluation(stage: TrackedRun, result: Evaluation, program: MultiHopProgram) -> None:
    stage.params({"fingerprint": result.fingerprint, "budget": program.budget.to_json()})
    stage.metrics(result.values())
    stage.text("predictions.jsonl", rows_text(result))
    stage.text("prompts.md", prompt_text(program))


def check_splits(benchmark: Benchmark) -> None:
    """Raise ``OptimizeError`` when train or dev is missing, or a question is in two splits: nothing
    that tunes may see a test question."""
    for split in ("train", "dev"):
        if not benchmark.questions.get(split):
            raise OptimizeError(f"compile needs {split} questions: give --{split} FILE")
    seen: dict[str, str] = {}
    for split, questions in benchmark.questions.items():
        for question in questions:
            other = seen.setdefault(question.question, split)
            if other != split:
                raise OptimizeError(
                    f"the question {question.question[:80]!r} is in {other} and in {split}: a "
                    "compile needs splits without shared questions"
                )


def _key(program: MultiHopProgram, benchmark: Benchmark, recipe: Recipe) -> str:
    """What a compile is: the same key goes on where it stopped."""
    hashes = {s: questions_hash(q) for s, q in sorted(benchmark.questions.items())}
    settings = {
        k: v for k, v in asdict(recipe).items() if k not in ("workers", "max_calls", "max_cost")
    }
    return digest([fingerprint(program), hashes, settings])[:24]


def _claim(folder: Path, key: str) -> None:
    """A folder belongs to one compile. Raises ``OptimizeError`` when it is another's."""
    path = folder / "compile.json"
    if path.is_file():
        import json

        if json.loads(path.read_text()).get("key") != key:
            raise OptimizeError(
                f"{folder} holds another compile (another method, LM, data or recipe): give "
                "another --out"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        ours = {"cache", "mlflow.db", "spool", "mlartifacts"}
        if {p.name for p in folder.iterdir()} - ours:
            raise OptimizeError(f"{folder} is not empty and holds no compile: give another --out")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    write_json(path, {"key": key, "started": now})
