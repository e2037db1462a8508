"""Training the retriever: it learns, the same way each time, and goes on after a kill."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import Benchmark
from optimize.retriever_examples import DevSet, TrainingError, TrainingSet, dev_set, training_set
from optimize.retriever_record import Look, Trained, best_of
from optimize.retriever_training import TrainSettings, Watcher, train_retriever
from retrieval import build_index, open_index
from retrieval.checkpoint import CheckpointSpec, checkpoint

SETTINGS = TrainSettings(steps=9, batch=6, rate=1e-2, every=3, passage_tokens=48, frozen=1)


class Told(Watcher):
    def __init__(self) -> None:
        self.losses: list[float] = []
        self.looks: list[Look] = []
        self.lines: list[str] = []

    def step(self, done: int, of: int, loss: float) -> None:
        self.losses.append(loss)

    def look(self, look: Look) -> None:
        self.looks.append(look)

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def spec(
    tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Callable[..., Path]
) -> CheckpointSpec:
    return checkpoint(str(tiny_checkpoint(tmp_path_factory.mktemp("tiny") / "tiny")))


@pytest.fixture(scope="module")
def sets(
    world: Benchmark, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[TrainingSet], list[DevSet]]:
    folder = tmp_path_factory.mktemp("words") / "index"
    build_index(world.corpus, folder, engine="bm25")
    index = open_index(folder)
    answerable = {s: [q for q in asked if q.answerable] for s, asked in world.questions.items()}
    return (
        [training_set("world", answerable["train"], index)],
        [dev_set("world", answerable["dev"], index, 100)],
    )


@pytest.fixture
def trained(
    spec: CheckpointSpec, sets: tuple[list[TrainingSet], list[DevSet]]
) -> Callable[..., Trained]:
    def train(out: Path, **changed: object) -> Trained:
        settings = replace(SETTINGS, **{k: v for k, v in changed.items() if k in vars(SETTINGS)})
        rest = {k: v for k, v in changed.items() if k not in vars(SETTINGS)}
        return train_retriever(spec, *sets, out, settings=settings, **rest)  # type: ignore[arg-type]

    return train


def weights(out: Path) -> str:
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def test_it_learns_its_questions_and_writes_what_was_best_on_dev(
    trained: Callable[..., Trained], tmp_path: Path, world: Benchmark
) -> None:
    told = Told()
    out = tmp_path / "out"
    done = trained(out, steps=24, every=8, patience=9, watcher=told)
    assert sum(told.losses[-6:]) < sum(told.losses[:6])
    assert [look.step for look in told.looks if look.share == 1.0] == [0, 8, 16, 24]
    assert done.best == best_of(told.looks)
    assert done.best.mean >= done.first.mean
    assert (done.steps, done.stopped_early) == (24, False)
    assert not (out / "training" / "state.pt").exists()
    report = build_index(world.corpus, tmp_path / "index", checkpoint=str(out))
    assert report.passages == len(world.corpus)
    assert open_index(tmp_path / "index").search(["Who founded it?"], 3)[0][0].rank == 1


def test_the_same_seed_gives_the_same_weights(
    trained: Callable[..., Trained], tmp_path: Path
) -> None:
    first, again = trained(tmp_path / "a"), trained(tmp_path / "b")
    other = trained(tmp_path / "c", seed=1)
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert first.losses == again.losses != other.losses


class Killed(BaseException):
    pass


def test_a_killed_training_goes_on_to_the_same_result(
    trained: Callable[..., Trained], tmp_path: Path
) -> None:
    whole = trained(tmp_path / "whole", patience=9)

    def kill(step: int) -> None:
        if step == 5:
            raise Killed

    out = tmp_path / "killed"
    with pytest.raises(Killed):
        trained(out, patience=9, after_step=kill)
    with pytest.raises(TrainingError, match=r"another training \(settings differ\)"):
        trained(out, steps=10)
    told = Told()
    done = trained(out, patience=9, watcher=told)
    assert told.lines[0] == "going on after step 3"
    assert len(told.losses) == 6
    assert weights(out) == weights(tmp_path / "whole")
    assert (done.looks, done.losses) == (whole.looks, whole.losses)


def test_a_finished_training_is_not_done_again(
    trained: Callable[..., Trained], tmp_path: Path
) -> None:
    first = trained(tmp_path / "out")
    told = Told()
    again = trained(tmp_path / "out", watcher=told)
    assert not told.losses
    assert again.best.scores == {k: list(v) for k, v in first.best.scores.items()}
    assert again.best.recall == first.best.recall


def test_it_stops_when_dev_gets_no_better(trained: Callable[..., Trained], tmp_path: Path) -> None:
    told = Told()
    done = trained(tmp_path / "out", rate=1e-9, every=1, patience=2, watcher=told)
    assert (done.steps, done.stopped_early, done.best.step) == (2, True, 0)
    assert "the checkpoint is the one it began with" in told.lines[-1]
    averaged = [(look.step, look.share) for look in told.looks if look.share != 1.0]
    assert averaged == [(1, 0.25), (1, 0.5), (1, 0.75)]


def test_a_projection_is_learned_with_it(trained: Callable[..., Trained], tmp_path: Path) -> None:
    trained(tmp_path / "out", dim=8)
    assert checkpoint(str(tmp_path / "out")).dim == 8


def test_a_folder_that_holds_something_else_is_left_alone(
    trained: Callable[..., Trained], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TrainingError, match=r"holds no training: give another --out"):
        trained(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_loss_that_is_no_number_names_the_mend(
    trained: Callable[..., Trained], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from retrieval.late_interaction import LateInteraction

    lost = torch.tensor(float("nan"), requires_grad=True)
    monkeypatch.setattr(LateInteraction, "loss", lambda *_: lost * 1)
    with pytest.raises(TrainingError, match="not finite at step 1: lower --rate"):
        trained(tmp_path / "out")


@pytest.mark.parametrize(
    ("setting", "value"), [("steps", 0), ("batch", 1), ("rate", 0.0), ("dim", 0), ("frozen", -1)]
)
def test_settings_out_of_range_are_refused(setting: str, value: float) -> None:
    with pytest.raises(TrainingError, match=r"must be at least|lies between 0 and 1"):
        TrainSettings(**{setting: value})  # type: ignore[arg-type]


def test_a_set_that_falls_costs_more_than_another_gains() -> None:
    first = Look(0, 1.0, {"a": [0.5, 0.5], "b": [0.5, 0.5]})
    rises = Look(1, 1.0, {"a": [0.5, 0.6], "b": [0.5, 0.5]})
    falls = Look(2, 1.0, {"a": [1.0, 0.5], "b": [0.3, 0.4]})
    assert falls.mean > rises.mean > first.mean
    assert best_of([first, falls]) is first
    assert best_of([first, falls, rises, rises]) is rises
