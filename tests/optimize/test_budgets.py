"""Budget search."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark, synthetic
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import stand_in
from optimize.answers import AnswerStore
from optimize.budgets import front_of, paired, tune_budget
from optimize.errors import OptimizeError
from optimize.formula import Formula
from optimize.knobs import at_point, point_of, size, space
from optimize.sequential import Scored, hopeless
from optimize.study import open_study
from programs import HopBudget, build


@pytest.fixture(scope="module")
def chains() -> Benchmark:
    """Chains of exactly three hops."""
    return synthetic(24, 60, seed=5, kinds=("bridge",), hops=(3,))


def tune(chains: Benchmark, words: Any, folder: Path, **more: Any) -> Any:
    every = [q for s in chains.questions.values() for q in s]
    with dspy.context(
        lm=stand_in("oracle/gold"), adapter=OracleAdapter(every), disable_history=True
    ):
        return tune_budget(
            build("decompose", type(words)(chains.corpus)),
            chains.questions["train"],
            **{
                "store": AnswerStore(folder / "answers.jsonl"),
                "trials": 8,
                "storage": folder / "study.log",
                "study_name": "s",
                "answer_rule": "hotpotqa",
                "freeze": ("candidates", "think.planner", "think.resolver", "think.synthesizer"),
                **more,
            },
        )


def test_three_hop_chains_make_the_search_allow_three_sub_questions(
    chains: Benchmark, words: Any, tmp_path: Path
) -> None:
    choice = tune(chains, words, tmp_path, trials=12)
    assert choice.point["sub_queries"] >= 3
    assert choice.rows[0].point == {"passages": 5, "sub_queries": 5}
    assert choice.program.budget.sub_queries == choice.point["sub_queries"]
    assert str(choice.trial) in choice.rule


def test_a_repeated_point_is_not_asked_again(chains: Benchmark, words: Any, tmp_path: Path) -> None:
    frozen = (
        "passages",
        "candidates",
        "think.planner",
        "think.resolver",
        "think.synthesizer",
    )
    choice = tune(chains, words, tmp_path, trials=40, freeze=frozen, prune=False)
    points = [r.point["sub_queries"] for r in choice.rows if not r.repeated]
    assert choice.exhausted
    assert len(points) == len(set(points))


def test_a_killed_search_goes_on_in_its_study(
    chains: Benchmark, words: Any, tmp_path: Path
) -> None:
    first = tune(chains, words, tmp_path, trials=3)
    rows = len(AnswerStore(tmp_path / "answers.jsonl"))
    again = tune(chains, words, tmp_path, trials=3)
    assert [r.number for r in again.rows] == [r.number for r in first.rows]
    assert len(AnswerStore(tmp_path / "answers.jsonl")) == rows
    assert len(tune(chains, words, tmp_path, trials=5).rows) == 5


def test_a_trial_of_a_dead_process_is_tried_once_more(
    chains: Benchmark, words: Any, tmp_path: Path
) -> None:
    import socket
    import subprocess
    import sys
    import time

    from optimize.budgets import _distributions

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    program = build("decompose", type(words)(chains.corpus))
    knobs = space(program, ("candidates", "think.planner", "think.resolver", "think.synthesizer"))
    study = open_study(tmp_path / "study.log", "s", 0)
    lost = study.ask(_distributions(knobs))
    lost.set_user_attr("lease", [dead.pid, socket.gethostname(), time.time()])
    choice = tune(chains, words, tmp_path, trials=3)
    states = {r.number: r.state for r in choice.rows}
    assert states[lost.number] == "failed"
    finished = [r.point for r in choice.rows if r.state != "failed"]
    assert choice.rows[lost.number].point in finished


def test_a_trial_that_was_broken_off_is_asked_again_at_the_next_start(
    chains: Benchmark, words: Any, tmp_path: Path
) -> None:
    class Broken(BaseException):
        pass

    def interrupt(row: Any) -> None:
        monkey.setattr("optimize.budgets.evaluate", broken)

    def broken(*args: Any, **more: Any) -> Any:
        raise Broken

    with pytest.MonkeyPatch.context() as monkey, pytest.raises(Broken):
        tune(chains, words, tmp_path, trials=3, on_trial=interrupt)
    choice = tune(chains, words, tmp_path, trials=3)
    lost = next(r for r in choice.rows if r.state == "failed")
    assert lost.point in [r.point for r in choice.rows if r.state != "failed"]


def test_the_space_is_exactly_the_declared_knobs(words: Any) -> None:
    program = build("decompose", words, HopBudget(passages=7))
    knobs = space(program)
    assert set(knobs) == {k.name for k in program.knobs}
    assert 7 in knobs["passages"].values
    moved = at_point(program, knobs, {**point_of(program, knobs), "think.planner": True})
    assert moved.budget.think == ("planner",)
    assert program.budget.think == ()
    assert size({"passages": knobs["passages"]}) == len(knobs["passages"].values)
    with pytest.raises(OptimizeError, match="no knob"):
        space(program, ("speed",))


def test_a_hopeless_trial_is_dropped_and_an_equal_one_is_not() -> None:
    good = {str(i): Scored(1.0, 1.0, 4.0) for i in range(20)}
    bad = {str(i): Scored(0.0, 0.2, 4.0) for i in range(12)}
    assert hopeless(bad, [good], 20) == 0
    assert hopeless(dict(list(good.items())[:12]), [good], 20) is None
    cheaper = {k: Scored(0.0, 0.2, 3.0) for k in bad}
    assert hopeless(cheaper, [good], 20) is None


def test_the_front_holds_what_nothing_beats() -> None:
    means = {
        0: {"f1": 0.5, "hop_recall": 0.9, "lm_calls": 4.0},
        1: {"f1": 0.5, "hop_recall": 0.9, "lm_calls": 3.0},
        2: {"f1": 0.6, "hop_recall": 0.8, "lm_calls": 5.0},
    }
    assert front_of(means) == [1, 2]


def test_paired_standard_error() -> None:
    mean, error = paired({"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 0.0})
    assert (mean, error) == (0.5, 0.5)


def test_a_formula_may_count_seconds_and_divide() -> None:
    values = {"f1": 1.0, "hop_recall": 1.0, "lm_calls": 2.0, "seconds": 4.0}
    assert Formula("f1 - 0.1*seconds")(values) == pytest.approx(0.6)
    assert Formula("f1 - 0.1*seconds").timed
    assert not Formula("f1/lm_calls").timed
    assert Formula("1/(1-f1)")(values) == -math.inf
    assert Formula("f1/(lm_calls-0.5)")(values) == pytest.approx(2 / 3)


def test_formulas_are_arithmetic_only() -> None:
    formula = Formula("f1 + 0.5*hop_recall - lm_calls/100")
    assert formula({"f1": 0.5, "hop_recall": 1.0, "lm_calls": 10.0}) == pytest.approx(0.9)
    for bad in ("__import__('os')", "f1 +", "speed", "f1 ** 2", "f1.real"):
        with pytest.raises(OptimizeError, match="objective"):
            Formula(bad)
