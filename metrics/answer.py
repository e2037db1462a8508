"""Metrics of the final answer."""

from __future__ import annotations

from metrics.metric import Metric
from metrics.normal import AnswerScore, best_against
from metrics.record import Record


def answer_score(record: Record) -> AnswerScore | None:
    """Under the data set's official rule; None for unanswerable questions."""
    if not record.answerable:
        return None
    return best_against(record.answer, record.answers, record.answer_rule)


def _em(record: Record) -> float | None:
    score = answer_score(record)
    return None if score is None else score.em


def _f1(record: Record) -> float | None:
    score = answer_score(record)
    return None if score is None else score.f1


def _rejected(record: Record) -> float | None:
    return float(record.answer is None) if record.answerable else None


def _accepted(record: Record) -> float | None:
    return None if record.answerable else float(record.answer is not None)


def _abstained(record: Record) -> float | None:
    return float(not record.answerable) if record.answer is None and not record.error else None


EM = Metric(
    "em",
    "1 when the normalised answer equals a gold answer or alias; answerable questions only",
    _em,
)
F1 = Metric(
    "f1",
    "token F1 of the answer, best over aliases, by the data set's official rule; answerable "
    "questions only",
    _f1,
)
FALSE_REJECTION = Metric(
    "false_rejection",
    "share of answerable questions that got no answer",
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
    "share of abstentions (no answer, no failure) that were unanswerable questions",
    _abstained,
)
ABSTENTION_RECALL = Metric(
    "abstention_recall",
    "share of unanswerable questions that got no answer",
    lambda r: None if r.answerable else float(r.answer is None and not r.error),
)

ANSWER = (EM, F1, FALSE_REJECTION, FALSE_ACCEPTANCE, ABSTENTION_PRECISION, ABSTENTION_RECALL)
