"""Service: what the routes call. Pipelines, admission, numbers, journal, readiness."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

from hopsmith.serving.asking import Asked, Desk, End, Listener
from hopsmith.serving.catalogue import Catalogue
from hopsmith.serving.citations import cited
from hopsmith.serving.health import LMHealth
from hopsmith.serving.journal import FeedbackRecord, Journal, now, request_record
from hopsmith.serving.limits import Limits
from hopsmith.serving.metrics import Metrics
from hopsmith.serving.pipelines import Served
from hopsmith.serving.problems import Problem
from hopsmith.serving.schema import (
    Answered,
    FeedbackRequest,
    Kept,
    PassageOut,
    Reloaded,
    by_role,
)
from optimize.rows import hop_rows
from retrieval.manifest import NAME as MANIFEST

log = logging.getLogger("hopsmith.serving")


class Service:
    """One server's parts."""

    def __init__(
        self,
        catalogue: Catalogue,
        limits: Limits,
        metrics: Metrics,
        journal: Journal | None = None,
        *,
        log_questions: bool = False,
    ) -> None:
        self.catalogue = catalogue
        self.limits = limits
        self.metrics = metrics
        self.journal = journal
        self.log_questions = log_questions
        self.desk = Desk(limits, metrics)
        self.stopping = False
        metrics.watch(self.desk.admission)
        metrics.serving(catalogue.abouts)

    def asked(
        self,
        question: str,
        pipeline: str | None = None,
        caps: Mapping[str, int] | None = None,
        seconds: float | None = None,
        listener: Listener | None = None,
    ) -> Asked:
        """A question, checked. Raises ``Problem``."""
        served = self.catalogue.get(pipeline)
        self.check(served, question)
        most = self.limits.seconds
        return Asked(
            served,
            question.strip(),
            caps=dict(caps or {}),
            seconds=most if seconds is None else min(seconds, most),
            listener=listener,
        )

    def check(self, served: Served, question: str) -> None:
        if len(question) > self.limits.question_chars:
            raise Problem(
                "invalid",
                f"the question has {len(question):,} characters; {self.limits.question_chars:,} "
                "are allowed",
            )
        if not re.search(r"\w", question):
            raise Problem("invalid", "the question has no word")

    async def answer(self, asked: Asked) -> Answered:
        """Answer a question, and keep it where that was asked for. Raises ``Problem``."""
        end = await self.desk.ask(asked)
        self.keep(asked, end)
        return answered(asked, end)

    def keep(self, asked: Asked, end: End) -> None:
        text = f" {asked.question!r} → {end.answer!r}" if self.log_questions else ""
        log.info(
            "%s %s: %s, hops %d, %.2f s%s",
            asked.id,
            asked.served.name,
            end.stop_reason,
            len(end.evidence.hops),
            end.seconds,
            text,
        )
        if self.journal is None:
            return
        about = asked.served.about
        record = request_record(
            id=asked.id,
            question=asked.question,
            answer=end.answer,
            evidence=end.evidence,
            pipeline=about.name,
            fingerprint=about.fingerprint,
            corpus_hash=about.corpus_hash,
            stop_reason=end.stop_reason,
            cited=list(cited(end.evidence, end.answer, end.cited)),
            seconds=round(end.seconds, 3),
        )
        asyncio.get_running_loop().run_in_executor(None, self.journal.request, record)

    async def feedback(self, given: FeedbackRequest) -> Kept:
        """Raises ``Problem`` when nothing is kept here, or it can't be."""
        if self.journal is None:
            raise Problem("forbidden", "this server keeps no feedback: start it with --log-dir")
        self.metrics.feedback.labels(given.thumb).inc()
        record = FeedbackRecord(**given.model_dump(), time=now())
        feedback, request = await asyncio.to_thread(self.journal.feedback, record)
        if not feedback and self.journal.fault is not None:
            raise Problem("log-full", self.journal.fault)
        return Kept(feedback=feedback, request=request)

    async def reload(
        self, pipeline: str | None = None, export: str | None = None
    ) -> list[Reloaded]:
        """Raises ``Problem`` (409): then everything is as it was."""
        try:
            done = await asyncio.to_thread(self.catalogue.reload, pipeline, export)
        except Problem as problem:
            self.metrics.reloads.labels("refused").inc()
            log.error("not reloaded: %s", problem.detail)
            raise
        self.metrics.reloads.labels("done").inc()
        self.metrics.serving(self.catalogue.abouts)
        for one in done:
            log.info("%s is %s now", one.pipeline.name, one.pipeline.fingerprint[:12])
        return done

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether questions can be answered now, and each part's state."""
        return await asyncio.to_thread(self._ready)

    def _ready(self) -> tuple[bool, dict[str, Any]]:
        parts: dict[str, Any] = {}
        ready = not self.stopping
        for served in self.catalogue.every:
            wrong = served.retriever.check()
            folder = served.retriever.folder
            gone = folder is not None and not (folder / MANIFEST).is_file()
            state = "failing" if wrong else "deleted, answered from memory" if gone else "ok"
            parts[f"index of {served.name}"] = state
            ready = ready and wrong is None
        lms: dict[tuple[str, str | None], LMHealth] = {}
        for served in self.catalogue.every:
            for lm in served.lms:
                lms.setdefault((lm.name, lm.address), lm)
        for lm in lms.values():
            wrong = lm.check()
            parts[f"LM {lm.name}"] = wrong or "ok"
            ready = ready and wrong is None
        if self.journal is not None:
            parts["journal"] = f"losing lines: {self.journal.fault}" if self.journal.fault else "ok"
        if self.stopping:
            parts["server"] = "stopping"
        return ready, parts

    def close(self) -> None:
        self.stopping = True
        self.desk.close()


def answered(asked: Asked, end: End) -> Answered:
    """An end as it goes over the wire."""
    chosen = cited(end.evidence, end.answer, end.cited)
    return Answered(
        id=asked.id,
        answer=end.answer,
        stop_reason=end.stop_reason,
        cited=list(chosen),
        passages=[PassageOut.of(p, p.id in chosen) for p in end.evidence.ranked()],
        hops=hop_rows(end.evidence),
        usage=dict(by_role(end.ledger)),
        pipeline=asked.served.about,
        seconds=round(end.seconds, 3),
        error=end.error,
    )
