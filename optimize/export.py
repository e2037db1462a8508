"""Export: a tuned pipeline as a folder that production can load and people can read.

``pipeline.json`` (no pickle, no secret, no path), ``card.md``, ``requirements.txt`` and
``mlflow_model/``, a models-from-code artefact with the code that it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimize.card import card
from optimize.errors import ExportError
from optimize.run import versions, write_json
from programs import MultiHopProgram, build, fingerprint, identity
from programs.fingerprint import content_hash
from programs.knowledge import Knowledge
from retrieval import Retriever

FORMAT = 1
PIPELINE, MODEL = "pipeline.json", "mlflow_model"
PACKAGES = ("signatures", "programs", "retrieval", "benchmarks", "metrics", "optimize", "hopsmith")


class Part(BaseModel):
    """A method with its arguments, recursively: how to build it, without its state."""

    model_config = ConfigDict(extra="forbid")

    method: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    parts: dict[str, Part] = Field(default_factory=dict)


class PipelineFile(BaseModel):
    """``pipeline.json``."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    program: Part
    state: dict[str, Any]
    """``{"predictors", "budget", "parts"}``."""
    adapter: dict[str, Any]
    lms: dict[str, Any]
    """By role: name, temperature, max_tokens, …; ``default`` answers for the other roles."""
    retriever: dict[str, Any]
    corpus_hash: str | None
    graph: dict[str, Any] | None = None
    """Of the corpus's graph, where the method walks one: how it was read, and a hash of it."""
    rendering: int
    fingerprint: str
    content: str | None = None
    """``programs.fingerprint.content_hash``: tells a file that was edited by hand."""
    scores: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> PipelineFile:
        """Raises ``ExportError`` naming the mend."""
        path = folder / PIPELINE
        if not path.is_file():
            raise ExportError(f"{folder} is no exported pipeline: it has no {PIPELINE}")
        try:
            raw = json.loads(path.read_text())
            if isinstance(raw, dict) and raw.get("format") != FORMAT:
                raise ExportError(
                    f"{path} has format {raw.get('format')}, this version reads {FORMAT}: export "
                    "it again"
                )
            return cls.model_validate(raw)
        except (json.JSONDecodeError, ValidationError) as fault:
            raise ExportError(
                f"{path} can't be read ({type(fault).__name__}): export it again"
            ) from fault


def part_of(program: MultiHopProgram) -> Part:
    """How to build a program again."""
    return Part(
        method=program.info.name,
        arguments=program.arguments,
        parts={name: part_of(part) for name, part in program.parts.items()},
    )


def build_part(
    part: Part, retriever: Retriever, knowledge: Knowledge | None = None
) -> MultiHopProgram:
    """The inverse of ``part_of``, over a retriever and, for what walks one, the corpus's graph;
    state comes after."""
    parts = {name: build_part(sub, retriever, knowledge) for name, sub in part.parts.items()}
    return build(part.method, retriever, None, knowledge=knowledge, **part.arguments, **parts)


def graph_of(program: MultiHopProgram) -> dict[str, Any] | None:
    """The identity of the graph that a program or a part of it walks."""
    own = getattr(program, "knowledge", None)
    if own is not None:
        return dict(own.identity)
    return next(filter(None, map(graph_of, program.parts.values())), None)


def export(
    program: MultiHopProgram,
    folder: Path,
    *,
    scores: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    mlflow_model: bool = True,
) -> Path:
    """Write an export; an earlier one in ``folder`` is replaced when all is written.

    LM, adapter and retriever are those of ``dspy.settings`` and the program now. ``scores`` go
    into the file and the card, ``about`` (benchmark, splits, costs) into the card.
    """
    whole = identity(program)
    pipeline = PipelineFile(
        program=part_of(program),
        state=program.dump_state(),
        adapter=whole["adapter"],
        lms=whole["lms"],
        retriever=whole["retriever"],
        corpus_hash=getattr(program.retriever, "corpus_hash", None),
        graph=graph_of(program),
        rendering=whole["rendering"],
        fingerprint=fingerprint(program),
        content=content_hash(program),
        scores=dict(scores or {}),
        versions=versions(),
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.making-"))
    try:
        write_json(making / PIPELINE, json.loads(pipeline.model_dump_json()))
        (making / "card.md").write_text(card(pipeline.model_dump(), dict(about or {})))
        (making / "requirements.txt").write_text(requirements())
        if mlflow_model:
            _save_model(making)
        if folder.exists():
            old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old-"))
            os.replace(folder, old / folder.name)
            os.replace(making, folder)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def requirements() -> str:
    """Pins of what an answer depends on."""
    return "".join(
        f"{name}=={number.partition('+')[0]}\n"
        for name, number in versions().items()
        if name != "python"
    )


def _save_model(folder: Path) -> None:
    import logging

    import mlflow.pyfunc

    root = Path(__file__).resolve().parent.parent
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch:
        warnings.simplefilter("ignore")
        code = Path(scratch) / "code"
        for name in PACKAGES:
            shutil.copytree(
                root / name, code / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        mlflow.pyfunc.save_model(
            str(folder / MODEL),
            python_model=str(root / "hopsmith" / "serve_model.py"),
            artifacts={"pipeline": str(folder / PIPELINE)},
            code_paths=[str(code / name) for name in PACKAGES],
            pip_requirements=[
                line for line in requirements().splitlines() if not line.startswith("hopsmith==")
            ],
        )
    _forget_places(folder / MODEL / "MLmodel")


def _forget_places(path: Path) -> None:
    """Leave out where the model was made, which loading doesn't need."""
    from mlflow.models import Model

    model = Model.load(str(path))
    function = model.flavors["python_function"]
    function["model_code_path"] = Path(function["model_code_path"]).name
    for artifact in function["artifacts"].values():
        artifact["uri"] = artifact["path"]
    model.save(str(path))
