"""Metrics of what was retrieved. "Recall" means several things in the literature; each of them
has its own name here. Gold is the question's supporting passages; N/A where none are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from metrics.metric import Factory, Metric, Score
from metrics.record import Record

Order = Callable[[Record], "list[str]"]


def ranking(record: Record) -> list[str]:
    """The evidence's pooled ranking, best first, without duplicates."""
    return list(dict.fromkeys(record.ranked))


def reading(record: Record) -> list[str]:
    """Distinct passages in the order in which they were retrieved: step by step, best first. A
    record without steps (another system's predictions) has its ranking for it."""
    return list(dict.fromkeys([p for step in record.steps for p in step.passages])) or ranking(
        record
    )


def _over(order: Order, k: int | None, of: Callable[[list[str], frozenset[str]], float]) -> Score:
    def score(record: Record) -> float | None:
        gold = frozenset(record.supporting)
        return of(order(record)[:k], gold) if gold else None

    return score


def _recall(top: list[str], gold: frozenset[str]) -> float:
    return len(gold.intersection(top)) / len(gold)


def support_recall(k: int) -> Metric:
    """|top k ∩ gold| / |gold|."""
    return Metric(
        f"support_recall@{k}",
        f"share of gold passages among the first {k} of the pooled ranking",
        _over(ranking, k, _recall),
        parameters={"k": k},
    )


def all_support(k: int) -> Metric:
    """PAR²-RAG's All-Pass."""
    return Metric(
        f"all_support@{k}",
        f"1 when all gold passages are among the first {k} (PAR2-RAG's All-Pass)",
        _over(ranking, k, lambda top, gold: float(gold <= set(top))),
        parameters={"k": k},
    )


def any_support(k: int) -> Metric:
    """What PAR²-RAG's appendix calls Recall@k (equation 5)."""
    return Metric(
        f"any_support@{k}",
        f"1 when any gold passage is among the first {k} (PAR2-RAG, equation 5)",
        _over(ranking, k, lambda top, gold: float(not gold.isdisjoint(top))),
        parameters={"k": k},
    )


def ndcg(k: int) -> Metric:
    """DCG = Σ rel_i / log2(i + 1), rel binary, over the DCG of all gold passages first."""

    def of(top: list[str], gold: frozenset[str]) -> float:
        gain = math.fsum(1 / math.log2(i + 1) for i, p in enumerate(top, 1) if p in gold)
        ideal = math.fsum(1 / math.log2(i + 1) for i in range(1, min(k, len(gold)) + 1))
        return gain / ideal

    return Metric(
        f"ndcg@{k}",
        f"binary NDCG over the first {k} of the pooled ranking (PAR2-RAG, equations 3 and 4)",
        _over(ranking, k, of),
        parameters={"k": k},
    )


def support_recall_at_passages(n: int) -> Metric:
    """Recall after ``n`` passages were read: methods compared at equal reading, where
    ``support_recall@k`` lets one that read 50 passages choose its best ``k``."""
    return Metric(
        f"support_read@{n}",
        f"share of gold passages among the first {n} distinct passages in the order of reading",
        _over(reading, n, _recall),
        parameters={"n": n},
    )


def recall_at_equal_passages(runs: Sequence[Sequence[Record]]) -> list[list[float | None]]:
    """Support recall of several methods at equal reading: by question, each method's reading is
    cut at the fewest passages that any of them read for it.

    ``runs`` hold the same questions in the same order; the result has their shape, None where a
    question has no gold passages. Raises ``ValueError`` when the questions differ.
    """
    if len({tuple(record.id for record in run) for run in runs}) > 1:
        raise ValueError("runs at equal passages must have the same questions in the same order")
    fewest = [min(len(reading(r)) for r in records) for records in zip(*runs, strict=True)]
    return [
        [support_recall_at_passages(n).score(r) for n, r in zip(fewest, run, strict=True)]
        for run in runs
    ]


def _reciprocal(top: list[str], gold: frozenset[str]) -> float:
    return next((1 / i for i, p in enumerate(top, 1) if p in gold), 0.0)


MRR = Metric(
    "mrr",
    "1 / rank of the first gold passage in the pooled ranking, 0 without one",
    _over(ranking, None, _reciprocal),
)
SUPPORT_READ = Metric(
    "support_read",
    "share of gold passages anywhere in the pool, however large it is",
    _over(reading, None, _recall),
)
AT_K: dict[str, Factory] = {
    "support_recall": support_recall,
    "all_support": all_support,
    "any_support": any_support,
    "ndcg": ndcg,
    "support_read": support_recall_at_passages,
}
RETRIEVAL = (MRR, SUPPORT_READ)
