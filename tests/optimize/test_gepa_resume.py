"""GEPA broken off anywhere and started again comes to the same and writes no proposal twice."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.teleprompt.bootstrap_trace import FailedPrediction

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter, field_key, spoiled
from benchmarks.scripted import stand_in
from hopsmith.lm import configure_cache
from optimize.answers import AnswerStore
from optimize.limits import LimitedLedger
from optimize.objective import Objective
from optimize.optimizers.gepa import AskedInTurn
from optimize.prompts import PromptChoice, PromptLMs, PromptSettings, tune_prompts
from programs import build
from programs.ledger import LEDGER
from signatures import Decompose

SETTINGS = PromptSettings(candidates=4)


@pytest.fixture
def own_cache() -> Iterator[None]:
    before = dspy.cache
    yield
    dspy.cache = before


class Moody(OracleAdapter):
    """An oracle that plans badly for some questions, by the instruction."""

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: Any, inputs: Any
    ) -> list[dict[str, Any]]:
        (outputs,) = super().__call__(lm, lm_kwargs, signature, demos, inputs)
        told = f"{signature.instructions} {inputs.get('question')}"
        if field_key(signature) == field_key(Decompose) and zlib.crc32(told.encode()) % 2:
            return [spoiled(outputs, inputs)]
        return [outputs]


class Writer:
    """An engine whose instructions differ by what it was shown."""

    provider = "scripted"

    def __init__(self, manner: str = "") -> None:
        self.asked = 0
        self.manner = manner

    def complete(self, request: Any) -> Any:
        from dspy import lm15

        self.asked += 1
        told = f"Plan in {self.manner}manner {zlib.crc32(str(request).encode())}."
        return lm15.Response(
            id="1",
            model="writer",
            message=lm15.Message.assistant(json.dumps({"new_instruction": told})),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=10, output_tokens=10),
        )

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: Mapping[str, Any]) -> Writer:
        return cls()


def tune(
    world: Benchmark, words: Any, folder: Path, writer: Writer, max_calls: int | None = None
) -> tuple[PromptChoice, LimitedLedger]:
    every = [q for questions in world.questions.values() for q in questions]
    ledger = LimitedLedger(max_calls)
    configure_cache(folder / "lm-answers")
    with dspy.context(
        lm=stand_in("oracle/gold"),
        adapter=Moody(every),
        disable_history=True,
        **{LEDGER: ledger},
    ):
        choice = tune_prompts(
            build("decompose", words),
            world.questions["train"],
            world.questions["dev"],
            optimizer="gepa",
            objective=Objective(),
            store=AnswerStore(folder / "answers.jsonl"),
            folder=folder,
            workers=1,
            settings=SETTINGS,
            lms=PromptLMs(reflection=dspy.LM(f"scripted/writer{writer.manner}", engine=writer)),
        )
    return choice, ledger


@pytest.mark.usefixtures("own_cache")
def test_broken_off_anywhere_it_comes_to_the_same(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    whole_writer, writer = Writer(), Writer()
    whole, ledger = tune(world, words, tmp_path / "whole", whole_writer)
    total = ledger.total.lm_calls
    for part in range(1, 6):
        stopped, _ = tune(world, words, tmp_path / "broken", writer, total * part // 8)
        assert stopped.stopped
    choice, _ = tune(world, words, tmp_path / "broken", writer)
    assert whole_writer.asked > SETTINGS.candidates
    assert writer.asked == whole_writer.asked
    assert choice.program.dump_state() == whole.program.dump_state()
    assert choice.candidates == whole.candidates


@pytest.mark.usefixtures("own_cache")
def test_candidates_of_another_way_join_those_that_there_are(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    first, _ = tune(world, words, tmp_path / "way", Writer())
    other = Writer("another ")
    second, _ = tune(world, words, tmp_path / "way", other)
    assert other.asked
    known = [(c.number, c.name, c.score) for c in first.candidates]
    found = [(c.number, c.name, c.score) for c in second.candidates]
    assert found[: len(known)] == known
    assert len(found) > len(known) > 1
    assert [number for number, *_ in found] == list(range(len(found)))
    assert second.after >= first.after


def test_only_predictors_that_were_asked_are_rewritten(words: Any) -> None:
    program = build("decompose", words)
    choose = AskedInTurn(program)
    for _, predictor in program.named_predictors():
        predictor.signature = predictor.signature.with_instructions("In another manner.")
    predictors = dict(program.named_predictors())
    asked = [path for path in predictors if path != "final"]
    steps: list[Any] = [(predictors[path], {}, {}) for path in asked]
    state = SimpleNamespace(
        list_of_named_predictors=list(predictors),
        named_predictor_id_to_update_next_for_program_candidate=[0],
    )
    candidate = dict.fromkeys(predictors, "In another manner.")

    def picked(trace: list[Any], prediction: Any = None) -> str:
        (name,) = choose(state, [{"trace": trace, "prediction": prediction}], [], 0, candidate)
        return name

    assert [picked(steps) for _ in range(2 * len(asked))] == asked * 2
    assert picked([]) in predictors
    failed = FailedPrediction(completion_text="lorem")
    last = (*steps[-1][:2], failed)
    assert {picked([*steps[:-1], last], failed) for _ in asked} == {asked[-1]}
