"""Compile: the recipe of stages over train and dev, tracked, resumable, and exported at the end.

baseline → budget → prompts → thresholds → final. Each stage is a nested MLflow run. All answers
go through one store in the compile's folder, so that a killed compile pays for nothing twice.
Under a limit, what the final table takes by the baseline's measure is kept back from the search,
and the best pipeline so far is exported.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dspy

from benchmarks import Benchmark, questions_hash
from optimize import stages
from optimize.answers import AnswerStore
from optimize.budgets import BudgetChoice
from optimize.errors import OptimizeError
from optimize.export import export
from optimize.final import FinalTable
from optimize.knobs import space
from optimize.limits import LimitedLedger, LimitReached
from optimize.prompt_text import prompt_diff, prompt_text
from optimize.prompts import PromptChoice, PromptLMs
from optimize.recipe import STAGES, Narrator, Recipe
from optimize.run import write_json
from optimize.stages import Work
from optimize.study import open_study
from optimize.thresholds import ThresholdChoice
from optimize.tracing import trace
from optimize.tracking import TrackedRun, Tracker
from optimize.tunable import chosen_paths
from programs import Account, MultiHopProgram, fingerprint
from programs.faults import StopRun
from programs.fingerprint import digest, lm_identity
from programs.ledger import LEDGER


@dataclass(frozen=True)
class Compiled:
    """What came of it."""

    key: str
    program: MultiHopProgram
    final: FinalTable | None
    """None when a limit was reached before it was done."""
    budget: BudgetChoice | None
    prompts: PromptChoice | None
    thresholds: ThresholdChoice | None
    export: Path
    runs: Mapping[str, str]
    """Run folders by stage."""
    mlflow: Mapping[str, str | None]
    spent: Account
    stopped: str | None = None
    """The limit that ended the search, if one did."""


def compile_program(
    program: MultiHopProgram,
    benchmark: Benchmark,
    folder: Path,
    *,
    tracker: Tracker,
    recipe: Recipe | None = None,
    narrator: Narrator | None = None,
    ceiling: bool = False,
    lms: PromptLMs | None = None,
) -> Compiled:
    """Run the recipe with the LM and adapter of ``dspy.settings``.

    ``train`` and ``dev`` are needed; the final table is on ``test``, or on ``dev`` where there is
    no test, which it says. Started again with the same arguments it goes on where it stopped.
    Raises ``OptimizeError``, ``StopRun``, ``TooManyFailures``.
    """
    recipe = recipe or Recipe()
    lms = lms or PromptLMs()
    check_splits(benchmark)
    recipe.check()
    chosen_paths(program, recipe.prompts.parts)
    space(program, recipe.freeze)
    key = _key(program, benchmark, recipe, lms)
    if recipe.storage is not None and recipe.trials > 0:
        name = stages.study_name(program, key)
        open_study(recipe.storage, name, recipe.seed, single=bool(recipe.objective))
    _claim(folder, key)
    work = Work(
        program,
        benchmark,
        folder,
        recipe,
        tracker,
        narrator or Narrator(),
        ceiling,
        AnswerStore(folder / "answers.jsonl"),
        LimitedLedger(recipe.max_calls, recipe.max_cost, folder / "ledger.json"),
        lms,
        key,
    )
    name = f"compile {program.info.name} on {benchmark.name}"
    with tracker.run(key, name) as run, dspy.context(**{LEDGER: work.ledger}), work.ledger:
        _log_start(run, work)
        return _stages(work, run)


def join_study(
    program: MultiHopProgram,
    benchmark: Benchmark,
    folder: Path,
    study: str,
    *,
    recipe: Recipe,
    narrator: Narrator | None = None,
    lms: PromptLMs | None = None,
) -> BudgetChoice:
    """Help another process with the budget study of its compile, until the study is done. All
    arguments but ``folder`` (where this process keeps its answers) as in that compile. Raises
    ``OptimizeError`` when they make another study than ``study``."""
    if recipe.storage is None:
        raise OptimizeError("joining needs the database that the study is in: give --storage URL")
    check_splits(benchmark)
    lms = lms or PromptLMs()
    key = _key(program, benchmark, recipe, lms)
    name = stages.study_name(program, key)
    if name != study:
        raise OptimizeError(
            f"these flags make the study {name}, not {study}: give the method, LM, corpus, data "
            "and recipe of the compile that is joined"
        )
    folder.mkdir(parents=True, exist_ok=True)
    ledger = LimitedLedger(recipe.max_calls, recipe.max_cost)
    store = AnswerStore(folder / "answers.jsonl")
    with dspy.context(**{LEDGER: ledger}):
        return stages.search_budget(
            program,
            benchmark,
            recipe,
            store,
            folder,
            name,
            narrator or Narrator(),
        )


def _stages(work: Work, run: TrackedRun) -> Compiled:
    recipe, narrator = work.recipe, work.narrator
    program = work.program
    budget: BudgetChoice | None = None
    prompts: PromptChoice | None = None
    thresholds: ThresholdChoice | None = None
    stopped: str | None = None

    expected = stages.baseline(work, run)
    narrator.estimate(expected)
    work.keep_back(expected)
    try:
        if recipe.trials > 0:
            budget = stages.budget(work, run, program)
            program = budget.program
        if recipe.optimizer != "none":
            prompts = stages.prompts(work, run, program, expected.calls_each)
            program = prompts.program if prompts else program
        if recipe.thresholds is not None:
            thresholds = stages.thresholds(work, run, program)
            program = thresholds.program
    except LimitReached as limit:
        stopped = str(limit)
    stopped = stopped or work.ledger.reached
    if stopped:
        narrator.say(f"{stopped} is reached: going on with the best pipeline so far")
    work.ledger.kept_calls, work.ledger.kept_cost = 0, 0.0

    final = stages.final(work, run, program)
    if final is None:
        stopped = work.ledger.reached or "a limit"
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
    run.model(
        target / "mlflow_model",
        program.info.name,
        mark=fingerprint(program),
        registered=recipe.register,
        champion=final is not None and final.better,
    )
    write_json(
        work.folder / "compiled.json",
        {
            "final": final and {"split": final.split, **final.to_json()},
            "budget": program.budget.to_json(),
            "fingerprint": fingerprint(program),
            "stopped": stopped,
        },
    )
    if recipe.traces:
        _trace(work, program)
    names = (work.key, *(f"{work.key}-{stage}" for stage in STAGES))
    return Compiled(
        work.key,
        program,
        final,
        budget,
        prompts,
        thresholds,
        target,
        work.runs,
        {name: work.tracker.run_id(name) for name in names},
        work.ledger.total,
        stopped,
    )


def _trace(work: Work, program: MultiHopProgram) -> None:
    """Traces of a few questions of the final table, on the compile's run once MLflow has it."""
    run_id = work.tracker.delivered(work.key)
    if run_id is None:
        work.narrator.say("no traces: MLflow has not been reached")
        return
    questions = list(work.questions(work.final_split))[: work.recipe.traces]
    work.narrator.say(f"tracing {len(questions)} questions")
    try:
        written = trace(program, questions, work.tracker.uri, run_id)
    except (LimitReached, StopRun) as fault:
        work.narrator.say(f"no more traces: {fault}")
        return
    if written < len(questions):
        work.narrator.say(f"{written} of {len(questions)} traces were written")


def _about(work: Work) -> dict[str, Any]:
    recipe = work.recipe
    splits = ", ".join(f"{len(q)} {s}" for s, q in work.benchmark.questions.items())
    about = {
        "benchmark": f"{work.benchmark.name} ({splits} questions)",
        "recipe": f"{recipe.trials} budget trials, prompts by {recipe.optimizer}, "
        f"seed {recipe.seed}" + (", thresholds fitted" if recipe.thresholds else ""),
        "scores above": f"on {work.final_split}",
    }
    total = work.ledger.total
    about["spent"] = (
        f"{total.lm_calls} LM calls, {total.prompt_tokens + total.completion_tokens} tokens"
    )
    if work.final_split == "dev":
        about["warning"] = "there was no test split: these scores are of the questions tuned on"
    return about


def _log_start(run: TrackedRun, work: Work) -> None:
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
            **_flat_recipe(work.recipe),
            **{f"lm.{role}": lm.model for role, lm in work.lms.named.items()},
        }
    )
    for split, questions in work.benchmark.questions.items():
        run.dataset(f"{work.benchmark.name}-{split}", questions_hash(questions), split)
    corpus = getattr(program.retriever, "corpus_hash", None)
    if corpus:
        run.dataset(f"{work.benchmark.name}-corpus", corpus, "index")


def _flat_recipe(recipe: Recipe) -> dict[str, Any]:
    """A recipe as parameters by dotted name."""
    found: dict[str, Any] = {}
    for name, value in asdict(recipe).items():
        if isinstance(value, dict):
            found.update({f"recipe.{name}.{k}": v for k, v in value.items()})
        else:
            found[f"recipe.{name}"] = value
    return found


def check_splits(benchmark: Benchmark) -> None:
    """Raise ``OptimizeError`` when train or dev is missing, or a question is in two splits: nothing
    that tunes may see a test question. Nor may two questions have one id: answers are kept by it.
    """
    for split in ("train", "dev"):
        if not benchmark.questions.get(split):
            raise OptimizeError(f"compile needs {split} questions: give --{split} FILE")
    seen: dict[str, str] = {}
    ids: dict[str, str] = {}
    for split, questions in benchmark.questions.items():
        for question in questions:
            other = seen.setdefault(question.question, split)
            if other != split:
                raise OptimizeError(
                    f"the question {question.question[:80]!r} is in {other} and in {split}: a "
                    "compile needs splits without shared questions"
                )
            if (other := ids.setdefault(question.id, split)) != split:
                raise OptimizeError(
                    f"the id {question.id!r} is in {other} and in {split}: give every question an "
                    "id of its own, or leave ids out"
                )


def _key(program: MultiHopProgram, benchmark: Benchmark, recipe: Recipe, lms: PromptLMs) -> str:
    """What a compile is: the same key goes on where it stopped."""
    hashes = {s: questions_hash(q) for s, q in sorted(benchmark.questions.items())}
    others = {role: lm_identity(lm) for role, lm in lms.named.items()}
    corpus = getattr(program.retriever, "corpus_hash", None)
    return digest([fingerprint(program), corpus, hashes, recipe.settings(), others])[:24]


def _claim(folder: Path, key: str) -> None:
    """A folder belongs to one compile. Raises ``OptimizeError`` when it is another's."""
    path = folder / "compile.json"
    if path.is_file():
        if json.loads(path.read_text()).get("key") != key:
            raise OptimizeError(
                f"{folder} holds another compile (another method, LM, corpus, data or recipe): "
                "give another --out"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        ours = {"cache", "mlflow.db", "spool", "mlartifacts"}
        if {p.name for p in folder.iterdir()} - ours:
            raise OptimizeError(f"{folder} is not empty and holds no compile: give another --out")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    write_json(path, {"key": key, "started": now})
