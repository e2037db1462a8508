"""Training the retriever on questions with gold passages: a loop around colbert-ai's model and
loss, balanced over data sets, watched by dev recall, and gone on with after a kill.

What comes out is chosen by dev recall among the weights met on the way and averages of the best
trained ones with those that training began with (Wortsman et al. 2022): some hundred questions
teach a model something and make it forget something, and the average keeps most of both. So it is
tried also where no trained weights are better by themselves.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optimize.retriever_batches import Batch, Sampler
from optimize.retriever_examples import DevSet, TrainingError, TrainingSet
from optimize.retriever_record import (
    Look,
    Trained,
    best_of,
    close,
    digest,
    finished,
    keep,
    kept,
    work_folder,
)
from optimize.tracking import TrackedRun
from retrieval.checkpoint import CheckpointSpec
from retrieval.late_interaction import LateInteraction, maxsim, mixed
from retrieval.writing import full_disk

if TYPE_CHECKING:
    from retrieval.late_interaction import Weights

RECALL_AT = 5
SHARES = (0.25, 0.5, 0.75)
"""How much of the way from the first weights to the best ones is tried at the end."""
PROJECTED = 400
"""Passages that a new projection is fitted to."""
CLIP = 1.0
"""Largest norm of a step's gradient."""


@dataclass(frozen=True)
class TrainSettings:
    """How to train: all that changes the result but the questions and the checkpoint."""

    steps: int = 400
    batch: int = 16
    """Queries a step."""
    negatives: int = 1
    """Hard negatives a query."""
    rate: float = 3e-5
    """Highest learning rate: reached after ``warmup`` of the steps, then down to 0 in a line."""
    warmup: float = 0.1
    decay: float = 0.01
    """Weight decay (AdamW)."""
    whole: float = 0.5
    """How often a question that has sub-questions is asked itself."""
    frozen: int = 0
    """Layers, the embeddings with them, that keep their weights."""
    passage_tokens: int = 128
    """Where passages are cut in training and looks; the checkpoint's own length stays."""
    dim: int | None = None
    """Dimensions of a learned projection; None keeps the checkpoint's."""
    every: int = 100
    """Steps between two looks at dev."""
    patience: int = 3
    """Looks without a better one after which training stops."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ``TrainingError`` naming what is out of range."""
        least = {
            name: 1
            for name in ("steps", "negatives", "every", "patience", "dim")
            if getattr(self, name) is not None
        }
        least |= {"batch": 2, "frozen": 0, "passage_tokens": 8}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise TrainingError(f"{name.replace('_', ' ')} must be at least {low}")
        if not 0 < self.rate < 1:
            raise TrainingError(f"the learning rate lies between 0 and 1, not at {self.rate}")


class Watcher:
    """Told of what happens; does nothing by itself."""

    def step(self, done: int, of: int, loss: float) -> None: ...

    def look(self, look: Look) -> None: ...

    def say(self, line: str) -> None: ...


def train_retriever(
    spec: CheckpointSpec,
    train: Sequence[TrainingSet],
    dev: Sequence[DevSet],
    out: Path,
    *,
    settings: TrainSettings,
    run: TrackedRun | None = None,
    watcher: Watcher | None = None,
    after_step: Callable[[int], None] = lambda step: None,
) -> Trained:
    """Train ``spec`` and write the best checkpoint into ``out``.

    State is kept in ``out/training`` at each look; started again with the same arguments, training
    goes on from there, to the same result. Raises ``TrainingError`` when ``out`` holds something
    else, ``IndexFault`` when the checkpoint can't be trained so.
    """
    work = claim(spec, train, dev, out, settings)
    with full_disk(out):
        done = finished(out)
        if done is not None:
            return done
        training = _Training(spec, train, dev, work, settings, run, watcher or Watcher())
        return training.run(out, after_step)


def claim(
    spec: CheckpointSpec,
    train: Sequence[TrainingSet],
    dev: Sequence[DevSet],
    out: Path,
    settings: TrainSettings,
) -> Path:
    """Make ``out/training`` this training's, and return it. Raises ``TrainingError`` when ``out``
    holds something else, another training too."""
    identity = {
        "settings": dataclasses.asdict(settings),
        "checkpoint": spec.identity,
        "train": {s.name: digest(dataclasses.asdict(s)) for s in train},
        "dev": {s.name: digest(dataclasses.asdict(s)) for s in dev},
    }
    with full_disk(out):
        return work_folder(out, identity)


class _Training:
    """The state of one training: model, optimizer, batches, looks."""

    def __init__(
        self,
        spec: CheckpointSpec,
        train: Sequence[TrainingSet],
        dev: Sequence[DevSet],
        work: Path,
        settings: TrainSettings,
        tracked: TrackedRun | None,
        watcher: Watcher,
    ) -> None:
        import torch

        self.dev, self.work, self.settings = dev, work, settings
        self.tracked, self.watcher = tracked, watcher
        self.model = LateInteraction(
            spec,
            negatives=settings.negatives,
            frozen=settings.frozen,
            passage_tokens=settings.passage_tokens,
        )
        if settings.dim is not None:
            texts = sorted({text for s in train for text in s.texts.values()})
            some = np.random.default_rng(settings.seed).permutation(len(texts))[:PROJECTED]
            self.model.project(settings.dim, [texts[i] for i in some])
        self.initial = self.model.weights()
        self.best_weights = self.initial
        self.tuned_weights: Weights | None = None
        """The best of the trained ones."""
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.rate, weight_decay=settings.decay
        )
        self.sampler = Sampler(
            train,
            size=settings.batch,
            negatives=settings.negatives,
            whole=settings.whole,
            seed=settings.seed,
        )
        self.step = 0
        self.seconds = 0.0
        self.losses: list[float] = []
        self.looks: list[Look] = []

    def run(self, out: Path, after_step: Callable[[int], None]) -> Trained:
        batches = self._resumed()
        if not self.looks:
            self._look()
        bored = self._bored()
        while self.step < self.settings.steps and not bored:
            self._step(next(batches))
            if self.step % self.settings.every == 0 or self.step == self.settings.steps:
                self._look()
                bored = self._bored()
                self._keep()
            after_step(self.step)
        self._average()
        self.model.put(self.best_weights)
        self.model.save(out, {"hopsmith_trained_from": self.model.spec.name})
        done = Trained(
            checkpoint=out,
            best=best_of(self.looks),
            looks=tuple(self.looks),
            steps=self.step,
            stopped_early=bored and self.step < self.settings.steps,
            seconds=self.seconds,
            losses=tuple(self.losses),
        )
        close(self.work, done)
        return done

    def _step(self, batch: Batch) -> None:
        import torch

        started = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        loss = self.model.loss(batch.queries, batch.passages)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.step += 1
        self.losses.append(loss.item())
        self.seconds += time.perf_counter() - started
        if not np.isfinite(self.losses[-1]):
            raise TrainingError(f"the loss is not finite at step {self.step}: lower --rate")
        if self.tracked is not None:
            self.tracked.metrics({"loss": self.losses[-1]}, step=self.step)
        self.watcher.step(self.step, self.settings.steps, self.losses[-1])

    def _rate(self) -> float:
        settings = self.settings
        warm = max(1, round(settings.warmup * settings.steps))
        if self.step < warm:
            return settings.rate * (self.step + 1) / warm
        return settings.rate * (settings.steps - self.step) / max(1, settings.steps - warm)

    def _look(self, share: float = 1.0) -> None:
        """Measure the weights as they are; an average belongs to the step of the best ones."""
        started = time.perf_counter()
        step = self.step if share == 1.0 else self._tuned_step()
        look = Look(step, share, {s.name: recalls(self.model, s) for s in self.dev})
        self.seconds += time.perf_counter() - started
        self.looks.append(look)
        if best_of(self.looks) is look:
            self.best_weights = self.model.weights()
        if share == 1.0 and step and self._tuned_step() == step:
            self.tuned_weights = self.model.weights()
        if self.tracked is not None and share == 1.0:
            name = f"dev_recall@{RECALL_AT}"
            by_set = {f"{name}_{s}": value for s, value in look.recall.items()}
            self.tracked.metrics({name: look.mean, **by_set}, step=step)
        self.watcher.look(look)

    def _bored(self) -> bool:
        """Whether the last ``patience`` looks brought nothing better."""
        return self.looks.index(best_of(self.looks)) < len(self.looks) - self.settings.patience

    def _tuned_step(self) -> int:
        """The step of the best trained weights."""
        trained = [look for look in self.looks if look.step and look.share == 1.0]
        return best_of(trained, self.looks[0]).step

    def _average(self) -> None:
        assert self.tuned_weights is not None
        for share in SHARES:
            self.model.put(mixed(self.initial, self.tuned_weights, share))
            self._look(share)
        if best_of(self.looks).step == 0:
            self.watcher.say("no step raised dev recall: the checkpoint is the one it began with")

    def _keep(self) -> None:
        keep(
            self.work,
            {
                "step": self.step,
                "seconds": self.seconds,
                "losses": self.losses,
                "looks": [dataclasses.asdict(look) for look in self.looks],
                "weights": self.model.weights(),
                "best": self.best_weights,
                "tuned": self.tuned_weights,
                "optimizer": self.optimizer.state_dict(),
            },
        )

    def _resumed(self) -> Iterator[Batch]:
        """The batches that are left, after taking up the state that was kept."""
        batches = iter(self.sampler)
        state = kept(self.work, self.model.device)
        if state is None:
            return batches
        self.step, self.seconds = state["step"], state["seconds"]
        self.losses = list(state["losses"])
        self.looks = [Look(**look) for look in state["looks"]]
        self.model.put(state["weights"])
        self.best_weights = state["best"]
        self.tuned_weights = state["tuned"]
        self.optimizer.load_state_dict(state["optimizer"])
        for _ in range(self.step):
            next(batches)
        self.watcher.say(f"going on after step {self.step}")
        return batches


def recalls(model: LateInteraction, dev: DevSet) -> list[float]:
    """Recall@5 of each question over the pool, by exact MaxSim; ties by id."""
    ids = sorted(dev.pool)
    place = {identifier: i for i, identifier in enumerate(ids)}
    scores = maxsim(
        model.queries([q.text for q in dev.queries]), model.passages([dev.pool[i] for i in ids])
    )
    found = np.argsort(-scores, axis=1, kind="stable")[:, :RECALL_AT]
    return [
        len({place[i] for i in query.positives} & set(row.tolist())) / len(query.positives)
        for query, row in zip(dev.queries, found, strict=True)
    ]
