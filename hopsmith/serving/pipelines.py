"""What is served: pipelines by name, each loaded from an export or built from a method."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import dspy

from hopsmith.budgets import check_budget
from hopsmith.endpoint import EndpointLM
from hopsmith.errors import HopsmithError
from hopsmith.knowledge import GraphPlace
from hopsmith.serving.health import LMHealth, lms_of
from hopsmith.serving.schema import PipelineOut
from hopsmith.serving.watched import WatchedRetriever
from hopsmith.settings import Settings
from optimize.export import PIPELINE, PipelineFile
from programs import HopBudget, MultiHopProgram, build, fingerprint
from programs.step import ROLE_LMS
from retrieval import BaseRetriever

REGISTERED = "models:/"
RETRIES = 1
"""Of a failed LM call: somebody waits."""

OpenIndex = Callable[[str | None], WatchedRetriever]
"""Opens the index under an engine; None is the engine that it was built for."""


@dataclass(frozen=True)
class Served:
    """A pipeline, ready to be asked by several threads at once."""

    about: PipelineOut
    program: MultiHopProgram
    context: Mapping[str, Any]
    """Keys for ``dspy.context``."""
    retriever: WatchedRetriever
    lms: tuple[LMHealth, ...]

    @property
    def name(self) -> str:
        return self.about.name

    def capped(self, caps: Mapping[str, int]) -> MultiHopProgram:
        """The program within tighter bounds, its parts too. Raises ``BudgetError``."""
        if not caps:
            return self.program
        copy: MultiHopProgram = self.program.deepcopy()
        below = [copy]
        while below:
            program = below.pop()
            program.budget = program.budget.capped(caps)
            below.extend(program.parts.values())
        return copy


class Source(Protocol):
    """Where a pipeline comes from; loading it again is how a server takes up a new one."""

    @property
    def name(self) -> str: ...

    def load(self, open_index: OpenIndex, seconds: float) -> Served: ...


@dataclass(frozen=True)
class ExportSource:
    """An export folder, or a model that MLflow's registry knows (``models:/NAME@champion``)."""

    name: str
    where: str
    settings: Settings
    engine: str | None = None
    force: bool = False

    def moved(self, where: str) -> ExportSource:
        return replace(self, where=where)

    def load(self, open_index: OpenIndex, seconds: float) -> Served:
        """Raises ``ExportError``, ``HopsmithError`` or ``RetrievalError`` naming the mend."""
        from hopsmith.loading import load

        with tempfile.TemporaryDirectory(prefix="hopsmith-") as scratch:
            folder = find_export(self.where, Path(scratch))
            engine = self.engine or PipelineFile.read(folder).retriever.get("engine")
            retriever = open_index(engine)
            pipeline = load(folder, lm=self.settings, retriever=retriever, force=self.force)
        return served(
            self.name, pipeline.program, pipeline.context, retriever, pipeline.fingerprint, seconds
        )


@dataclass(frozen=True)
class MethodSource:
    """A method as it is, with the budget and arguments given."""

    name: str
    method: str
    context: Callable[[], Mapping[str, Any]]
    """Keys for ``dspy.context``: LM, adapter, role LMs."""
    budget: HopBudget | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    engine: str | None = None
    graph: GraphPlace = field(default_factory=GraphPlace)
    over: Callable[[BaseRetriever], BaseRetriever] = lambda retriever: retriever
    """What lies over the index: a reranker."""
    alone: bool = True
    """Whether budget and arguments are meant for this method and no other."""

    def load(self, open_index: OpenIndex, seconds: float) -> Served:
        retriever = open_index(self.engine)
        over = self.over(retriever)
        knowledge = self.graph.for_method(self.method, over)
        program = build(self.method, over, self.budget, knowledge=knowledge, **self.arguments)
        if self.alone:
            check_budget(program)
        context = self.context()
        with dspy.context(**context):
            mark = fingerprint(program)
        return served(self.name, program, context, retriever, mark, seconds)


def served(
    name: str,
    program: MultiHopProgram,
    context: Mapping[str, Any],
    retriever: WatchedRetriever,
    mark: str,
    seconds: float,
) -> Served:
    """A pipeline whose LMs don't wait longer than the server does."""
    roles = {role: hasty(lm, seconds) for role, lm in (context.get(ROLE_LMS) or {}).items()}
    context = {**context, "lm": hasty(context["lm"], seconds), ROLE_LMS: roles}
    return Served(
        about=PipelineOut(
            name=name,
            method=program.info.name,
            fingerprint=mark,
            corpus_hash=retriever.corpus_hash or None,
        ),
        program=program,
        context=context,
        retriever=retriever,
        lms=tuple(lms_of(context, ROLE_LMS)),
    )


def hasty(lm: Any, seconds: float) -> Any:
    """An LM that gives a call up after so many seconds; one with an engine of its own stays."""
    if not isinstance(lm, EndpointLM):
        return lm
    patience = min(float(lm.kwargs.get("timeout") or seconds), seconds)
    quick = lm.copy(timeout=patience)
    quick.retries = min(lm.retries, RETRIES)
    return quick


def find_export(where: str, scratch: Path) -> Path:
    """The folder that holds ``pipeline.json``. Raises ``HopsmithError``."""
    if not where.startswith(REGISTERED):
        return Path(where)
    import mlflow.artifacts
    from mlflow.exceptions import MlflowException

    try:
        folder = Path(
            mlflow.artifacts.download_artifacts(artifact_uri=where, dst_path=str(scratch))
        )
    except (MlflowException, OSError) as fault:
        raise HopsmithError(
            f"{where} can't be fetched ({' '.join(str(fault).split())[:200]}): check the name and "
            "MLFLOW_TRACKING_URI"
        ) from fault
    found = sorted(folder.rglob(PIPELINE))
    if not found:
        raise HopsmithError(f"{where} is no exported pipeline: it has no {PIPELINE}")
    return found[0].parent
