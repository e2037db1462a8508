"""Questions with the titles of their gold passages over a corpus of their own: the layout of the
corpora that retrieval papers share (``passages.jsonl`` and ``questions.jsonl``)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.corpus import open_corpus
from benchmarks.errors import BenchmarkError
from benchmarks.gather import gather
from benchmarks.places import Places
from benchmarks.question import Benchmark, GoldHop, Question
from benchmarks.rows import Row, file_rows
from benchmarks.wiki_rows import parsed

PASSAGES, QUESTIONS = "passages.jsonl", "questions.jsonl"


class TitledRow(BaseModel):
    """A row that names its gold passages by title."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    answer_aliases: list[str] = []
    supporting_titles: list[str] = Field(min_length=1)


def is_titled(row: Row) -> bool:
    return "supporting_titles" in row.data


def question(row: Row, places: Places, notes: list[str]) -> Question:
    """Raises ``BadRow``."""
    found: TitledRow = parsed(TitledRow, row.data)
    ids = [places.titled(title) for title in found.supporting_titles]
    return Question.of(
        id=found.id,
        question=found.question.strip(),
        answer=found.answer,
        answers=found.answer_aliases,
        supporting=ids,
        hops=[GoldHop(i) for i in dict.fromkeys(ids)],
        kind="bridge" if len(ids) > 1 else "single",
        meta={"supporting_titles": found.supporting_titles},
    )


def is_retrieval_set(folder: Path) -> bool:
    return (folder / PASSAGES).is_file() and (folder / QUESTIONS).is_file()


def load_retrieval_set(folder: Path, split: str = "dev") -> Benchmark:
    """A folder's questions over its corpus, memory-mapped. Raises ``BenchmarkError``."""
    if not is_retrieval_set(folder):
        raise BenchmarkError(f"{folder} lacks {PASSAGES} or {QUESTIONS}")
    path = folder / QUESTIONS
    rows = {split: partial(file_rows, path)}
    found = gather(rows, question, open_corpus(folder / PASSAGES))
    return Benchmark(folder.name, found.questions, found.corpus, "hotpotqa", found.faults)
