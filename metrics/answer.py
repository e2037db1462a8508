"""Metrics of the final answer. A failed question is wrong, whatever text it left behind."""

from __future__ import annotations

from metrics.metric import Metric, Score
from metrics.normal import ZERO, AnswerScore, best_against
from metrics.record import Record


def answer_score(record: Record) -> AnswerScore | None:
    """Under the data set's official rule, best over aliases; all 0 for a failed question or no
    answer; None for unanswerable questions."""
    if not record.answerable:
        return None
    if record.error is not None:
        return ZERO
    return best_against(record.answer, record.answers, record.answer_rule)


def _part(name: str) -> Score:
    def score(record: Record) -> float | None:
        whole = answer_score(record)
        return None if whole is None else float(getattr(whole, name))

    return score


def abstained(record: Record) -> bool:
    """No answer, and not for a failure."""
    return record.answer is None and record.error is None


def _rejected(record: Record) -> float | None:
    return float(abstained(record)) if record.answerable else None


def _accepted(record: Record) -> float | None:
    return None if record.answerable else float(record.answer is not None)


def _abstention_precision(record: Record) -> float | None:
    return float(not record.answerable) if abstained(record) else None


def _abstention_recall(record: Record) -> float | None:
    return None if record.answerable else float(abstained(record))


def _judged(record: Record) -> float | None:
    if not record.answerable or record.judged is None:
        return None
    return float(record.judged and record.error is None)


EM = Metric(
    "em",
    "1 when the normalised answer equals a gold answer or alias; answerable questions only",
    _part("em"),
)
F1 = Metric(
    "f1",
    "token F1 of the answer, best over aliases, by the data set's official rule; answerable "
    "questions only",
    _part("f1"),
)
ANSWER_PRECISION = Metric(
    "answer_precision",
    "share of the answer's tokens that the gold answer has (of the alias with the best F1)",
    _part("precision"),
)
ANSWER_RECALL = Metric(
    "answer_recall",
    "share of the gold answer's tokens that the answer has (of the alias with the best F1)",
    _part("recall"),
)
CORRECTNESS = Metric(
    "correctness",
    "share of answerable questions whose answer an LM judge called right (PAR2-RAG, equation 2); "
    "needs a judge",
    _judged,
)
FALSE_REJECTION = Metric(
    "false_rejection",
    "share of answerable questions that were declined (no answer, no failure)",
    _rejected,
    better="down",
)
FALSE_ACCEPTANCE = Metric(
    "false_acceptance",
    "share of unanswerable questions that got an answer",
    _accepted,
    better="down",
)
ABSTENTION_PRECISION = Metric(
    "abstention_precision",
    "share of declined questions (no answer, no failure) that were unanswerable",
    _abstention_precision,
)
ABSTENTION_RECALL = Metric(
    "abstention_recall",
    "share of unanswerable questions that were declined (no answer, no failure)",
    _abstention_recall,
)

ANSWER = (
    EM,
    F1,
    ANSWER_PRECISION,
    ANSWER_RECALL,
    CORRECTNESS,
    FALSE_REJECTION,
    FALSE_ACCEPTANCE,
    ABSTENTION_PRECISION,
    ABSTENTION_RECALL,
)
