"""Traces: a few questions asked with every step as an MLflow span, the retriever's as RETRIEVER.

DSPy's autolog is used for traces alone. Under threads a trace can land on the wrong run, so these
questions are asked one after another, after the scores are in; known LM answers come from the
cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import dspy

from benchmarks.question import Question
from programs import MultiHopProgram
from retrieval import Passage, Retriever


class TracedRetriever:
    """A retriever whose searches are spans with their queries and passages."""

    def __init__(self, inner: Retriever) -> None:
        self.inner = inner

    def __deepcopy__(self, memo: dict[int, Any]) -> TracedRetriever:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def search(
        self, queries: Sequence[str], k: int, pool: int | None = None
    ) -> list[list[Passage]]:
        import mlflow
        from mlflow.entities import Document, SpanType

        with mlflow.start_span("search", span_type=SpanType.RETRIEVER) as span:
            span.set_inputs({"queries": list(queries), "k": k, "pool": pool})
            found = self.inner.search(queries, k, pool=pool)
            span.set_outputs(
                [
                    Document(
                        p.text,
                        {"title": p.title, "score": p.score, "rank": p.rank, "query": query},
                        p.id,
                    )
                    for query, passages in zip(queries, found, strict=True)
                    for p in passages
                ]
            )
        return found


def trace(program: MultiHopProgram, questions: Sequence[Question], uri: str, run_id: str) -> int:
    """Ask ``questions`` and write their traces to a run. Returns how many were written; a server
    that fails ends it early."""
    import mlflow
    from mlflow.dspy.callback import MlflowCallback

    copied: MultiHopProgram = program.deepcopy()
    _wrap(copied)
    before = mlflow.get_tracking_uri()
    written = 0
    mlflow.set_tracking_uri(uri)
    try:
        mlflow.dspy.autolog(log_traces=True, silent=True)
        with mlflow.start_run(run_id=run_id), dspy.context(callbacks=[MlflowCallback()]):
            for question in questions:
                copied(question=question.question)
                written += 1
        mlflow.flush_trace_async_logging()
    except mlflow.exceptions.MlflowException:
        return written
    finally:
        with contextlib.suppress(Exception):
            mlflow.dspy.autolog(disable=True, silent=True)
        mlflow.set_tracking_uri(before)
    return written


def _wrap(program: MultiHopProgram) -> None:
    program.retriever = TracedRetriever(program.retriever)
    for part in program.parts.values():
        _wrap(part)
