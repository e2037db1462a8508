"""Own questions: ``questions.jsonl``, validated line by line, and its inverse for exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks.errors import BenchmarkError
from benchmarks.question import GoldHop, Question
from benchmarks.rows import Row, file_rows
from retrieval import Passage

ANSWER_RULE = "squad"


class HopLine(BaseModel):
    """A gold hop of an own question."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    passage: str | None = None
    question: str | None = None
    answer: str | None = None
    sentences: tuple[int, ...] = ()


class QuestionLine(BaseModel):
    """A line of ``questions.jsonl``."""

    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    id: str | None = Field(default=None, min_length=1)
    question: str = Field(min_length=1)
    answer: str | None = None
    answers: list[str] = Field(default_factory=list)
    supporting: list[str] = Field(default_factory=list)
    hops: list[HopLine] = Field(default_factory=list)
    kind: str | None = None
    answerable: bool = True
    status: Literal["accepted", "rejected", "review"] | None = None
    meta: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _answered(self) -> QuestionLine:
        if not self.question.strip():
            raise ValueError("the question is empty")
        every = [a for a in (self.answer, *self.answers) if a is not None]
        if self.answerable and not any(a.strip() for a in every):
            raise ValueError('an answerable question needs an answer (or say "answerable": false)')
        for place, hop in enumerate(self.hops, 1):
            needs = GoldHop(None, hop.question).depends_on
            if any(not 1 <= n < place for n in needs):
                raise ValueError(f"hop {place} refers to an answer that no earlier hop gives")
        return self


def read_questions(path: Path, split: str = "dev") -> list[Question]:
    """Questions of a JSONL file; rejected ones are left out. Raises ``BenchmarkError``."""
    return list(questions_of(file_rows(path), path, split))


def questions_of(rows: Iterable[Row], path: Path, split: str) -> list[Question]:
    """Questions of rows, ids unique. Raises ``BenchmarkError``."""
    found: list[Question] = []
    seen: dict[str, str] = {}
    number = 0
    for number, row in enumerate(rows, 1):
        line = validated(row)
        if line.status == "rejected":
            continue
        question = question_of(line, f"{split}-{number}")
        if question.id in seen:
            raise BenchmarkError(
                f"{row.where}: id {question.id!r} stands at {seen[question.id]} already"
            )
        seen[question.id] = row.where
        found.append(question)
    if not found:
        why = "only rejected questions" if number else "no questions"
        raise BenchmarkError(f"{path} holds {why}")
    return found


def validated(row: Row) -> QuestionLine:
    """A checked line. Raises ``BenchmarkError`` with file and line."""
    try:
        return QuestionLine.model_validate(row.data)
    except ValidationError as fault:
        first = fault.errors()[0]
        at = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise BenchmarkError(f"{row.where}: {at + ': ' if at else ''}{reason}") from None


def question_of(row: QuestionLine, default_id: str) -> Question:
    """The record of a validated line."""
    answers = ([] if row.answer is None else [row.answer]) + row.answers
    hops = [GoldHop(h.passage, h.question, h.answer, h.sentences) for h in row.hops]
    supporting = row.supporting or [h.passage for h in hops if h.passage is not None]
    if not hops:
        hops = [GoldHop(passage) for passage in supporting]
    kind = "null" if not row.answerable else "bridge" if len(hops) > 1 else "single"
    return Question.of(
        id=row.id or default_id,
        question=row.question.strip(),
        answer=answers[0] if row.answerable else None,
        answers=answers if row.answerable else (),
        supporting=supporting,
        hops=hops,
        kind=row.kind or kind,
        answerable=row.answerable,
        meta=row.meta,
    )


def question_to_json(question: Question) -> dict[str, Any]:
    """A question as a line of ``questions.jsonl``: the inverse of ``question_from_json``."""
    line = {
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
    return line | ({"meta": dict(question.meta)} if question.meta else {})


def question_from_json(data: Mapping[str, Any], where: str = "question") -> Question:
    """Raises ``BenchmarkError``, naming ``where``."""
    line = validated(Row(where, data))
    return question_of(line, where)


def strangers(questions: Mapping[str, Sequence[Question]], corpus: Iterable[Passage]) -> list[str]:
    """Gold passages that the corpus lacks, each with its question: such can't be found."""
    wanted: dict[str, list[str]] = {}
    for split, asked in questions.items():
        for question in asked:
            for passage in question.supporting:
                wanted.setdefault(passage, []).append(f"{split} {question.id}")
    if wanted:
        for passage in corpus:
            wanted.pop(passage.id, None)
    return [
        f"{owner}: supporting passage {passage!r} is not in the corpus: it counts as not found"
        for passage, owners in wanted.items()
        for owner in owners
    ]
