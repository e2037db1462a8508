"""Loading an export: the same answers as were measured, from an index and an LM given now."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from hopsmith.errors import HopsmithError
from hopsmith.knowledge import GraphPlace
from hopsmith.lm import configure_cache, make_adapter, make_lm
from hopsmith.reranking import reranked_as
from hopsmith.session import asking, retriever_for
from hopsmith.settings import Settings, load_settings
from hopsmith.show import passage_json
from hopsmith.window import window
from optimize.errors import ExportError
from optimize.export import PipelineFile, build_part
from optimize.rows import hop_rows
from programs import MultiHopProgram
from programs.fingerprint import content_hash
from programs.knowledge import Knowledge
from programs.scope import WINDOW
from programs.step import ROLE_LMS
from retrieval import BaseRetriever, Retriever
from retrieval.contract import identity_of
from retrieval.wire import is_url
from signatures import RENDERING_VERSION


class Pipeline:
    """An exported pipeline, ready to be asked. Thread-safe."""

    def __init__(
        self, file: PipelineFile, program: MultiHopProgram, context: Mapping[str, Any]
    ) -> None:
        self.file = file
        self.program = program
        self.context = dict(context)
        """Keys for ``dspy.context``: LM, adapter, role LMs, price, deadline, width."""

    @property
    def fingerprint(self) -> str:
        return self.file.fingerprint

    def __call__(self, question: str) -> dspy.Prediction:
        """``answer``, ``evidence``, ``stop_reason``, ``usage``, ``error``."""
        with dspy.context(**self.context):
            return self.program(question=question)

    def plain(self, question: str) -> dict[str, Any]:
        """The answer as JSON values."""
        prediction = self(question)
        return {
            "answer": prediction.answer,
            "stop_reason": prediction.stop_reason,
            "hops": [hop.model_dump() for hop in hop_rows(prediction.evidence)],
            "passages": [passage_json(p) for p in prediction.evidence.ranked()],
            "usage": prediction.usage.to_json(),
        }


def load(
    path: Path | str,
    index: Path | str | None = None,
    lm: str | dspy.LM | Settings | None = None,
    *,
    engine: str | None = None,
    checkpoint: str | None = None,
    where: Sequence[str] | None = None,
    force: bool = False,
    retriever: Retriever | str | None = None,
    adapter: Any = None,
    graph: str | None = None,
) -> Pipeline:
    """Load an export.

    ``index`` (or ``HOPSMITH_INDEX``: a folder, or a server's address) is searched by the engine
    that was measured, of it the passages that meet the conditions ``where`` (``["year>=2020"]``);
    ``retriever`` (or ``HOPSMITH_RETRIEVER``) is one's own, as an object or ``module:factory``,
    which is called with ``index`` where that is given. ``lm`` is a name, an LM (that answers in
    every role) or settings, and by default ``HOPSMITH_LM`` or the LM that was measured. A pipeline
    that walks a graph takes ``graph`` (or ``HOPSMITH_GRAPH``: a file or database URL), else the one
    beside the index. Raises ``ExportError`` when encoder, engine or the graph's reading differs
    (``force`` says so and goes on) or the saved state doesn't fit; warns when corpus or graph
    changed.
    """
    file = PipelineFile.read(Path(path))
    given = lm if isinstance(lm, Settings) else None
    retriever = retriever or os.environ.get("HOPSMITH_RETRIEVER")
    place = index or (given and given.index) or os.environ.get("HOPSMITH_INDEX")
    if retriever is None or isinstance(retriever, str):
        if retriever is None and not place:
            raise HopsmithError("no index: give index=… (--index DIR) or set HOPSMITH_INDEX")
        if retriever is None and not is_url(place):
            engine = engine or file.retriever.get("engine")
        retriever = retriever_for(place or None, None, engine, checkpoint, where, retriever)
    graph = graph or (given and given.graph) or os.environ.get("HOPSMITH_GRAPH")
    rerank = given.rerank if given else None
    program = _program(file, retriever, force, rerank, GraphPlace(graph or None, place or None))
    return Pipeline(file, program, _context(file, lm, adapter))


def program_of(
    path: Path | str,
    retriever: Retriever,
    force: bool = False,
    rerank: str | None = None,
    place: GraphPlace | None = None,
) -> MultiHopProgram:
    """The program of an export over a retriever, without its LM. What was found is reranked as it
    was when the export was measured; ``rerank`` says where its cross-encoder lies, when it isn't
    found by itself, and ``place`` where its graph is."""
    file = PipelineFile.read(Path(path))
    return _program(file, retriever, force, rerank, place or GraphPlace())


def measured_settings(path: Path | str, settings: Settings) -> Settings:
    """Settings that ask an export as it was measured, where they don't say otherwise."""
    return _measured(PipelineFile.read(Path(path)), settings)


def _program(
    file: PipelineFile,
    retriever: Retriever,
    force: bool,
    rerank: str | None,
    place: GraphPlace,
) -> MultiHopProgram:
    if isinstance(retriever, BaseRetriever) and "rerank" not in retriever.identity:
        retriever = reranked_as(retriever, file.retriever.get("rerank"), rerank)
    check_retriever(file, retriever, force)
    if file.rendering != RENDERING_VERSION and not force:
        raise ExportError(
            f"the pipeline was measured with prompts of form {file.rendering}, this version writes "
            f"form {RENDERING_VERSION}: compile it again, or force it (force=True, --force)"
        )
    knowledge = _knowledge(file, retriever, force, place) if file.graph is not None else None
    program = build_part(file.program, retriever, knowledge)
    program.load_state(file.state)
    if file.content not in (None, content_hash(program)):
        print(
            "hopsmith: prompts or budget were edited since this pipeline was measured: its scores "
            "may not hold",
            file=sys.stderr,
        )
    return program


def _knowledge(
    file: PipelineFile, retriever: Retriever, force: bool, place: GraphPlace
) -> Knowledge:
    """The graph of a pipeline that walks one. Refuses one that was read otherwise; warns of one
    that holds other triples."""
    found = place.open(retriever)
    if found is None or file.graph is None:
        raise ExportError(
            "this pipeline walks a graph of the corpus and there is none beside the index: "
            "hopsmith graph --index DIR makes one, --graph (graph=…, HOPSMITH_GRAPH) names another"
        )
    differs = sorted(
        name
        for name in {*file.graph, *found.identity} - {"content"}
        if file.graph.get(name) != found.identity.get(name)
    )
    if differs and not force:
        raise ExportError(
            f"the graph does not fit this pipeline ({' and '.join(differs)} were read by another "
            "LM, prompt or schema): make it as it was measured, or force it (force=True, --force)"
        )
    if file.graph.get("content") != found.identity["content"]:
        print(
            "hopsmith: the graph has changed since this pipeline was measured: its scores may not "
            "hold",
            file=sys.stderr,
        )
    return found


def check_retriever(file: PipelineFile, retriever: Retriever, force: bool = False) -> None:
    """Refuse another encoder, engine or setting; warn of another corpus."""
    here = identity_of(retriever)
    differs = [
        f"{name}: measured with {file.retriever.get(name)!r}, here {here.get(name)!r}"
        for name in sorted({*file.retriever, *here})
        if file.retriever.get(name) != here.get(name)
    ]
    if differs and not force:
        raise ExportError(
            f"the index does not fit this pipeline ({'; '.join(differs)}): index the corpus as it "
            "was measured, or force it (force=True, --force)"
        )
    for line in differs:
        warnings.warn(f"the index differs from the one measured: {line}", stacklevel=3)
    corpus = getattr(retriever, "corpus_hash", None)
    if file.corpus_hash and corpus and corpus != file.corpus_hash:
        print(
            "hopsmith: the corpus has changed since this pipeline was measured: its scores may not "
            "hold",
            file=sys.stderr,
        )


def _context(
    file: PipelineFile, lm: str | dspy.LM | Settings | None, adapter: Any
) -> dict[str, Any]:
    if isinstance(lm, dspy.BaseLM):
        adapter = adapter or make_adapter(_measured(file, load_settings()))
        return {
            "lm": lm,
            "adapter": adapter,
            "disable_history": True,
            ROLE_LMS: {},
            WINDOW: window,
        }
    given = lm if isinstance(lm, Settings) else load_settings(lm=lm)
    settings = _measured(file, given)
    context = {"lm": make_lm(settings), "disable_history": True, **asking(settings)}
    configure_cache(None, on=settings.lm_cache)
    return {**context, "adapter": adapter or make_adapter(settings)}


def _measured(file: PipelineFile, settings: Settings) -> Settings:
    """What flags, environment and file leave open is as it was measured, LMs by role included."""
    default = file.lms.get("default") or {}
    measured: dict[str, Any] = {
        "lm": _asked_for(default),
        "adapter": "chat" if file.adapter.get("class") == "ChatAdapter" else "json",
    }
    for name in ("temperature", "max_tokens", "reasoning_effort", "seed"):
        if default.get(name) is not None:
            measured[name] = default[name]
    left = {k: v for k, v in measured.items() if k not in settings.model_fields_set}
    roles = {role: _asked_for(lm) for role, lm in file.lms.items() if role != "default" and lm}
    return settings.model_copy(update={**left, "role_lm": {**roles, **settings.role_lm}})


def _asked_for(measured: Mapping[str, Any]) -> str:
    """What to call the LM that was measured: ``local`` for the local model."""
    name = str(measured.get("name", "local"))
    if name.startswith("hopsmith-local/"):
        return "local"
    return name.removeprefix("hopsmith-endpoint/")
