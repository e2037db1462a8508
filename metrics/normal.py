"""Answer normalisation and scores as the data sets' official scripts have them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = set(string.punctuation)
YES_NO = ("yes", "no", "noanswer")


def normal_answer(text: str) -> str:
    """Lower case, punctuation dropped, articles dropped, white space joined (SQuAD's rule)."""
    lowered = "".join(c for c in text.lower() if c not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", lowered).split())


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """One prediction against one gold answer (or the best of several)."""

    em: float
    f1: float
    precision: float
    recall: float


ZERO = AnswerScore(0.0, 0.0, 0.0, 0.0)


def against(prediction: str, gold: str, rule: str) -> AnswerScore:
    """Score one prediction against one answer under ``rule`` (``squad`` or ``hotpotqa``).

    ``hotpotqa`` (HotpotQA, 2WikiMultiHopQA): F1, precision and recall are 0 when one side is yes,
    no or noanswer and the other side isn't the same. ``squad`` (MuSiQue): plain token F1; two
    empty answers agree.
    """
    said, true = normal_answer(prediction), normal_answer(gold)
    em = float(said == true)
    if rule == "hotpotqa" and said != true and (said in YES_NO or true in YES_NO):
        return AnswerScore(em, 0.0, 0.0, 0.0)
    left, right = said.split(), true.split()
    if rule == "squad" and (not left or not right):
        same = float(left == right)
        return AnswerScore(em, same, same, same)
    shared = sum((Counter(left) & Counter(right)).values())
    if shared == 0:
        return AnswerScore(em, 0.0, 0.0, 0.0)
    precision, recall = shared / len(left), shared / len(right)
    return AnswerScore(em, 2 * precision * recall / (precision + recall), precision, recall)


def best_against(prediction: str | None, answers: Sequence[str], rule: str) -> AnswerScore:
    """The best EM and the best F1 over aliases; no prediction scores 0."""
    if prediction is None or not answers:
        return ZERO
    scores = [against(prediction, gold, rule) for gold in answers]
    top = max(scores, key=lambda s: s.f1)
    return AnswerScore(max(s.em for s in scores), top.f1, top.precision, top.recall)
