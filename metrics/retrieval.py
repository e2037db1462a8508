"""Metrics of what was retrieved, over the evidence's pooled ranking. "Recall" means several things
in the literature; each of them has its own name here."""

from __future__ import annotations

import math
from collections.abc import Callable

from metrics.metric import Metric
from metrics.record import Record


def _gold(record: Record) -> frozenset[str] | None:
    return frozenset(record.supporting) or None


def _at(k: int, of: Callable[[list[str], frozenset[str]], float]) -> Callable[[Record], float | None]:
    def score(record: Record) -> float | None:
        gold = _gold(record)
        return None if gold is None else of(list(record.ranked[:k]), gold)

    return score


def support_recall(k: int) -> Metric:
    return Metric(
        f"support_recall@{k}",
        f"share of gold passages among the first {k} of the pooled ranking",
        _at(k, lambda top, gold: len(gold & set(top)) / len(gold)),
    )


def all_support(k: int) -> Metric:
    return Metric(
        f"all_support@{k}",
        f"1 when all gold passages are among the first {k} (PAR2-RAG's All-Pass)",
        _at(k, lambda top, gold: float(gold <= set(top))),
    )


def any_support(k: int) -> Metric:
    return Metric(
        f"any_support@{k}",
        f"1 when any gold passage is among the first {k} (PAR2-RAG, equation 5)",
        _at(k, lambda top, gold: float(bool(gold & set(top)))),
    )


def ndcg(k: int) -> Metric:
    def of(top: list[str], gold: frozenset[str]) -> float:
        gain = math.fsum(1 / math.log2(i + 2) for i, p in enumerate(top) if p in gold)
        ideal = math.fsum(1 / math.log2(i + 2) for i in range(min(k, len(gold))))
        return gain / ideal

    return Metric(
        f"ndcg@{k}",
        f"binary NDCG over the first {k} (PAR2-RAG, equations 3 and 4)",
        _at(k, of),
    )


def _mrr(record: Record) -> float | None:
    gold = _gold(record)
    if gold is None:
        return None
    return next((1 / i for i, p in enumerate(record.ranked, 1) if p in gold), 0.0)


def _all_read(record: Record) -> float | None:
    gold = _gold(record)
    return None if gold is None else len(gold & set(record.ranked)) / len(gold)


MRR = Metric("mrr", "1 / rank of the first gold passage in the pooled ranking", _mrr)
SUPPORT_READ = Metric(
    "support_read", "share of gold passages anywhere in the pool, however large it is", _all_read
)
AT_K = {
    "support_recall": support_recall,
    "all_support": all_support,
    "any_support": any_support,
    "ndcg": ndcg,
}
RETRIEVAL = (MRR, SUPPORT_READ)
