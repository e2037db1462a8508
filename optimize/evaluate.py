"""Evaluate: one program over many questions, resumable, with the metrics of the result."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import dspy

from benchmarks.question import Question
from metrics import Summary, summarise
from metrics.record import Record
from optimize.answers import AnswerStore
from optimize.errors import TooManyFailures
from optimize.rows import PredictionRow, hop_rows, ledger_of, record
from programs import Account, Cancelled, MultiHopProgram, OutOfBudget, fingerprint
from programs.faults import StopRun
from retrieval import Passage

FAILURES_IN_A_ROW = 8
"""So many questions failing one after another with nothing between them stop the run."""


@dataclass(frozen=True)
class Evaluation:
    """Rows, records and metrics of one program on some questions."""

    fingerprint: str
    rows: tuple[PredictionRow, ...]
    records: tuple[Record, ...]
    metrics: Mapping[str, Summary]
    reused: int = 0
    """Rows that were known before."""
    asked: Account = field(default_factory=Account)
    """What the rows that were asked now cost."""

    @property
    def failed(self) -> int:
        return sum(row.stop_reason == "error" for row in self.rows)

    def scores(self, name: str) -> list[float | None]:
        """One metric by question."""
        from metrics import metric

        measure = metric(name)
        return [measure.score(r) for r in self.records]

    def values(self) -> dict[str, float | None]:
        """Metric values by name, None where no question has one."""
        return {name: summary.value for name, summary in self.metrics.items()}


Progress = Callable[[int, int, PredictionRow], None]
"""Told (done, total, row) after each question."""


Keep = Callable[[Sequence[Passage]], None]
"""Told the passages that a question's answer was made from."""

Asker = Callable[[Question, str], PredictionRow]
"""Asks a question elsewhere; told the fingerprint that the row is to have."""


def answer(
    program: MultiHopProgram, question: Question, mark: str, keep: Keep | None = None
) -> PredictionRow:
    """Ask a program one question; a program's failure becomes a row with ``error``.

    Raises only what stops a run: ``StopRun``, ``Cancelled``, and a limit that is reached.
    """
    started = time.perf_counter()
    try:
        prediction = program(question=question.question)
        row = row_of(question, prediction, mark, started)
    except OutOfBudget as limit:
        error = f"budget: {limit}"
    except Exception as fault:
        error = f"{type(fault).__name__}: {' '.join(str(fault).split())[:500]}"
    else:
        if keep is not None:
            keep(prediction.evidence.passages)
        return row
    seconds = round(time.perf_counter() - started, 4)
    return PredictionRow(
        id=question.id,
        fingerprint=mark,
        answer=None,
        stop_reason="error",
        seconds=seconds,
        error=error,
    )


def row_of(
    question: Question, prediction: dspy.Prediction, mark: str, started: float
) -> PredictionRow:
    """A prediction as its row; ``started`` is of ``time.perf_counter``."""
    evidence = prediction.evidence
    known = {"answer", "evidence", "stop_reason", "error", "usage", "cited"}
    return PredictionRow(
        id=question.id,
        fingerprint=mark,
        answer=prediction.answer,
        stop_reason=prediction.stop_reason,
        hops=hop_rows(evidence),
        ranked=[p.id for p in evidence.ranked()],
        usage=prediction.usage.to_json(),
        seconds=round(time.perf_counter() - started, 4),
        error=prediction.error,
        cited=list(prediction.get("cited") or []),
        extra={k: v for k, v in prediction.items() if k not in known},
    )


def evaluate(
    program: MultiHopProgram,
    questions: Sequence[Question],
    *,
    answer_rule: str = "squad",
    store: AnswerStore | None = None,
    workers: int = 4,
    progress: Progress | None = None,
    stop: Callable[[Sequence[Record]], bool] | None = None,
    metrics: Sequence[str] | None = None,
    keep: Keep | None = None,
    asker: Asker | None = None,
) -> Evaluation:
    """Ask every question, at most ``workers`` at once, and score what comes back.

    Rows already in ``store`` under this program's fingerprint are not asked again. ``stop`` is
    told the records so far, in the questions' order, after each one; when it says True no further
    question is asked. ``keep`` is told the passages behind each answer. ``asker`` asks instead of
    the program in this process. Raises ``StopRun``
    (configuration), ``TooManyFailures``; what was answered by then is in the store.
    """
    mark = fingerprint(program)
    store = store if store is not None else AnswerStore()
    rows: dict[int, PredictionRow] = {}
    spent = Account()
    reused = in_a_row = 0
    places = iter(range(len(questions)))
    pending: set[Future[tuple[int, PredictionRow, bool]]] = set()

    def ask(place: int) -> tuple[int, PredictionRow, bool]:
        question = questions[place]

        def asked() -> PredictionRow:
            if asker is not None:
                return asker(question, mark)
            return answer(program, question, mark, keep)

        with dspy.context(trace=None):
            row, known = store.answered(question.id, mark, asked)
        return place, row, known

    def take(future: Future[tuple[int, PredictionRow, bool]]) -> PredictionRow:
        nonlocal spent, reused, in_a_row
        place, row, known = future.result()
        rows[place] = row
        reused += known
        if not known:
            spent += ledger_of(row).total
        in_a_row = in_a_row + 1 if row.stop_reason == "error" and not known else 0
        return row

    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        try:
            while True:
                while len(pending) < max(1, workers) and (place := next(places, None)) is not None:
                    pending.add(pool.submit(contextvars.copy_context().run, ask, place))
                if not pending:
                    break
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                pending -= done
                for future in done:
                    row = take(future)
                    if in_a_row >= FAILURES_IN_A_ROW:
                        raise TooManyFailures(
                            f"{in_a_row} questions in a row failed, the last with: {row.error}. "
                            "What was answered is kept; mend the endpoint and run this again"
                        )
                    if progress is not None:
                        progress(len(rows), len(questions), row)
                if stop is not None and stop(_records(questions, rows, answer_rule)):
                    break
        finally:
            for future in pending:
                future.cancel()
    for future in pending:
        if not future.cancelled() and future.exception() is None:
            take(future)
    records = _records(questions, rows, answer_rule)
    return Evaluation(
        fingerprint=mark,
        rows=tuple(rows[i] for i in sorted(rows)),
        records=records,
        metrics=summarise(records, metrics) if metrics else summarise(records),
        reused=reused,
        asked=spent,
    )


def _records(
    questions: Sequence[Question], rows: Mapping[int, PredictionRow], answer_rule: str
) -> tuple[Record, ...]:
    return tuple(record(questions[i], rows[i], answer_rule) for i in sorted(rows))


__all__ = ["Cancelled", "Evaluation", "StopRun", "answer", "evaluate"]
