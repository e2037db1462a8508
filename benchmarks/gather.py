"""From rows to questions and their corpus: pooled from the rows, or one that is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.errors import BadRow, BenchmarkError
from benchmarks.places import MISSING, Given, Places, Pooled, Wanted
from benchmarks.question import Question
from benchmarks.rows import Row, Rows
from retrieval import Passage

Reader = Callable[[Row, Places, list[str]], Question]
"""A data set's reading of one row: raises ``BadRow``; appends what is odd about a usable row."""


@dataclass(frozen=True)
class Gathered:
    """Questions by split, their corpus, and what is wrong with the rows."""

    questions: dict[str, list[Question]]
    corpus: Sequence[Passage]
    faults: tuple[str, ...]


def gather(
    rows: Mapping[str, Rows], read: Reader, corpus: Sequence[Passage] | None = None
) -> Gathered:
    """Reads all rows. Without ``corpus`` the union of their paragraphs becomes it.

    Rows that can't be used are left out and named in the faults. Raises ``BenchmarkError`` when a
    split has none that can.
    """
    if corpus is not None:
        wanted = Wanted()
        _read(rows, read, wanted)
        questions, faults = _read(rows, read, Given(corpus, wanted))
        return Gathered(questions, corpus, (*faults, *_missing(questions)))
    pooled = Pooled()
    questions, faults = _read(rows, read, pooled)
    if _missing(questions):
        questions, faults = _read(rows, read, pooled)
    passages = list(pooled.passages.values())
    return Gathered(questions, passages, (*faults, *_missing(questions)))


def _read(
    rows: Mapping[str, Rows], read: Reader, places: Places
) -> tuple[dict[str, list[Question]], list[str]]:
    questions: dict[str, list[Question]] = {}
    faults: list[str] = []
    seen: dict[str, str] = {}
    for split, source in rows.items():
        questions[split] = []
        first = f"the {split} split has no records"
        for row in source():
            notes: list[str] = []
            try:
                question = read(row, places, notes)
                if not question.question.strip():
                    raise BadRow("the question is empty")
                if question.answerable and not any(a.strip() for a in question.answers):
                    raise BadRow("the answer is empty")
                if question.id in seen:
                    raise BadRow(f"id {question.id!r} stands at {seen[question.id]} already")
            except BadRow as fault:
                faults.append(f"{row.where}: left out: {fault}")
                first = faults[0]
                continue
            seen[question.id] = row.where
            faults += [f"{row.where}: {note}" for note in notes]
            questions[split].append(question)
        if not questions[split]:
            raise BenchmarkError(f"no record of the {split} split can be used ({first})")
    return questions, faults


def _missing(questions: Mapping[str, Sequence[Question]]) -> list[str]:
    return [
        f"{split} {question.id}: supporting passage {passage.removeprefix(MISSING)!r} is not in "
        "the corpus: it counts as not found"
        for split, asked in questions.items()
        for question in asked
        for passage in question.supporting
        if passage.startswith(MISSING)
    ]
