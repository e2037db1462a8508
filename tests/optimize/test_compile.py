"""Compile and export: the whole recipe on scripted and oracle answers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

import hopsmith
from benchmarks import Benchmark, Question, synthetic
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import stand_in
from optimize.compile import compile_program
from optimize.errors import ExportError, OptimizeError
from optimize.export import export
from optimize.prompts import PromptSettings
from optimize.recipe import Recipe
from optimize.tracking import Tracker, local_uri
from programs import HopBudget, StateError, build, fingerprint

RECIPE = Recipe(trials=3, prompts=PromptSettings(candidates=1, max_demos=1), workers=2)


def adapter(world: Benchmark, noise: float = 0.1) -> OracleAdapter:
    return OracleAdapter([q for s in world.questions.values() for q in s], noise)


def run(world: Benchmark, words: Any, folder: Path, recipe: Recipe = RECIPE) -> Any:
    tracker = Tracker(local_uri(folder), "test", folder / "spool")
    lm = stand_in("oracle/gold")
    try:
        with dspy.context(lm=lm, adapter=adapter(world), disable_history=True):
            return compile_program(
                build("decompose", words), world, folder, tracker=tracker, recipe=recipe
            )
    finally:
        tracker.close()


@pytest.fixture(scope="module")
def compiled(
    world: Benchmark, words_of: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path, Any]:
    folder = tmp_path_factory.mktemp("compile")
    words = words_of(world)
    return run(world, words, folder), folder, words


def test_exported_answers_equal_those_that_were_measured(
    world: Benchmark, compiled: tuple[Any, Path, Any]
) -> None:
    done, _, words = compiled
    pipeline = hopsmith.load(
        done.export, retriever=words, lm=stand_in("oracle/gold"), adapter=adapter(world)
    )
    rows = Path(done.runs["compiled-test"]) / "predictions.jsonl"
    measured = {r["id"]: r["answer"] for r in map(json.loads, rows.read_text().splitlines())}
    assert {q.id: pipeline(q.question).answer for q in world.questions["test"]} == measured
    assert pipeline.program.budget == done.program.budget


def test_runs_of_a_compile_can_be_read_without_the_data_set(
    world: Benchmark, compiled: tuple[Any, Path, Any]
) -> None:
    from optimize.saved import read_run

    for name, folder in compiled[0].runs.items():
        split = name.rpartition("-")[2]
        assert {q.id for q in read_run(Path(folder)).questions} == {
            q.id for q in world.questions[split]
        }


@pytest.mark.parametrize(
    ("recipe", "mend"),
    [
        (Recipe(freeze=("magic",)), "no knob"),
        (Recipe(objective="f1 +"), "can't be read"),
        (Recipe(storage="magic://x"), "check --storage"),
        (Recipe(register="team/answers"), "without / and :"),
        (Recipe(prompts=PromptSettings(max_demos=0)), "--demos 1"),
    ],
)
def test_a_recipe_that_can_not_run_is_refused_before_a_question_is_asked(
    world: Benchmark, words_of: Any, tmp_path: Path, recipe: Recipe, mend: str
) -> None:
    with pytest.raises(OptimizeError, match=mend):
        run(world, words_of(world), tmp_path, recipe)
    assert not (tmp_path / "compile.json").exists()


def test_stages_are_nested_runs_with_their_artifacts(compiled: tuple[Any, Path, Any]) -> None:
    from mlflow import MlflowClient

    _, folder, _ = compiled
    client = MlflowClient(local_uri(folder))
    experiment = client.get_experiment_by_name("test")
    found = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
    assert {"baseline", "budget", "prompts", "final"} <= set(found)
    parent = next(r for name, r in found.items() if name.startswith("compile"))
    for stage in ("baseline", "budget", "prompts", "final"):
        assert found[stage].data.tags["mlflow.parentRunId"] == parent.info.run_id
    budget = {a.path for a in client.list_artifacts(found["budget"].info.run_id)}
    assert {"history.png", "pareto.png", "trials.csv"} <= budget
    assert "final.f1" in parent.data.metrics
    inputs = {i.dataset.name: i.dataset.digest for i in parent.inputs.dataset_inputs}
    assert set(inputs) == {f"synthetic-{what}" for what in ("train", "dev", "test", "corpus")}


def test_the_card_says_scores_with_intervals_and_what_each_part_is(
    words: Any, compiled: tuple[Any, Path, Any]
) -> None:
    from optimize.card import card
    from optimize.export import PipelineFile

    told = (compiled[0].export / "card.md").read_text()
    assert re.search(r"\| f1 \| [\d.]+ \| [\d.]+ \[[\d.]+, [\d.]+\] \| [+-]", told)
    whole = PipelineFile.read(compiled[0].export).model_dump()
    below = {"budget": {"hops": 2}, "predictors": {"asker": {"demos": []}}, "parts": {}}
    whole["state"]["parts"] = {"agentic": {**below, "parts": {"inner": below}}}
    assert "predictors of `agentic.inner`: asker" in card(whole, {})


def test_a_compile_started_again_asks_nothing_twice(
    world: Benchmark, compiled: tuple[Any, Path, Any]
) -> None:
    _, folder, words = compiled
    rows = (folder / "answers.jsonl").read_text()
    run(world, words, folder)
    assert (folder / "answers.jsonl").read_text() == rows


def test_another_recipe_does_not_go_on_in_the_folder(
    world: Benchmark, compiled: tuple[Any, Path, Any]
) -> None:
    _, folder, words = compiled
    with pytest.raises(OptimizeError, match="another compile"):
        run(world, words, folder, Recipe(trials=4))


def test_a_shared_question_is_refused(world: Benchmark, words: Any, tmp_path: Path) -> None:

    leaky = replace(world, questions={**world.questions, "test": world.questions["dev"]})
    with pytest.raises(OptimizeError, match="without shared questions"):
        run(leaky, words, tmp_path / "c")


def test_an_id_of_two_questions_is_refused(world: Benchmark, words: Any, tmp_path: Path) -> None:
    """Answers are kept by id: one split's would have been scored as another's."""
    numbered = {
        split: [q.copy(id=f"q{n}") for n, q in enumerate(questions)]
        for split, questions in world.questions.items()
    }
    with pytest.raises(OptimizeError, match="give every question an id of its own"):
        run(replace(world, questions=numbered), words, tmp_path / "c")


def test_a_call_limit_ends_the_search_with_a_pipeline(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    done = run(world, words, tmp_path / "c", Recipe(trials=50, max_calls=120, workers=1))
    assert done.stopped == "--max-calls 120"
    assert (done.export / "pipeline.json").is_file()
    assert done.spent.lm_calls <= 120
    assert done.final is not None
    assert done.final.n == len(world.questions["test"])


def test_a_limit_holds_over_several_starts_and_a_higher_one_goes_on(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    first = run(world, words, tmp_path / "c", Recipe(trials=50, max_calls=120, workers=1))
    again = run(world, words, tmp_path / "c", Recipe(trials=50, max_calls=120, workers=1))
    assert again.spent.lm_calls == first.spent.lm_calls
    assert f"spent: {first.spent.lm_calls} LM calls" in (again.export / "card.md").read_text()
    more = run(world, words, tmp_path / "c", Recipe(trials=50, max_calls=300, workers=1))
    assert first.spent.lm_calls < more.spent.lm_calls <= 300
    assert more.budget.rows[0].point == first.budget.rows[0].point


def test_a_limit_reached_while_tracing_loses_nothing(words_of: Any, tmp_path: Path) -> None:
    world = synthetic(12, 60, seed=2)
    few = replace(world, questions={s: q[:2] for s, q in world.questions.items()})
    recipe = Recipe(trials=0, optimizer="none", workers=1)
    untraced = run(few, words_of(few), tmp_path / "untraced", recipe)
    tight = replace(recipe, traces=2, max_calls=untraced.spent.lm_calls)
    done = run(few, words_of(few), tmp_path / "traced", tight)
    assert done.final is not None
    assert (tmp_path / "traced" / "compiled.json").is_file()


def test_a_limit_below_the_baseline_is_refused(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    with pytest.raises(OptimizeError, match="--max-calls 3 is reached before the baseline"):
        run(world, words, tmp_path / "c", Recipe(trials=2, max_calls=3, workers=1))


def test_a_limit_within_the_final_table_exports_without_one(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    baseline = 4.7 * len(world.questions["dev"])
    done = run(world, words, tmp_path / "c", Recipe(max_calls=int(baseline) + 8, workers=1))
    assert done.final is None
    assert done.spent.lm_calls <= int(baseline) + 8
    assert "None were measured" in (done.export / "card.md").read_text()


def test_no_key_is_in_an_export(words: Any, tmp_path: Path) -> None:
    lm = dspy.LM(
        "openai/gpt-4.1-mini", api_key="sk-planted-key", api_base="http://secret.example/v1"
    )
    program = build("decompose", words)
    program.planner.lm = lm
    with dspy.context(lm=lm):
        folder = export(program, tmp_path / "export")
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert len(files) > 10
    for path in files:
        data = path.read_bytes()
        assert b"sk-planted-key" not in data, path
        assert b"secret.example" not in data, path
        assert str(tmp_path).encode() not in data, path
        assert str(Path(hopsmith.__file__).parent.parent).encode() not in data, path
    assert not [p for p in files if p.suffix in (".pkl", ".pickle")]


def test_another_retriever_is_refused_and_says_what_differs(
    world: Benchmark, words: Any, tmp_path: Path
) -> None:
    with dspy.context(lm=stand_in("oracle/gold")):
        folder = export(build("single_shot", words), tmp_path / "export", mlflow_model=False)

    class Other(type(words)):  # type: ignore[misc]
        @property
        def identity(self) -> dict[str, object]:
            return {"engine": "other"}

    other = Other(world.corpus)
    lm = stand_in("oracle/gold")
    with pytest.raises(ExportError, match="engine: measured with 'words', here 'other'"):
        hopsmith.load(folder, retriever=other, lm=lm)
    with pytest.warns(UserWarning, match="differs"):
        hopsmith.load(folder, retriever=other, lm=lm, force=True)


def test_a_changed_corpus_is_said(
    world: Benchmark, words: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lm = stand_in("oracle/gold")
    with dspy.context(lm=lm):
        folder = export(build("single_shot", words), tmp_path / "export", mlflow_model=False)
    hopsmith.load(folder, retriever=type(words)(world.corpus[1:]), lm=lm)
    assert "corpus has changed" in capsys.readouterr().err


def test_an_export_edited_by_hand_is_said_or_refused(
    words: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lm = stand_in("oracle/gold")
    with dspy.context(lm=lm):
        folder = export(build("single_shot", words), tmp_path / "export", mlflow_model=False)
    hopsmith.load(folder, retriever=words, lm=lm)
    assert not capsys.readouterr().err
    path = folder / "pipeline.json"
    whole = json.loads(path.read_text())
    (predictor,) = whole["state"]["predictors"].values()
    predictor["signature"]["instructions"] = "Sing."
    path.write_text(json.dumps(whole))
    hopsmith.load(folder, retriever=words, lm=lm)
    assert "edited since" in capsys.readouterr().err
    path.write_text(json.dumps({**whole, "rendering": 99}))
    with pytest.raises(ExportError, match="prompts of form 99"):
        hopsmith.load(folder, retriever=words, lm=lm)
    del predictor["signature"]
    path.write_text(json.dumps(whole))
    with pytest.raises(StateError, match=r"lacks \['signature'\]"):
        hopsmith.load(folder, retriever=words, lm=lm)


def test_a_tuned_budget_survives_export(words: Any, tmp_path: Path) -> None:
    lm = stand_in("oracle/gold")
    budget = HopBudget(passages=2, sub_queries=3, think=("planner",))
    program = build("decompose", words, budget, synthesis="evidence")
    with dspy.context(lm=lm):
        folder = export(program, tmp_path / "export", mlflow_model=False)
        loaded = hopsmith.load(folder, retriever=words, lm=lm).program
        assert loaded.budget == budget
        assert loaded.arguments == {"synthesis": "evidence"}
        assert fingerprint(loaded) == fingerprint(program)


def test_the_mlflow_model_answers_alike_without_pickle(
    world: Benchmark,
    small_index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mlflow.pyfunc

    import hopsmith.loading
    from retrieval import open_index

    question: Question = world.questions["dev"][0]
    lm = stand_in("oracle/gold")
    with dspy.context(lm=lm, adapter=OracleAdapter([question])):
        program = build("decompose", open_index(small_index))
        expected = program(question=question.question).answer
        folder = export(program, tmp_path / "export")
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    monkeypatch.setenv("HOPSMITH_INDEX", str(small_index))
    real = hopsmith.loading.load
    monkeypatch.setattr(
        hopsmith.loading,
        "load",
        lambda path: real(path, lm=lm, adapter=OracleAdapter([question])),
    )
    model = mlflow.pyfunc.load_model(str(folder / "mlflow_model"))
    assert [r["answer"] for r in model.predict([question.question])] == [expected]


@pytest.mark.slow
def test_a_compile_that_helps_is_surely_better_on_two_hundred_test_questions(
    words: Any, tmp_path: Path
) -> None:
    """Chains of three hops, a default budget that plans for two, an oracle that sometimes fails:
    the budget stage must allow three, and no more than the noise repays."""
    chains = synthetic(700, 120, seed=5, kinds=("bridge",), hops=(3,))
    small = {
        s: list(q)[: {"train": 20, "dev": 40, "test": 200}[s]] for s, q in chains.questions.items()
    }
    chains = replace(chains, questions=small)
    start = HopBudget(sub_queries=2)
    tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
    recipe = Recipe(
        trials=8,
        optimizer="none",
        prefer="best",
        workers=2,
        freeze=("candidates", "think.planner", "think.resolver", "think.synthesizer"),
        traces=0,
    )
    try:
        with dspy.context(
            lm=stand_in("oracle/gold"), adapter=adapter(chains, 0.05), disable_history=True
        ):
            done = compile_program(
                build("decompose", type(words)(chains.corpus), start),
                chains,
                tmp_path / "compile",
                tracker=tracker,
                recipe=recipe,
            )
    finally:
        tracker.close(patience=120)
    assert done.budget is not None
    assert 3 <= done.budget.point["sub_queries"] <= 5
    assert done.final is not None
    assert done.final.n == 200
    assert done.final.better
