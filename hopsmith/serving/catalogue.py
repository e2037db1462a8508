"""Catalogue: the pipelines by name, and how they are swapped while questions are under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from hopsmith.errors import HopsmithError
from hopsmith.serving.asking import Asked, End, answer
from hopsmith.serving.citations import words
from hopsmith.serving.pipelines import ExportSource, Served, Source
from hopsmith.serving.problems import Problem
from hopsmith.serving.schema import PipelineOut, Reloaded
from hopsmith.serving.watched import Told, WatchedRetriever
from optimize.errors import OptimizeError
from programs import ProgramError
from retrieval import RetrievalError, Retriever

Reopen = Callable[[str | None], Retriever]
"""Opens the index under an engine; None is the one it was built for."""
REFUSALS = (HopsmithError, OptimizeError, ProgramError, RetrievalError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Canary:
    """A question that a new pipeline must answer before it is taken up."""

    question: str | None = None
    """None: about the first passage that comes to hand."""
    answer: str | None = None
    """What the answer must be, or hold; None: any that isn't a failure."""


class Catalogue:
    """Pipelines by name. Reading is safe from any thread; a question keeps the pipeline it got."""

    def __init__(
        self,
        sources: Sequence[Source],
        reopen: Reopen,
        *,
        seconds: float,
        canary: Canary | None = None,
        told: Told = lambda _: None,
    ) -> None:
        """Loads every source. Raises what ``Source.load`` raises."""
        names = [source.name for source in sources]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise HopsmithError(
                f"two pipelines are called {sorted(doubled)[0]}: --name tells apart"
            )
        self._sources = {source.name: source for source in sources}
        self._reopen = reopen
        self._seconds = seconds
        self._canary = canary or Canary()
        self._told = told
        self._lock = threading.Lock()
        self._served = self._load(self._sources.values())

    @property
    def every(self) -> list[Served]:
        return list(self._served.values())

    @property
    def abouts(self) -> list[PipelineOut]:
        return [served.about for served in self.every]

    def get(self, name: str | None) -> Served:
        """By name; the first for None. Raises ``Problem`` (404)."""
        if name is None:
            return self.every[0]
        served = self._served.get(name)
        if served is None:
            raise Problem("not-found", f"no pipeline {name!r}; there are {', '.join(self._served)}")
        return served

    def reload(self, name: str | None = None, export: str | None = None) -> list[Reloaded]:
        """Load pipelines anew, put the canary question to each, then take up all of them, or, when
        one fails, none. Raises ``Problem`` (409) that says why. Blocks; one reload at a time."""
        if not self._lock.acquire(blocking=False):
            raise Problem("refused", "another reload is under way")
        try:
            sources = self._wanted(name, export)
            try:
                fresh = self._load(sources.values())
            except REFUSALS as fault:
                raise Problem("refused", " ".join(str(fault).split())) from fault
            found = {name: self._tried(served) for name, served in fresh.items()}
            before = self._served
            self._served = {**before, **fresh}
            self._sources = {**self._sources, **sources}
            return [
                Reloaded(
                    pipeline=served.about,
                    before=before[name].about.fingerprint,
                    canary=found[name],
                )
                for name, served in fresh.items()
            ]
        finally:
            self._lock.release()

    def _wanted(self, name: str | None, export: str | None) -> dict[str, Source]:
        if name is None and export is None:
            return dict(self._sources)
        name = self.get(name).name
        source = self._sources[name]
        if export is None:
            return {name: source}
        if not isinstance(source, ExportSource):
            raise Problem("refused", f"{name} is no export but a method: restart with other flags")
        return {name: source.moved(export)}

    def _load(self, sources: Iterable[Source]) -> dict[str, Served]:
        """Each source over indexes opened now, one for each engine."""

        @cache
        def open_index(engine: str | None) -> WatchedRetriever:
            return WatchedRetriever(lambda: self._reopen(engine), self._told)

        return {source.name: source.load(open_index, self._seconds) for source in sources}

    def _tried(self, served: Served) -> str:
        """The canary's answer. Raises ``Problem`` when the pipeline fails on it."""
        canary = self._canary
        question = canary.question or first_question(served)
        end = answer(Asked(served, question, seconds=self._seconds))
        if isinstance(end, Problem):
            raise Problem("refused", f"{served.name} failed on the canary question: {end.detail}")
        if end.stop_reason == "error":
            raise Problem("refused", f"{served.name} failed on the canary question: {end.error}")
        if canary.answer is not None and not states(end, canary.answer):
            raise Problem(
                "refused",
                f"{served.name} answered the canary question {end.answer!r}, not {canary.answer!r}",
            )
        return end.answer or f"no answer ({end.stop_reason})"


def first_question(served: Served) -> str:
    """A question about a passage of the index."""
    (found,) = served.retriever.search(["what"], 1)
    title = (found[0].title or found[0].text[:60]) if found else ""
    return f"What is said about {title}?"


def states(end: End, wanted: str) -> bool:
    """Whether an answer is, or holds, the words wanted."""
    return bool(words(wanted)) and words(wanted) in words(end.answer or "")
