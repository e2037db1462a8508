"""The Retriever contract as checks that any retriever can be held to: ``tests/contracts`` does so
with every engine here, ``hopsmith doctor --retriever`` with anyone's own.

A check raises ``ContractFault`` saying what is wrong; it needs no knowledge of the corpus.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from retrieval.contract import MAX_K, Retriever, identity_of, size_of
from retrieval.errors import QueryError, RetrievalError
from retrieval.passage import Passage

QUERIES = (
    "Who founded the company?",
    "a museum in a city",
    "In which year was the prize first awarded?",
    "river",
    "The Last",
    "zzz qqq",
)
TOLERANCE = 1e-4
"""Between scores of one query asked alone and in a batch."""
PICKLE_BYTES = 2000
"""A pickle holds how to reopen a retriever; anything larger holds the index."""
PLACE = re.compile(r"^([/~\\]|[A-Za-z]:[/\\])|://")
"""What a path or an address looks like."""


class ContractFault(RetrievalError):
    """A retriever that does not keep the contract; the message says where."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A retriever and what it is asked."""

    retriever: Retriever
    queries: Sequence[str] = QUERIES
    size: int | None = None
    """Passages in its corpus, where that is known: then no list may be shorter than it must."""

    def search(self, queries: Sequence[str], k: int, pool: int | None = None) -> Any:
        return self.retriever.search(queries, k, pool=pool)

    def ids(self, queries: Sequence[str], k: int, pool: int | None = None) -> list[list[str]]:
        return [[p.id for p in found] for found in self.search(queries, k, pool)]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    state: Literal["ok", "note", "wrong"]
    """``note``: allowed, with a drawback that ``says`` names."""
    says: str = ""


def records(subject: Subject) -> str:
    """One list of passages a query, each with text and a finite score."""
    results = subject.search(subject.queries, 5)
    _holds(
        isinstance(results, list) and len(results) == len(subject.queries),
        f"{len(subject.queries)} queries must give a list of as many lists",
    )
    for passage in (p for found in results for p in found):
        _holds(
            isinstance(passage, Passage),
            f"results must be retrieval.Passage, not {type(passage).__name__}",
        )
        for name in ("id", "title", "text"):
            _holds(
                isinstance(getattr(passage, name), str),
                f"{name} of passage {passage.id!r} must be a string",
            )
        _holds(
            isinstance(passage.score, float) and math.isfinite(passage.score),
            f"the score of passage {passage.id!r} must be a finite float, not {passage.score!r}",
        )
    return "" if any(results) else "none of the queries found a passage: try it with its own words"


def identity(subject: Subject) -> str:
    """JSON values that stay the same and name no path, host or secret."""
    said = getattr(subject.retriever, "identity", None)
    if not isinstance(said, Mapping):
        return (
            "it declares no identity: exports know it by its class alone, and can't tell when its "
            "settings change"
        )
    try:
        text = json.dumps(identity_of(subject.retriever), sort_keys=True)
    except (TypeError, ValueError) as fault:
        raise ContractFault(f"identity must hold JSON values only: {fault}") from fault
    again = json.dumps(identity_of(subject.retriever), sort_keys=True)
    _holds(text == again, "identity must stay the same from call to call")
    for value in _strings(json.loads(text)):
        _holds(not PLACE.search(value), f"identity must name no path or address: {value!r}")
    return ""


def corpus_hash(subject: Subject) -> str:
    """64 hex digits that change with the corpus."""
    said = getattr(subject.retriever, "corpus_hash", None)
    if not said:
        return "it declares no corpus_hash: exports can't warn when the corpus has changed"
    _holds(
        isinstance(said, str) and re.fullmatch("[0-9a-f]{64}", said) is not None,
        f"corpus_hash must be 64 hex digits, not {said!r}",
    )
    return ""


def batch_equals_single(subject: Subject) -> None:
    """A query's result does not depend on its neighbours in the batch."""
    together = subject.search(subject.queries, 7)
    for query, batched in zip(subject.queries, together, strict=True):
        alone = subject.search([query], 7)[0]
        _holds(
            [p.id for p in batched] == [p.id for p in alone],
            f"{query!r} finds other passages alone than in a batch",
        )
        for a, b in zip(batched, alone, strict=True):
            _holds(
                abs(a.score - b.score) <= TOLERANCE,
                f"{query!r}: passage {a.id!r} scores {a.score} in a batch, {b.score} alone",
            )


def call_order(subject: Subject) -> None:
    """A query's result does not depend on earlier calls."""
    forwards = [subject.ids([q], 5) for q in subject.queries]
    backwards = [subject.ids([q], 5) for q in reversed(subject.queries)]
    _holds(forwards == backwards[::-1], "results change with the order of the calls")


def ranks(subject: Subject) -> None:
    """Ranks count from 1, no passage twice, no list longer than k or shorter than it must be."""
    for query, found in zip(subject.queries, subject.search(subject.queries, 12), strict=True):
        _holds(len(found) <= 12, f"{query!r}: {len(found)} passages for k=12")
        _full(subject, query, found, 12)
        _holds(
            [p.rank for p in found] == list(range(1, len(found) + 1)),
            f"{query!r}: ranks must count from 1, got {[p.rank for p in found]}",
        )
        _holds(
            len({p.id for p in found}) == len(found), f"{query!r}: a passage comes twice in a list"
        )


def smaller_k(subject: Subject) -> None:
    """With one pool, a smaller k is the head of a larger."""
    small, large = subject.ids(subject.queries, 3, 40), subject.ids(subject.queries, 10, 40)
    for query, few, many in zip(subject.queries, small, large, strict=True):
        _holds(few == many[:3], f"{query!r}: k=3 is not the head of k=10 with the same pool")


def large_k(subject: Subject) -> None:
    """A k beyond the corpus gives the corpus, and each passage once."""
    for query, found in zip(
        subject.queries[:2], subject.ids(subject.queries[:2], 900), strict=True
    ):
        _holds(
            len(found) == len(set(found)), f"{query!r}: a passage comes twice in a list of k=900"
        )
        _full(subject, query, found, 900)


def pool_below_k(subject: Subject) -> None:
    """A pool below k counts as k."""
    narrow = subject.ids(subject.queries, 9, 1)
    wide = subject.ids(subject.queries, 9, 9)
    for query, a, b in zip(subject.queries, narrow, wide, strict=True):
        _holds(len(a) == len(b), f"{query!r}: pool=1 gives {len(a)} of k=9 passages, not {len(b)}")


def bad_arguments(subject: Subject) -> None:
    """An empty query, k or pool out of range, a bare string: ``QueryError``."""
    cases: list[tuple[Any, Any, Any]] = [
        ([""], 5, None),
        (["  "], 5, None),
        (["?!"], 5, None),
        (["a"], 0, None),
        (["a"], MAX_K + 1, None),
        (["a"], 5, 0),
        ("one query", 5, None),
    ]
    for queries, k, pool in cases:
        try:
            subject.search(queries, k, pool)
        except QueryError:
            continue
        raise ContractFault(f"search({queries!r}, {k}, pool={pool}) must raise QueryError")


def no_queries(subject: Subject) -> None:
    """No queries give no results."""
    _holds(subject.search([], 5) == [], "search([], 5) must give []")


def threads(subject: Subject) -> None:
    """Calls from several threads agree with calls one after another."""
    expected = subject.ids(subject.queries, 5)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda q: subject.ids([q], 5)[0], list(subject.queries) * 5))
    _holds(found == expected * 5, "calls from several threads find other passages")


def copies(subject: Subject) -> None:
    """Copying a retriever gives the same one."""
    _holds(copy.copy(subject.retriever) is subject.retriever, "copy() must return the same object")
    _holds(
        copy.deepcopy({"r": [subject.retriever]})["r"][0] is subject.retriever,
        "deepcopy() must return the same object: optimizers copy programs by the hundred",
    )


def pickles(subject: Subject) -> None:
    """A pickle reopens and holds no vectors."""
    try:
        data = pickle.dumps(subject.retriever)
    except Exception as fault:
        raise ContractFault(f"it can't be pickled ({fault}): define __reduce__") from fault
    _holds(
        len(data) < PICKLE_BYTES, f"its pickle has {len(data):,} bytes: keep only how to reopen it"
    )
    again: Any = pickle.loads(data)
    other = Subject(again, subject.queries, subject.size)
    _holds(
        other.ids(subject.queries, 5) == subject.ids(subject.queries, 5),
        "reopened from a pickle it finds other passages",
    )
    _holds(
        identity_of(again) == identity_of(subject.retriever),
        "reopened from a pickle it has another identity",
    )


def long_query(subject: Subject) -> None:
    """A query of 2,000 words is searched for."""
    query = "river museum " * 1000
    _full(subject, "a query of 2,000 words", subject.search([query], 5)[0], 5)


CHECKS: Mapping[str, Callable[[Subject], str | None]] = {
    check.__name__: check
    for check in (
        records,
        identity,
        corpus_hash,
        batch_equals_single,
        call_order,
        ranks,
        smaller_k,
        large_k,
        pool_below_k,
        bad_arguments,
        no_queries,
        threads,
        copies,
        pickles,
        long_query,
    )
}
"""Every check by name; its docstring says what it asks for. One that returns words notes them."""


def conform(retriever: Retriever, queries: Sequence[str] = QUERIES) -> list[Finding]:
    """Hold a retriever to every check. What it raises is a finding too."""
    subject = Subject(retriever, queries, size_of(retriever))
    return [_finding(name, check, subject) for name, check in CHECKS.items()]


def _finding(name: str, check: Callable[[Subject], str | None], subject: Subject) -> Finding:
    try:
        note = check(subject)
    except ContractFault as fault:
        return Finding(name, "wrong", str(fault))
    except Exception as fault:
        said = " ".join(str(fault).split())[:300]
        return Finding(name, "wrong", f"it raised {type(fault).__name__}: {said}")
    return Finding(name, "note" if note else "ok", note or "")


def _holds(true: bool, otherwise: str) -> None:
    if not true:
        raise ContractFault(otherwise)


def _full(subject: Subject, query: str, found: Sequence[Any], k: int) -> None:
    if subject.size is not None:
        wanted = min(k, subject.size)
        _holds(
            len(found) == wanted,
            f"{query}: {len(found)} passages for k={k}, {wanted} are wanted of a corpus of "
            f"{subject.size}",
        )


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for v in value.values() for s in _strings(v)]
    if isinstance(value, list):
        return [s for v in value for s in _strings(v)]
    return []
