"""Predictions of any other system, as a run: scored by the same rules and compared as any run is.

A file has ``id`` and ``answer`` a record (JSONL, JSON, CSV), or is what the data sets' official
scripts read: HotpotQA's and 2Wiki's ``{"answer": {id: …}}``, MuSiQue's ``predicted_answer``.
Whatever else it says is taken: ``passages`` (ids, titles, or title and text), ``cited``,
``lm_calls``, ``prompt_tokens``, ``completion_tokens``, ``cost``, ``seconds``, ``error``. What it
doesn't say is not known, never 0.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from benchmarks import Benchmark, Question, questions_hash
from benchmarks.places import MISSING, Given, Wanted
from benchmarks.rows import Row, file_rows
from metrics import DEFINITION_VERSION
from optimize.errors import RunError
from optimize.passages import PassageFile
from optimize.rows import PredictionRow, RunHeader
from optimize.run import PASSAGES, ROWS, open_run, write_text
from optimize.saved import SavedRun, read_run
from programs import Account
from retrieval import Passage

USAGE = ("lm_calls", "prompt_tokens", "completion_tokens", "cost")
UNKNOWN = "unknown:"
"""Prefix of passages that the corpus does not have: read, and never gold."""
Named = tuple[str, str]
"""A passage as a file names it: id or title, and text where it is told."""
LACKING = "no prediction for this question"


class TitledPassage(BaseModel):
    """A passage by title and text."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = None
    title: str = ""
    text: str = ""


class PredictionLine(BaseModel):
    """A record of a predictions file."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    answer: str | None
    passages: list[str | TitledPassage] | None = None
    cited: list[str | TitledPassage] | None = None
    lm_calls: int | None = Field(None, ge=0)
    prompt_tokens: int | None = Field(None, ge=0)
    completion_tokens: int | None = Field(None, ge=0)
    cost: float | None = Field(None, ge=0)
    seconds: float | None = Field(None, ge=0)
    error: str | None = None

    @field_validator(
        "lm_calls", "prompt_tokens", "completion_tokens", "cost", "seconds", mode="before"
    )
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("passages", "cited", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        """CSV has lists as JSON text."""
        if isinstance(value, str):
            return json.loads(value) if value.strip() else None
        return value


@dataclass(frozen=True)
class Scored:
    """A predictions file against a benchmark's questions."""

    header: RunHeader
    rows: tuple[PredictionRow, ...]
    """One a question, those without a prediction included, as failed."""
    passages: tuple[Passage, ...]
    """Texts that the file named and the corpus has."""
    missing: tuple[str, ...]
    """Questions without a prediction: they count as failed."""
    unknown: tuple[str, ...]
    """Predictions for no question of these: left out."""
    strangers: tuple[str, ...]
    """Passages named that the corpus does not have: they count as read, and as not gold."""


def score(
    path: Path, questions: Sequence[Question], benchmark: Benchmark, split: str, name: str
) -> Scored:
    """Read predictions and match them to the questions by id, and their passages to the corpus by
    id, by title and text, or by a title that only one passage has.

    Raises ``RunError`` with file and line for what is no prediction, an id that comes twice, or no
    question matched at all.
    """
    lines = {line.id: line for line in _lines(path)}
    asked = {q.id for q in questions}
    unknown = tuple(i for i in lines if i not in asked)
    missing = tuple(q.id for q in questions if q.id not in lines)
    if len(missing) == len(questions):
        raise RunError(
            f"{path} has no prediction for any of the {len(questions)} questions; its first id is "
            f"{next(iter(lines), 'none')!r}, the first question's {questions[0].id!r}: are "
            "--benchmark, --data and --split those that were predicted?"
        )
    told = sorted(
        field
        for field in (*USAGE, "seconds", "passages", "cited")
        if any(getattr(line, field) is not None for line in lines.values())
    )
    places, strangers = _places(lines.values(), questions, benchmark)
    mark = hashlib.sha256(path.read_bytes() + name.encode()).hexdigest()
    rows = tuple(_row(q.id, lines.get(q.id), mark, places) for q in questions)
    header = RunHeader(
        method=name,
        benchmark=benchmark.name,
        split=split,
        answer_rule=benchmark.answer_rule,
        questions=len(questions),
        questions_hash=questions_hash(questions),
        fingerprint=mark,
        identity={"predictions": hashlib.sha256(path.read_bytes()).hexdigest(), "name": name},
        definitions=DEFINITION_VERSION,
        told=told,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
    wanted = {i for row in rows for i in row.ranked}
    texts = tuple(p for p in benchmark.corpus if p.id in wanted) if wanted else ()
    return Scored(header, rows, texts, missing, unknown, strangers)


def _lines(path: Path) -> Iterator[PredictionLine]:
    seen: dict[str, str] = {}
    for row in _rows(path):
        try:
            line = PredictionLine.model_validate(_renamed(row.data))
        except (ValidationError, json.JSONDecodeError) as fault:
            raise RunError(f"{row.where}: {_why(fault)}") from fault
        if line.id in seen:
            raise RunError(f"{row.where}: id {line.id!r} stands at {seen[line.id]} already")
        seen[line.id] = row.where
        yield line


def _why(fault: Exception) -> str:
    if not isinstance(fault, ValidationError):
        return f"a list is wanted ({fault})"
    first = fault.errors()[0]
    at = ".".join(map(str, first["loc"]))
    return (
        f"{at}: {first['msg'].removeprefix('Value error, ')}; a prediction is "
        '{"id": …, "answer": …, "passages": […]}'
    )


def _rows(path: Path) -> Iterator[Row]:
    official = _official(path)
    if official is None:
        yield from file_rows(path)
        return
    for identifier, answer in official.items():
        yield Row(f"{path}: {identifier}", {"id": identifier, "answer": answer})


def _official(path: Path) -> Mapping[str, Any] | None:
    """HotpotQA's and 2Wiki's layout: one object with ``answer`` by id."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    answers = told.get("answer") if isinstance(told, dict) else None
    return answers if isinstance(answers, dict) else None


def _renamed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Names that other files have for ``id`` and ``answer``."""
    row = dict(data)
    for ours, theirs in (("id", ("_id",)), ("answer", ("predicted_answer", "prediction", "pred"))):
        for other in theirs:
            if ours not in row and other in row:
                row[ours] = row[other]
    return row


def _places(
    lines: Iterable[PredictionLine], questions: Sequence[Question], benchmark: Benchmark
) -> tuple[dict[Named, str], tuple[str, ...]]:
    """(id or title, text) → id in the corpus, and what the corpus does not have. Where no corpus
    is known, ids are taken as they are."""
    named = {_key(p) for line in lines for p in (*(line.passages or ()), *(line.cited or ()))}
    gold = {p for q in questions for p in q.supporting if not p.startswith(MISSING)}
    wanted = Wanted()
    for title, _ in named:
        wanted.titled(title)
    given = Given(benchmark.corpus, wanted)
    found: dict[Named, str] = {}
    strangers = []
    known = len(benchmark.corpus) > 0
    for title, text in sorted(named):
        place = title if title in gold else MISSING
        if place == MISSING and text:
            place = given.paragraph(title, text)
        elif place == MISSING:
            place = given.titled(title)
        if place.startswith(MISSING):
            place = f"{UNKNOWN}{title}" if known else title
            strangers += [title] if known else []
        found[title, text] = place
    return found, tuple(strangers)


def _key(passage: str | TitledPassage) -> Named:
    if isinstance(passage, str):
        return passage, ""
    return (passage.id, "") if passage.id else (passage.title, passage.text)


def _row(
    identifier: str,
    line: PredictionLine | None,
    mark: str,
    places: Mapping[Named, str],
) -> PredictionRow:
    if line is None:
        return PredictionRow(
            id=identifier, fingerprint=mark, answer=None, stop_reason="error", error=LACKING
        )
    answer = " ".join((line.answer or "").split()) or None
    usage = {field: getattr(line, field) for field in USAGE if getattr(line, field) is not None}
    failed = line.error is not None
    return PredictionRow(
        id=identifier,
        fingerprint=mark,
        answer=None if failed else answer,
        stop_reason="error" if failed else "answered" if answer else "unanswerable",
        error=line.error,
        ranked=list(dict.fromkeys(places[_key(p)] for p in line.passages or ())),
        cited=list(dict.fromkeys(places[_key(p)] for p in line.cited or ())),
        usage={"all": Account(**usage).to_json()} if usage else {},
        seconds=line.seconds or 0.0,
    )


def write_scored(folder: Path, scored: Scored, questions: Sequence[Question]) -> SavedRun:
    """As a run folder. Raises ``RunError`` when the folder holds another run."""
    open_run(folder, scored.header, questions)
    write_text(folder / ROWS, "".join(row.model_dump_json() + "\n" for row in scored.rows))
    PassageFile(folder / PASSAGES).keep(scored.passages)
    return read_run(folder)
