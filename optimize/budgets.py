"""Budgets: an Optuna study over exactly the knobs that a method declares, its parts' included.

Objectives are F1 and hop recall (up) and LM calls (down), or one number by a formula, which may
count seconds too (then no trial is dropped early: it may be fast). The default
budget is trial 0. A point that comes again returns its stored result, answers known under the same
fingerprint are reused, an exhausted space ends the stage, and a paired sequential test drops
hopeless trials (``optimize.sequential``; ``Trial.report`` does not exist for several objectives).
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.question import Question
from metrics.record import Record
from optimize.answers import AnswerStore
from optimize.evaluate import evaluate
from optimize.formula import NAMES, OBJECTIVES, Formula
from optimize.knobs import Point, at_point, point_of, size, space
from optimize.limits import LimitReached
from optimize.sequential import Scored, hopeless, is_look
from optimize.study import complete_state, lease, open_study, reap, sampler, wait_for_others
from programs import Knob, MultiHopProgram

Prefer = Literal["cheap", "balanced", "best"]
Report = Callable[["TrialRow"], None]


@dataclass(frozen=True)
class TrialRow:
    """One trial, as the table shows it."""

    number: int
    point: Mapping[str, Any]
    state: Literal["complete", "pruned", "failed", "running"]
    values: Mapping[str, float] = field(default_factory=dict)
    """Means of ``formula.NAMES``; of a pruned trial over the questions that it got to."""
    questions: int = 0
    repeated: bool = False
    """A point asked for again: its stored result was returned."""
    note: str = ""


@dataclass(frozen=True)
class BudgetChoice:
    """What the stage chose."""

    program: MultiHopProgram
    point: Mapping[str, Any]
    trial: int
    rule: str
    """Why, in a sentence with its numbers."""
    rows: tuple[TrialRow, ...]
    front: tuple[int, ...]
    """Numbers of the trials that no other beats in every objective."""
    exhausted: bool = False
    stopped: bool = False
    """The call limit ended the stage."""
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of an objective's variance that each knob explains, by objective."""


def tune_budget(
    program: MultiHopProgram,
    questions: Sequence[Question],
    *,
    store: AnswerStore,
    trials: int,
    storage: str | Path,
    study_name: str,
    seed: int = 0,
    workers: int = 4,
    answer_rule: str = "squad",
    prefer: Prefer = "balanced",
    objective: str | None = None,
    freeze: Collection[str] = (),
    on_trial: Report | None = None,
    prune: bool = True,
    on_wait: Callable[[int], None] | None = None,
) -> BudgetChoice:
    """Search a program's budget on ``questions`` (dev) until the study has ``trials`` trials.

    ``storage`` is a file (Optuna's journal) or a database URL; several processes may work on one
    study: together they make ``trials``, and each waits for the others' last ones (``on_wait`` is
    told how many). A study that was there before is gone on with. Raises ``OptimizeError``.
    """
    import optuna

    knobs = space(program, freeze)
    formula = Formula(objective) if objective else None
    study = open_study(storage, study_name, seed, formula is not None)
    reap(study)
    prune = prune and not (formula is not None and formula.timed)
    work = _Search(program, knobs, questions, store, seed, workers, answer_rule, formula, prune)
    if not study.get_trials(deepcopy=False) and knobs:
        study.enqueue_trial(_encoded(knobs, point_of(program, knobs)), skip_if_exists=True)
    exhausted = stopped = False
    while knobs:
        started = _started(study)
        exhausted = len({_key(t.params) for t in started}) >= size(knobs)
        if len(started) >= trials or exhausted:
            if wait_for_others(study, on_wait):
                continue
            break
        study.sampler = sampler(seed, len(study.get_trials(deepcopy=False)))
        trial = study.ask(_distributions(knobs))
        trial.set_user_attr("lease", lease())
        if sum(t.number < trial.number for t in _started(study)) >= trials:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        try:
            row = work.run(study, trial)
        except BaseException as fault:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial(trial.params)  # for the next start, or another process
            if not isinstance(fault, LimitReached):
                raise
            stopped = True
            break
        if on_trial is not None:
            on_trial(row)
    rows = tuple(trial_rows(study, knobs))
    choice = _choose(program, knobs, _f1_by_trial(study), rows, prefer, formula, exhausted, stopped)
    return replace(choice, importances=importances(study, formula))


def _started(study: Any) -> list[Any]:
    """Trials that count: neither given up nor waiting in line."""
    every = study.get_trials(deepcopy=False)
    return [t for t in every if t.state.name not in ("FAIL", "WAITING")]


class _Search:
    """One process's part in a study."""

    def __init__(
        self,
        program: MultiHopProgram,
        knobs: Mapping[str, Knob],
        questions: Sequence[Question],
        store: AnswerStore,
        seed: int,
        workers: int,
        answer_rule: str,
        formula: Formula | None,
        prune: bool,
    ) -> None:
        self.program = program
        self.knobs = knobs
        self.questions = questions
        self.store = store
        self.seed = seed
        self.workers = workers
        self.answer_rule = answer_rule
        self.formula = formula
        self.prune = prune

    def run(self, study: Any, trial: Any) -> TrialRow:
        import optuna

        point = _decoded(self.knobs, trial.params)
        before = self._stored(study, trial)
        if before is not None:
            values = before.user_attrs["means"]
            trial.set_user_attr("means", values)
            trial.set_user_attr("scores", before.user_attrs["scores"])
            trial.set_user_attr("repeats", before.number)
            study.tell(trial, self._values(values))
            return TrialRow(
                trial.number, point, "complete", values, len(before.user_attrs["scores"]), True
            )
        front = self._front(study)
        beaten: list[int] = []

        def stop(records: Sequence[Record]) -> bool:
            trial.set_user_attr("lease", lease())
            if not self.prune or len(records) == len(self.questions) or not is_look(len(records)):
                return False
            scores = {r.id: scored(r) for r in records}
            at = hopeless(scores, [f[1] for f in front], len(self.questions))
            if at is not None:
                beaten.append(front[at][0])
            return at is not None

        result = evaluate(
            at_point(self.program, self.knobs, point),
            self._order(trial.number),
            answer_rule=self.answer_rule,
            store=self.store,
            workers=self.workers,
            stop=stop,
        )
        scores = {r.id: scored(r) for r in result.records}
        means = _means(scores.values())
        trial.set_user_attr("means", means)
        trial.set_user_attr(
            "scores", {q: [getattr(s, n) for n in NAMES] for q, s in scores.items()}
        )
        trial.set_user_attr("failed", result.failed)
        if beaten:
            note = f"hopeless against trial {beaten[0]} after {len(scores)} questions"
            trial.set_user_attr("note", note)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return TrialRow(trial.number, point, "pruned", means, len(scores), note=note)
        study.tell(trial, self._values(means))
        return TrialRow(trial.number, point, "complete", means, len(scores))

    def _order(self, number: int) -> list[Question]:
        """Questions in an order of this seed and trial, so that pruning looks at no fixed few."""
        order = list(self.questions)
        random.Random(f"{self.seed}-{number}").shuffle(order)
        return order

    def _values(self, means: Mapping[str, float]) -> list[float] | float:
        if self.formula is not None:
            return self.formula(means)
        return [means[name] for name in OBJECTIVES]

    def _stored(self, study: Any, trial: Any) -> Any:
        key = _key(trial.params)
        for other in study.get_trials(deepcopy=False, states=complete_state()):
            if _key(other.params) == key and "means" in other.user_attrs:
                return other
        return None

    def _front(self, study: Any) -> list[tuple[int, dict[str, Scored]]]:
        done = list(study.get_trials(deepcopy=False, states=complete_state()))
        means = {t.number: t.user_attrs["means"] for t in done}
        keep = set(front_of(means))
        return [
            (t.number, {q: Scored(*s) for q, s in t.user_attrs["scores"].items()})
            for t in done
            if t.number in keep
        ]


def scored(record: Record) -> Scored:
    """A record's objectives; unanswerable questions count as answered when nothing was said, and
    questions without gold passages as found, so that no trial gains by leaving them out."""
    from metrics import metric

    f1 = metric("f1").score(record)
    if f1 is None:
        f1 = float(record.answer is None and record.error is None)
    recall = metric("hop_recall").score(record)
    found = 1.0 if recall is None else recall
    return Scored(f1, found, float(record.usage.lm_calls), record.seconds)


def _means(scores: Collection[Scored]) -> dict[str, float]:
    n = max(1, len(scores))
    return {name: math.fsum(getattr(s, name) for s in scores) / n for name in NAMES}


def front_of(means: Mapping[int, Mapping[str, float]]) -> list[int]:
    """Trials that no other is at least as good as in every objective and better in one."""

    def beats(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
        pairs = [(a["f1"], b["f1"]), (a["hop_recall"], b["hop_recall"])]
        pairs.append((-a["lm_calls"], -b["lm_calls"]))
        return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)

    return [n for n, m in means.items() if not any(beats(other, m) for other in means.values())]


def _choose(
    program: MultiHopProgram,
    knobs: Mapping[str, Knob],
    f1: Mapping[int, Mapping[str, float]],
    rows: tuple[TrialRow, ...],
    prefer: Prefer,
    formula: Formula | None,
    exhausted: bool,
    stopped: bool,
) -> BudgetChoice:
    """The pick. By F1 on dev alone the best is a winner's curse, so ``balanced`` takes the trial
    with the fewest LM calls within one paired standard error of the best, ``cheap`` within two."""
    done = [r for r in rows if r.state == "complete" and not r.repeated]
    if not done:
        point = point_of(program, knobs)
        why = "no trial was finished: the budget stays as it was"
        return BudgetChoice(program, point, -1, why, rows, (), exhausted, stopped)
    front = tuple(front_of({r.number: r.values for r in done}))

    def goal(row: TrialRow) -> float:
        return formula(row.values) if formula is not None else row.values["f1"]

    best = max(done, key=lambda r: (goal(r), r.values["hop_recall"], -r.values["lm_calls"]))
    name = formula.text if formula is not None else "F1"
    if prefer == "best" or formula is not None:
        rule = f"trial {best.number} has the best {name} on dev, {goal(best):.3f}"
        return BudgetChoice(
            at_point(program, knobs, best.point), best.point, best.number, rule, rows, front,
            exhausted, stopped,
        )  # fmt: skip
    width = {"balanced": 1.0, "cheap": 2.0}[prefer]
    near = []
    for row in done:
        gap, error = paired(f1[best.number], f1[row.number])
        if gap <= width * error:
            near.append((row.values["lm_calls"], -row.values["f1"], row.number, row, gap, error))
    _, _, _, pick, gap, error = min(near, key=lambda n: n[:3])
    rule = (
        f"trial {pick.number}: fewest LM calls ({pick.values['lm_calls']:.2f}) within {width:g} "
        f"paired standard error of the best F1 on dev (trial {best.number}: "
        f"{best.values['f1']:.3f}; gap {gap:.3f}, standard error {error:.3f})"
    )
    return BudgetChoice(
        at_point(program, knobs, pick.point), pick.point, pick.number, rule, rows, front,
        exhausted, stopped,
    )  # fmt: skip


def importances(study: Any, formula: Formula | None) -> dict[str, dict[str, float]]:
    """Optuna's parameter importances by objective, for values that are good (its evaluator looks
    at low ones); an objective that didn't vary is left out."""
    import optuna

    names = (formula.text,) if formula is not None else OBJECTIVES
    done = study.get_trials(deepcopy=False, states=complete_state())
    found: dict[str, dict[str, float]] = {}
    for place, name in enumerate(names):
        if len({t.values[place] for t in done}) < 2:
            continue

        sign = 1.0 if name == "lm_calls" else -1.0

        def value(trial: Any, place: int = place, sign: float = sign) -> float:
            return sign * float(trial.values[place])

        with contextlib.suppress(RuntimeError, ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it looks at low values
            found[name] = dict(optuna.importance.get_param_importances(study, target=value))
    return found


def _f1_by_trial(study: Any) -> dict[int, dict[str, float]]:
    """F1 by question, as each finished trial stored it."""
    return {
        t.number: {q: s[0] for q, s in t.user_attrs["scores"].items()}
        for t in study.get_trials(deepcopy=False, states=complete_state())
    }


def paired(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[float, float]:
    """Mean of a − b over shared questions, and its standard error."""
    differences = [a[q] - b[q] for q in a if q in b]
    n = len(differences)
    mean = math.fsum(differences) / n
    if n < 2:
        return mean, 0.0
    variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1)
    return mean, math.sqrt(variance / n)


def trial_rows(study: Any, knobs: Mapping[str, Knob]) -> list[TrialRow]:
    """The trial table."""
    names: dict[str, Literal["complete", "pruned", "failed", "running"]] = {
        "COMPLETE": "complete",
        "PRUNED": "pruned",
        "FAIL": "failed",
        "RUNNING": "running",
    }
    return [
        TrialRow(
            number=t.number,
            point=_decoded(knobs, t.params),
            state=names[t.state.name],
            values=t.user_attrs.get("means", {}),
            questions=len(t.user_attrs.get("scores", {})),
            repeated="repeats" in t.user_attrs,
            note=t.user_attrs.get("note", ""),
        )
        for t in study.get_trials(deepcopy=False)
        if t.state.name in names and set(knobs) <= set(t.params)
    ]


def _distributions(knobs: Mapping[str, Knob]) -> dict[str, Any]:
    """Each knob by the index of its value, which keeps the order of cost for the sampler."""
    from optuna.distributions import IntDistribution

    return {name: IntDistribution(0, len(knob.values) - 1) for name, knob in knobs.items()}


def _encoded(knobs: Mapping[str, Knob], point: Point) -> dict[str, int]:
    return {name: knob.values.index(point[name]) for name, knob in knobs.items()}


def _decoded(knobs: Mapping[str, Knob], params: Mapping[str, int]) -> dict[str, Any]:
    return {name: knob.values[params[name]] for name, knob in knobs.items() if name in params}


def _key(params: Mapping[str, Any]) -> str:
    return json.dumps(dict(params), sort_keys=True)
