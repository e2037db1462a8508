"""Metrics of what the answer rests on: passages and sentences that the program named."""

from __future__ import annotations

from metrics.metric import Metric
from metrics.record import Record


def _cited_gold(record: Record) -> float | None:
    gold, cited = frozenset(record.supporting), frozenset(record.cited)
    return len(gold & cited) / len(gold) if gold and cited else None


def _gold_cited(record: Record) -> float | None:
    gold, cited = frozenset(record.supporting), frozenset(record.cited)
    return len(gold & cited) / len(cited) if gold and cited else None


def gold_sentences(record: Record) -> frozenset[tuple[str, int]]:
    """(passage id, 0-based sentence) of every gold hop that names its sentences."""
    return frozenset(
        (hop.passage, n) for hop in record.gold if hop.passage is not None for n in hop.sentences
    )


def _sentence_f1(record: Record) -> float | None:
    gold = gold_sentences(record)
    if not gold or record.cited_sentences is None:
        return None
    named = frozenset(record.cited_sentences)
    return 2 * len(gold & named) / (len(gold) + len(named))


CITATION_SUPPORT = Metric(
    "citation_support",
    "share of the gold passages that the answer cites; where it cites any",
    _cited_gold,
)
CITATION_PRECISION = Metric(
    "citation_precision",
    "share of the cited passages that are gold; where it cites any",
    _gold_cited,
)
SENTENCE_F1 = Metric(
    "sentence_f1",
    "F1 of the sentences named against the gold ones (HotpotQA's supporting facts); needs both",
    _sentence_f1,
)

SUPPORT = (CITATION_SUPPORT, CITATION_PRECISION, SENTENCE_F1)
