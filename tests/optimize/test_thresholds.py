"""Thresholds: fitted to the objective, saved with the program, and never needed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter, field_key
from benchmarks.scripted import ScriptedAdapter, stand_in
from optimize.answers import AnswerStore
from optimize.objective import Objective
from optimize.thresholds import ThresholdSettings, tune_thresholds
from programs import MultiHopProgram, build, fingerprint
from programs.decisions import decisions, set_threshold
from programs.errors import ProgramError
from programs.hiq import HiQ
from signatures import Sufficiency


class Overconfident(OracleAdapter):
    """An oracle that is sure beyond 0.8 when the passages are enough, and between 0.5 and 0.78
    when they aren't: read at one half it always stops too early."""

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: Any, inputs: Any
    ) -> list[dict[str, Any]]:
        (outputs,) = super().__call__(lm, lm_kwargs, signature, demos, inputs)
        if field_key(signature) == field_key(Sufficiency):
            drawn = hashlib.sha256(repr(sorted(inputs.items())).encode()).digest()[0] / 255
            sure = outputs["sufficient"]
            asked = isinstance(sure, dict)
            enough = sure["noul"] >= 0.5 if asked else sure
            stated = 0.82 + 0.18 * drawn if enough else 0.5 + 0.28 * drawn
            outputs["sufficient"] = {"noul": round(stated, 2)} if asked else True
        return [outputs]


def asking(world: Benchmark, kind: type[OracleAdapter] = Overconfident) -> Any:
    every = [q for questions in world.questions.values() for q in questions]
    return dspy.context(lm=stand_in("oracle/gold"), adapter=kind(every), disable_history=True)


def fit(world: Benchmark, program: MultiHopProgram, folder: Path, **more: Any) -> Any:
    return tune_thresholds(
        program,
        world.questions["train"],
        world.questions["dev"],
        objective=Objective(),
        store=AnswerStore(),
        folder=folder,
        workers=2,
        **more,
    )


def test_a_threshold_that_must_sit_at_four_fifths_is_found(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    with asking(world):
        choice = fit(world, build("iterative_chain", words), tmp_path)
    (decision,) = choice.fitted
    assert (decision.path, decision.field) == ("controller", "sufficient")
    assert decision.threshold == pytest.approx(0.8, abs=0.02)
    assert choice.after > choice.before


def test_a_fitted_threshold_is_saved_and_is_part_of_the_fingerprint(
    world: Benchmark, words: Any
) -> None:
    with asking(world):
        program = build("iterative_chain", words)
        plain = fingerprint(program)
        set_threshold(program, "controller", "sufficient", 0.8)
        again = build("iterative_chain", words)
        again.load_state(program.dump_state())
        assert [d.threshold for d in decisions(again)] == [0.8]
        assert fingerprint(again) == fingerprint(program) != plain
        set_threshold(again, "controller", "sufficient", None)
        assert fingerprint(again) == plain


def test_a_certain_oracle_needs_no_threshold(world: Benchmark, words: Any, tmp_path: Path) -> None:
    with asking(world, OracleAdapter):
        choice = fit(world, build("iterative_chain", words), tmp_path)
    assert not choice.fitted
    assert "no threshold beat" in choice.why


def test_a_method_without_decisions_is_left_as_it_is(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    program = build("single_shot", words)
    with asking(world):
        choice = fit(world, program, tmp_path, settings=ThresholdSettings(4))
    assert choice.program is program
    assert "no yes/no decision" in choice.why


def test_an_lm_that_states_no_probability_is_asked_for_a_plain_answer(words: Any) -> None:
    def script(signature: type[dspy.Signature], inputs: Any) -> Any:
        if field_key(signature) == field_key(Sufficiency):
            plain = signature.output_fields["sufficient"].annotation is bool
            return {"missing": "", "sufficient": True, "follow_up": None} if plain else None
        return {"answer": "a"}

    program = build("iterative_chain", words)
    set_threshold(program, "controller", "sufficient", 0.9)
    with dspy.context(lm=stand_in("scripted/x"), adapter=ScriptedAdapter(script)):
        prediction = program(question="Who founded Norvale?")
    assert prediction.stop_reason == "sufficient"


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_a_threshold_is_a_probability(words: Any, value: float) -> None:
    with pytest.raises(ProgramError, match="from 0 to 1"):
        set_threshold(build("agentic", words), "controller", "done", value)


def test_an_unknown_decision_names_those_there_are(words: Any) -> None:
    with pytest.raises(ProgramError, match=r"there are: controller\.done"):
        set_threshold(build("agentic", words), "controller", "finished", 0.5)


class Doubtful(OracleAdapter):
    """A reader that states 0.4 where it found the answer, and 0.9 where it did not."""

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: Any, inputs: Any
    ) -> list[dict[str, Any]]:
        (outputs,) = super().__call__(lm, lm_kwargs, signature, demos, inputs)
        if "unresolved" in outputs:
            outputs["unresolved"] = 0.4 if outputs["answer"] else 0.9
            outputs["answer"] = outputs["answer"] or "Tamsin"
        return [outputs]


def test_the_bar_of_the_soft_trigger_is_fitted_to_what_readings_stated(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    program = build("hiq_threshold", words)
    assert isinstance(program, HiQ)
    with asking(world, Doubtful):
        choice = fit(world, program, tmp_path)
    assert isinstance(choice.program, HiQ)
    assert program.control.bar == 0.25
    assert 0.4 <= choice.program.control.bar < 0.9
    assert choice.program.arguments["threshold"] == choice.program.control.bar
    assert choice.after >= choice.before
    assert fingerprint(choice.program) != fingerprint(program)
    with pytest.raises(ProgramError, match="no soft trigger"):
        HiQ(words).with_threshold(0.5)
