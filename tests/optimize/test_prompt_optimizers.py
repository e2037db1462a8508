"""Prompt optimizers on a planted fault: a planner whose instruction makes it fail, and an LM that
proposes the right one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter, field_key, spoiled
from benchmarks.scripted import stand_in
from optimize.answers import AnswerStore
from optimize.errors import OptimizeError
from optimize.limits import LimitedLedger
from optimize.objective import Objective
from optimize.prompts import PromptChoice, PromptLMs, PromptSettings, estimate, pick, tune_prompts
from programs import MultiHopProgram, build
from programs.ledger import LEDGER
from signatures import Decompose

BAD = "Answer with one sub-question only, whatever is asked."
GOOD = "List every look-up that the question takes, in order."
SETTINGS = PromptSettings(candidates=3, max_demos=1, batch=4, samples=2)


class Planted(OracleAdapter):
    """An oracle that plans badly under the planted instruction."""

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: Any, inputs: Any
    ) -> list[dict[str, Any]]:
        (outputs,) = super().__call__(lm, lm_kwargs, signature, demos, inputs)
        misled = BAD in signature.instructions and GOOD not in signature.instructions
        if misled and field_key(signature) == field_key(Decompose):
            return [spoiled(outputs, inputs)]
        return [outputs]


class Proposer:
    """An engine that writes the good instruction whatever it is asked for."""

    provider = "scripted"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def complete(self, request: Any) -> Any:
        from dspy import lm15

        text = str(request)
        self.prompts.append(text)
        fields = dict.fromkeys(re.findall(r"\[\[ ## (\w+) ## \]\]|\"(\w+)\":", text), "x")
        names = {a or b for a, b in fields}
        reply: dict[str, Any] = dict.fromkeys(names, "a remark")
        reply |= dict.fromkeys(("proposed_instruction", "new_instruction"), GOOD)
        reply |= {"observations": "questions", "summary": "questions", "discussion": "-"}
        reply["module_advice"] = {"planner": GOOD}
        return lm15.Response(
            id="1",
            model="proposer",
            message=lm15.Message.assistant(json.dumps(reply)),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=10, output_tokens=10),
        )

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: Mapping[str, Any]) -> Proposer:
        return cls()


def misled(words: Any) -> MultiHopProgram:
    program = build("decompose", words)
    program.planner.signature = program.planner.signature.with_instructions(BAD)
    return program


def tune(
    world: Benchmark,
    words: Any,
    folder: Path,
    optimizer: str,
    *,
    settings: PromptSettings = SETTINGS,
    store: AnswerStore | None = None,
    proposer: Proposer | None = None,
    max_calls: int | None = None,
    ledger: LimitedLedger | None = None,
) -> PromptChoice:
    every = [q for questions in world.questions.values() for q in questions]
    writer = dspy.LM("scripted/proposer", engine=proposer or Proposer(), cache=False)
    ledger = ledger or LimitedLedger(max_calls)
    with dspy.context(
        lm=stand_in("oracle/gold"),
        adapter=Planted(every),
        disable_history=True,
        **{LEDGER: ledger},
    ):
        return tune_prompts(
            misled(words),
            world.questions["train"],
            world.questions["dev"],
            optimizer=optimizer,
            objective=Objective(),
            store=store or AnswerStore(),
            folder=folder,
            workers=2,
            settings=settings,
            lms=PromptLMs(prompt=writer, reflection=writer),
        )


@pytest.mark.parametrize("optimizer", ["mipro", "gepa", "simba"])
def test_a_planted_bad_instruction_is_replaced(
    world: Benchmark, words: Any, tmp_path: Path, optimizer: str
) -> None:
    choice = tune(world, words, tmp_path, optimizer)
    assert GOOD in choice.program.planner.signature.instructions
    assert choice.after > choice.before


@pytest.mark.parametrize("optimizer", ["mipro", "gepa", "simba"])
def test_what_the_proposing_lm_writes_is_on_the_ledger(
    world: Benchmark, words: Any, tmp_path: Path, optimizer: str
) -> None:
    proposer, ledger = Proposer(), LimitedLedger()
    tune(world, words, tmp_path, optimizer, proposer=proposer, ledger=ledger)
    assert proposer.prompts
    assert ledger.total.completion_tokens == 10 * len(proposer.prompts)


@pytest.mark.parametrize("optimizer", ["bootstrap", "mipro", "gepa", "simba"])
def test_started_again_it_comes_to_the_same_and_asks_the_program_nothing(
    world: Benchmark, words: Any, tmp_path: Path, optimizer: str
) -> None:
    store = AnswerStore(tmp_path / "answers.jsonl")
    first = tune(world, words, tmp_path, optimizer, store=store)
    size = len(AnswerStore(tmp_path / "answers.jsonl"))
    proposer = Proposer()
    again = tune(world, words, tmp_path, optimizer, store=store, proposer=proposer)
    assert again.program.dump_state() == first.program.dump_state()
    assert again.after == first.after
    assert len(AnswerStore(tmp_path / "answers.jsonl")) == size
    assert not proposer.prompts


@pytest.mark.parametrize("optimizer", ["bootstrap", "mipro", "gepa", "simba"])
def test_a_limit_keeps_the_best_so_far(
    world: Benchmark, words: Any, tmp_path: Path, optimizer: str
) -> None:
    start = 5 * len(world.questions["dev"])
    choice = tune(world, words, tmp_path, optimizer, max_calls=start + 25)
    assert choice.stopped
    assert choice.after >= choice.before


@pytest.mark.parametrize("optimizer", ["bootstrap", "mipro", "gepa", "simba"])
def test_one_part_alone_changes(
    world: Benchmark, words: Any, tmp_path: Path, optimizer: str
) -> None:
    from dataclasses import replace

    settings = replace(SETTINGS, parts=("planner",), candidates=2)
    before = misled(words).dump_state()["predictors"]
    after = tune(world, words, tmp_path, optimizer, settings=settings)
    for path, state in after.program.dump_state()["predictors"].items():
        if path not in ("planner", "repairer"):
            assert state == before[path], path


def test_an_unknown_part_is_named(world: Benchmark, words: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(OptimizeError, match="no part 'plan': there are the predictors"):
        tune(world, words, tmp_path, "gepa", settings=replace(SETTINGS, parts=("plan",)))


@pytest.mark.parametrize("optimizer", ["mipro", "gepa", "simba"])
def test_the_oracle_can_not_write_prompts(
    world: Benchmark, words: Any, tmp_path: Path, optimizer: str
) -> None:
    every = [q for questions in world.questions.values() for q in questions]
    with (
        dspy.context(lm=stand_in("oracle/gold"), adapter=OracleAdapter(every)),
        pytest.raises(OptimizeError, match=f"{optimizer} needs an LM that writes prompts"),
    ):
        tune_prompts(
            build("single_shot", words),
            world.questions["train"],
            world.questions["dev"],
            optimizer=optimizer,
            objective=Objective(),
            store=AnswerStore(),
            folder=tmp_path,
            settings=SETTINGS,
        )


def test_an_estimate_is_an_upper_bound(world: Benchmark, words: Any, tmp_path: Path) -> None:
    train, dev = len(world.questions["train"]), len(world.questions["dev"])
    for optimizer in ("bootstrap", "mipro", "gepa", "simba"):
        asked: list[str] = []

        class Counting(Planted):
            def __call__(self, lm: Any, kw: Any, signature: Any, demos: Any, inputs: Any) -> Any:
                if field_key(signature) == field_key(Decompose):
                    asked.append("")  # noqa: B023
                return super().__call__(lm, kw, signature, demos, inputs)

        every = [q for questions in world.questions.values() for q in questions]
        writer = dspy.LM("scripted/proposer", engine=Proposer(), cache=False)
        with dspy.context(lm=stand_in("oracle/gold"), adapter=Counting(every)):
            tune_prompts(
                misled(words),
                world.questions["train"],
                world.questions["dev"],
                optimizer=optimizer,
                objective=Objective(),
                store=AnswerStore(),
                folder=tmp_path / optimizer,
                workers=2,
                settings=SETTINGS,
                lms=PromptLMs(prompt=writer, reflection=writer),
            )
        need = estimate(optimizer, misled(words), SETTINGS, train, dev)
        again = (1 + SETTINGS.candidates) * dev if optimizer == "gepa" else dev
        assert len(asked) <= need.questions + again, optimizer


def test_auto_says_why(world: Benchmark, words: Any) -> None:
    program = misled(words)
    train = world.questions["train"]
    writer = dspy.LM("scripted/proposer", engine=Proposer(), cache=False)
    lms = PromptLMs(prompt=writer)

    def picked(questions: Any, left: int | None, lms: PromptLMs = lms) -> Any:
        with dspy.context(lm=stand_in("oracle/gold")):
            return pick(program, questions, 6, SETTINGS, lms=lms, calls_each=4.0, calls_left=left)

    assert picked(train, None, PromptLMs()).optimizer == "bootstrap"
    assert "oracle" in picked(train, None, PromptLMs()).why
    assert picked(train[:4], None).optimizer == "bootstrap"
    assert picked(list(train) * 10, None).optimizer == "mipro"
    assert picked(list(train) * 10, 200).optimizer == "gepa"
    assert picked(train, None).optimizer == "gepa"
    assert picked(train, 3).optimizer == "none"
    fewer = picked(train, 4 * (6 + 12) + 1)
    assert fewer.settings.candidates < SETTINGS.candidates
    assert "fit the call limit" in fewer.why
