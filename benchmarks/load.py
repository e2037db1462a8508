"""Benchmarks by name: ``synthetic[:questions[,passages]]``, or own files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks.question import SPLITS, Benchmark, GoldHop, Question
from benchmarks.synthetic import PASSAGES, QUESTIONS, SyntheticError, synthetic
from retrieval import Passage, read_corpus

NAMES = ("synthetic", "own")


class BenchmarkError(ValueError):
    """A benchmark that can't be loaded; the message names file, line and mend."""


class HopLine(BaseModel):
    """A gold hop of an own question."""

    model_config = ConfigDict(extra="forbid")

    passage: str | None = None
    question: str | None = None
    answer: str | None = None
    sentences: tuple[int, ...] = ()


class QuestionLine(BaseModel):
    """A line of ``questions.jsonl``."""

    model_config = ConfigDict(extra="allow")

    id: str | None = None
    question: str = Field(min_length=1)
    answer: str | None = None
    answers: list[str] = Field(default_factory=list)
    supporting: list[str] = Field(default_factory=list)
    hops: list[HopLine] = Field(default_factory=list)
    kind: str | None = None
    answerable: bool = True
    status: Literal["accepted", "rejected", "review"] | None = None

    @model_validator(mode="after")
    def _answered(self) -> QuestionLine:
        if self.answerable and self.answer is None and not self.answers:
            raise ValueError("an answerable question needs an answer")
        if not self.question.strip():
            raise ValueError("the question is empty")
        return self


def load(
    name: str = "own",
    *,
    data: Path | None = None,
    train: Path | None = None,
    dev: Path | None = None,
    test: Path | None = None,
    corpus: Path | None = None,
    seed: int = 0,
) -> Benchmark:
    """A benchmark by name. ``data`` is a file of one split (``dev``); ``train``, ``dev`` and
    ``test`` name a file each. Raises ``BenchmarkError``."""
    base, _, numbers = name.partition(":")
    files = {"train": train, "dev": dev or data, "test": test}
    given = {split: path for split, path in files.items() if path is not None}
    if base == "synthetic":
        if given:
            raise BenchmarkError("synthetic makes its own questions: leave the files out")
        return _synthetic(numbers, seed)
    if base == "own":
        return own(given, corpus)
    raise BenchmarkError(f"no benchmark {name!r}; there are {', '.join(NAMES)}")


def _synthetic(numbers: str, seed: int) -> Benchmark:
    try:
        sizes = [int(part) for part in numbers.split(",")] if numbers else []
        if len(sizes) > 2:
            raise ValueError
    except ValueError:
        raise BenchmarkError(
            f"synthetic:{numbers} is not synthetic[:questions[,passages]]"
        ) from None
    questions = sizes[0] if sizes else QUESTIONS
    passages = sizes[1] if len(sizes) > 1 else max(100, questions // 2) if sizes else PASSAGES
    try:
        return synthetic(questions, passages, seed)
    except SyntheticError as fault:
        raise BenchmarkError(str(fault)) from fault


def own(files: Mapping[str, Path], corpus: Path | None = None) -> Benchmark:
    """Own questions by split, asked of an own corpus (or of an index that is given elsewhere)."""
    if not files:
        raise BenchmarkError("own questions need a file: --data, or --train and --dev")
    passages: Sequence[Passage] = list(read_corpus(corpus)) if corpus is not None else []
    questions = {split: read_questions(path, split) for split, path in files.items()}
    return Benchmark("own", questions, passages)


def read_questions(path: Path, split: str = "dev") -> list[Question]:
    """Questions of a JSONL file; rejected ones are left out. Raises ``BenchmarkError``."""
    if not path.is_file():
        raise BenchmarkError(f"no file of questions at {path}")
    found: list[Question] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        row = _line(line, f"{path}:{number}")
        if row.status == "rejected":
            continue
        question = question_of(row, f"{split}-{number}")
        if question.id in seen:
            raise BenchmarkError(
                f"{path}:{number}: id {question.id!r} stands in line {seen[question.id]} already"
            )
        seen[question.id] = number
        found.append(question)
    if not found:
        raise BenchmarkError(f"{path} holds no questions")
    return found


def _line(line: bytes, where: str) -> QuestionLine:
    try:
        return QuestionLine.model_validate(json.loads(line.decode("utf-8")))
    except UnicodeDecodeError:
        raise BenchmarkError(f"{where} is no UTF-8: save the file as UTF-8") from None
    except json.JSONDecodeError as fault:
        raise BenchmarkError(f"{where} is no JSON: {fault.msg} at column {fault.colno}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise BenchmarkError(f"{where}: {at + ': ' if at else ''}{first['msg']}") from None


def question_of(row: QuestionLine, default_id: str) -> Question:
    """The record of a validated line."""
    answers = ([] if row.answer is None else [row.answer]) + row.answers
    hops = [GoldHop(h.passage, h.question, h.answer, h.sentences) for h in row.hops]
    supporting = row.supporting or [h.passage for h in hops if h.passage is not None]
    if not hops:
        hops = [GoldHop(passage) for passage in supporting]
    return Question.of(
        id=row.id or default_id,
        question=row.question,
        answer=answers[0] if row.answerable else None,
        answers=answers if row.answerable else (),
        supporting=supporting,
        hops=hops,
        kind=row.kind or ("bridge" if len(hops) > 1 else "single"),
        answerable=row.answerable,
    )


def question_line(question: Question) -> dict[str, Any]:
    """A question as a line of ``questions.jsonl``: the inverse of ``question_of``."""
    return {
        "id": question.id,
        "question": question.question,
        "answer": question.answer,
        "answers": list(question.answers),
        "supporting": list(question.supporting),
        "hops": [
            {"passage": h.passage, "question": h.question, "answer": h.answer}
            | ({"sentences": list(h.sentences)} if h.sentences else {})
            for h in question.hops
        ],
        "kind": question.kind,
        "answerable": question.answerable,
    }


__all__ = ["NAMES", "SPLITS", "BenchmarkError", "load", "own", "question_line", "read_questions"]
