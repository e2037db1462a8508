"""What a training of the retriever leaves behind: looks at dev, its state, its result.

All lies in ``OUT/training``, so that the folder above is a checkpoint and no more.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimize.retriever_examples import TrainingError
from optimize.run import versions, write_json

WORK = "training"
STATE, IDENTITY, RESULT = "state.pt", "identity.json", "result.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Look:
    """Dev recall at one point of training."""

    step: int
    share: float
    """Of the way from the first weights; 1 but for averages."""
    scores: Mapping[str, Sequence[float]]
    """Each question's recall, by set."""

    @property
    def recall(self) -> dict[str, float]:
        """The mean of each set."""
        return {name: sum(values) / len(values) for name, values in self.scores.items()}

    @property
    def mean(self) -> float:
        """Of the sets' means: each set counts alike."""
        return sum(self.recall.values()) / len(self.scores)

    def worth(self, first: Look) -> float:
        """The mean, less what sets have fallen below where they began: a model that is better for
        one data set at another's cost has to be much better."""
        began, now = first.recall, self.recall
        return self.mean - sum(max(0.0, began[name] - now[name]) for name in now)


@dataclass(frozen=True)
class Trained:
    """What a training did."""

    checkpoint: Path
    best: Look
    looks: Sequence[Look]
    """In order: the first weights, the way, the averages."""
    steps: int
    """Done, of those wanted."""
    stopped_early: bool
    seconds: float
    """Of training and looks, earlier runs that were killed included."""
    losses: Sequence[float] = field(repr=False, default=())

    @property
    def first(self) -> Look:
        return self.looks[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "best": dataclasses.asdict(self.best),
            "looks": [dataclasses.asdict(look) for look in self.looks],
            "steps": self.steps,
            "stopped_early": self.stopped_early,
            "seconds": round(self.seconds, 1),
            "losses": [round(loss, 6) for loss in self.losses],
        }


def best_of(looks: Sequence[Look], first: Look | None = None) -> Look:
    """The look of most worth, beside the ``first`` of all; of equal ones the first."""
    began = first or looks[0]
    return max(looks, key=lambda look: round(look.worth(began), 9))


def digest(*parts: object) -> str:
    """16 hex digits that name some JSON values."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def work_folder(out: Path, identity: Mapping[str, Any]) -> Path:
    """``out/training``: new, or that of the same training. Raises ``TrainingError`` when ``out``
    holds something else."""
    path = out / WORK / IDENTITY
    if path.is_file():
        there = json.loads(path.read_text())
        differs = [name for name in identity if there.get(name) != identity[name]]
        if differs:
            raise TrainingError(
                f"{out} holds another training ({', '.join(differs)} differ): give another --out"
            )
    elif out.exists() and (not out.is_dir() or any(p.name != WORK for p in out.iterdir())):
        raise TrainingError(f"{out} is there and holds no training: give another --out")
    else:
        write_json(path, {**identity, "versions": versions()})
    return path.parent


def finished(out: Path) -> Trained | None:
    """The result of the training in ``out``, when it is done."""
    path = out / WORK / RESULT
    if not path.is_file() or not (out / WEIGHTS).is_file():
        return None
    row = json.loads(path.read_text())
    return Trained(
        checkpoint=out,
        best=Look(**row["best"]),
        looks=tuple(Look(**look) for look in row["looks"]),
        steps=row["steps"],
        stopped_early=row["stopped_early"],
        seconds=row["seconds"],
        losses=tuple(row["losses"]),
    )


def keep(work: Path, state: Mapping[str, Any]) -> None:
    """Tensors and plain values, atomically replaced."""
    import torch

    temporary = work / f".{STATE}.{os.getpid()}"
    try:
        torch.save(dict(state), temporary)
        os.replace(temporary, work / STATE)
    finally:
        temporary.unlink(missing_ok=True)


def kept(work: Path, device: Any) -> dict[str, Any] | None:
    """What ``keep`` wrote last, if anything."""
    import torch

    path = work / STATE
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return state


def close(work: Path, done: Trained) -> None:
    """Write the result and let go of the state."""
    write_json(work / RESULT, done.to_json())
    (work / STATE).unlink(missing_ok=True)
