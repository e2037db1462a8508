"""SavedRun: a run folder read back, with all that metrics, comparisons and reports need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks import Question, questions_hash
from benchmarks.question import GoldHop
from metrics import Metric, Summary, metric, metric_names, summarise
from metrics.record import GoldStep, Record
from optimize.answers import AnswerStore
from optimize.errors import RunError
from optimize.judge import read_judged
from optimize.passages import read_passages
from optimize.rows import PredictionRow, RunHeader, ledger_of, record
from optimize.run import PASSAGES, QUESTIONS, ROWS, read_header
from programs import Ledger
from retrieval import Passage

NEEDS: Mapping[str, str] = {
    "lm_calls": "lm_calls",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "cost": "cost",
    "seconds": "seconds",
    "latency_p50": "seconds",
    "latency_p95": "seconds",
    "passages_read": "passages",
    "retrievals": "retrievals",
    "cached_prompt_tokens": "cached_prompt_tokens",
    "parse_failures": "parse_failures",
    "hop_recall_in_order": "hops",
    "at_cap": "hops",
    "fallbacks": "hops",
    "first_hop": "hops",
    "decomposition_accuracy": "hops",
}
"""What another system's predictions must say for a metric to be known of them."""


@dataclass(frozen=True)
class SavedRun:
    """One run: header, questions with their gold, and the rows that there are."""

    folder: Path
    header: RunHeader
    questions: tuple[Question, ...]
    rows: Mapping[str, PredictionRow]
    """By question id; questions that were not asked yet are missing."""

    @property
    def left(self) -> int:
        """Questions that were not asked yet."""
        return len(self.questions) - len(self.rows)

    @property
    def lm(self) -> str:
        """The default LM's name; empty for another system's predictions."""
        return str(((self.header.identity.get("lms") or {}).get("default") or {}).get("name", ""))

    @property
    def engine(self) -> str:
        """What was searched with; empty where that isn't known."""
        return str((self.header.identity.get("retriever") or {}).get("engine", ""))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """What metrics look at, in the questions' order; questions not asked yet left out."""
        told, judged = self.header.told, read_judged(self.folder)
        return tuple(
            replace(
                known_of(record(question, row, self.header.answer_rule), told),
                judged=judged.get(question.id),
            )
            for question in self.questions
            if (row := self.rows.get(question.id)) is not None
        )

    def applies(self, measure: Metric) -> bool:
        """Whether the run says what a metric needs."""
        told, need = self.header.told, NEEDS.get(measure.name)
        return told is None or need is None or need in told

    def metrics(self, names: Sequence[str], intervals: Sequence[str] = ()) -> dict[str, Summary]:
        """Metrics over the records; ``intervals`` names those that get theirs."""
        wanted = [n for n in metric_names(names) if self.applies(metric(n))]
        sure = [n for n in wanted if n in intervals]
        found = {
            **summarise(self.records, [n for n in wanted if n not in sure]),
            **summarise(self.records, sure, intervals=True),
        }
        empty = Summary(None, 0, len(self.records))
        return {n: found.get(n, empty) for n in metric_names(names)}

    @property
    def ledger(self) -> Ledger:
        """What all rows cost, by role."""
        total = Ledger()
        for row in self.rows.values():
            total.merge(ledger_of(row))
        return total

    @cached_property
    def passages(self) -> dict[str, Passage]:
        """Texts of the passages that were read, by id; those that were not kept are missing."""
        return {p.id: p for p in read_passages(self.folder / PASSAGES)}


def known_of(record: Record, told: Sequence[str] | None) -> Record:
    """The record without gold passages where a system doesn't say what it retrieved: metrics of
    retrieval are then N/A, not 0."""
    if told is None or "passages" in told:
        return record
    gold = tuple(GoldStep(None, hop.question, hop.answer) for hop in record.gold)
    return replace(record, supporting=(), gold=gold)


def read_run(folder: Path) -> SavedRun:
    """Raises ``RunError``: no run there, or one whose questions were not kept or were changed."""
    about = read_header(folder)
    questions = tuple(_questions(folder))
    if questions_hash(questions) != about.questions_hash:
        raise RunError(
            f"{folder / QUESTIONS} is not what {folder} was asked (hash "
            f"{questions_hash(questions)}, run {about.questions_hash}): give the run another --out"
        )
    asked = {q.id for q in questions}
    rows = {
        row.id: row for row in AnswerStore(folder / ROWS).rows(about.fingerprint) if row.id in asked
    }
    return SavedRun(folder, about, questions, rows)


def _questions(folder: Path) -> list[Question]:
    path = folder / QUESTIONS
    if not path.is_file():
        raise RunError(
            f"{folder} does not hold its questions (an older version made it): start the same "
            "hopsmith eval again, nothing is asked twice"
        )
    try:
        with path.open("rb") as file:
            lines = [line.decode("utf-8", "surrogatepass") for line in file]
        return [question_as_kept(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError) as fault:
        raise RunError(f"{path} can't be read: {fault}") from fault


def question_as_kept(line: Mapping[str, Any]) -> Question:
    """The inverse of ``question_to_json``, to the last space."""
    return Question.of(
        **{k: line[k] for k in ("id", "question", "answer", "answers", "supporting", "kind")},
        hops=[
            GoldHop(h["passage"], h["question"], h["answer"], tuple(h.get("sentences", ())))
            for h in line["hops"]
        ],
        answerable=line["answerable"],
        meta=line.get("meta"),
    )
