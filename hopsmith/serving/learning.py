"""From a server's journal to training questions: what people asked, and whether they were content.

An answer that got a thumb up becomes a question with that answer and its chain of hops; a thumb
down with the right answer one with that answer; a thumb down alone says only what is wrong, and its
line is ``rejected`` until somebody writes the answer. All others are for ``review``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchmarks.own import QuestionLine
from benchmarks.rows import file_rows
from hopsmith.errors import HopsmithError
from hopsmith.serving.journal import FeedbackRecord, RequestRecord
from programs.evidence import normal_query

Record = TypeVar("Record", bound=BaseModel)


@dataclass
class Harvest:
    """Lines of ``questions.jsonl`` made of a journal, and what could not be used."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    known: int = 0
    """Questions that the file had already."""
    unrated: int = 0
    """Requests without a thumb that were left out."""
    unreadable: int = 0
    """Lines that a full disk or a kill cut short, or that the redaction left without a question."""
    orphans: int = 0
    """Thumbs whose request was not kept."""

    def count(self, status: str) -> int:
        return sum(line["status"] == status for line in self.lines)


def harvest(folder: Path, known: Iterable[str] = (), *, unrated: bool = False) -> Harvest:
    """Training questions from a journal. ``known`` are questions that are there already;
    ``unrated`` takes requests without a thumb too, as ``rejected``, for a person to judge. Raises
    ``HopsmithError`` when there is no journal."""
    if not folder.is_dir():
        raise HopsmithError(
            f"--from-log {folder}: no such folder; hopsmith serve --log-dir makes it"
        )
    made = Harvest()
    requests = {r.id: r for r in records(folder, "requests", RequestRecord, made)}
    thumbs = {f.id: f for f in records(folder, "feedback", FeedbackRecord, made)}
    made.orphans = len(set(thumbs) - set(requests))
    had = {normal_query(question) for question in known}
    same: dict[str, list[RequestRecord]] = {}
    for request in requests.values():
        same.setdefault(normal_query(request.question), []).append(request)
    for question, asked in same.items():
        rated = [(r, thumbs[r.id]) for r in asked if r.id in thumbs]
        if question in had:
            made.known += 1
        elif rated:
            made.lines.append(checked(judged(rated)))
        elif unrated:
            made.lines.append(checked(unjudged(asked[-1])))
        else:
            made.unrated += 1
    return made


def records(folder: Path, kind: str, model: type[Record], made: Harvest) -> Iterator[Record]:
    """Records of one kind, oldest first; unreadable lines are counted."""
    for path in sorted(folder.glob(f"{kind}-*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                try:
                    yield model.model_validate_json(line)
                except ValidationError:
                    made.unreadable += bool(line.strip())


def judged(rated: Sequence[tuple[RequestRecord, FeedbackRecord]]) -> dict[str, Any]:
    """A question's line from all its thumbs. The latest correction counts; without one, the latest
    answer that was liked, if more liked their answer than not."""
    ups = [(r, f) for r, f in rated if f.thumb == "up"]
    downs = [(r, f) for r, f in rated if f.thumb == "down"]
    corrected = [(r, f) for r, f in downs if f.answer and f.answer.strip()]
    votes = {"up": len(ups), "down": len(downs)}
    if corrected:
        request, feedback = corrected[-1]
        line = about(request, "review", votes, feedback.comment)
        return {**line, "answer": str(feedback.answer).strip()}
    if len(ups) > len(downs):
        request, feedback = ups[-1]
        line = about(request, "review", votes, feedback.comment)
        if request.answer is None:
            return {**line, "answer": None, "answerable": False}
        return {**line, "answer": request.answer, "hops": chain(request)}
    request, feedback = downs[-1]
    return {**about(request, "rejected", votes, feedback.comment), **given(request)}


def unjudged(request: RequestRecord) -> dict[str, Any]:
    return {**about(request, "rejected", {"up": 0, "down": 0}, None), **given(request)}


def given(request: RequestRecord) -> dict[str, Any]:
    """The answer as it was given, right or not."""
    if request.answer is None:
        return {"answer": None, "answerable": False}
    return {"answer": request.answer}


def about(
    request: RequestRecord, status: str, votes: Mapping[str, int], comment: str | None
) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "from": "log",
        "asked": request.time,
        "thumbs": dict(votes),
        "answered": request.answer,
        "pipeline": request.pipeline,
        "fingerprint": request.fingerprint,
    }
    if comment:
        meta["comment"] = comment
    return {"id": request.id, "question": request.question, "status": status, "meta": meta}


def chain(request: RequestRecord) -> list[dict[str, Any]]:
    """The hops that found something, in order, each once, with the passage that states it."""
    found: dict[str, dict[str, Any]] = {}
    for hop in request.hops:
        passage = request.support.get(hop.id)
        if hop.answer is not None and passage is not None:
            step = {"question": hop.refined, "answer": hop.answer, "passage": passage}
            found.setdefault(normal_query(hop.refined), step)
    return list(found.values())


def checked(line: dict[str, Any]) -> dict[str, Any]:
    """A line as ``benchmarks.own`` reads it."""
    QuestionLine.model_validate(line)
    return line


def extend(path: Path, folder: Path, *, unrated: bool = False) -> Harvest:
    """Append to a file of questions what a journal has to add. Lines that are there stay as they
    are: they may have been reviewed. Raises ``HopsmithError``, ``BenchmarkError``."""
    there = [row.data.get("question") for row in file_rows(path)] if path.is_file() else []
    made = harvest(folder, [str(q) for q in there if q], unrated=unrated)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in made.lines)
    except OSError as fault:
        raise HopsmithError(f"--out {path}: {fault.strerror or fault}") from fault
    return made
