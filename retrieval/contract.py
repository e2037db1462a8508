"""The Retriever contract. This docstring is its source of truth; ``tests/contracts`` holds every
engine to it.

``search(queries, k, pool)`` returns one list a query, in the order of the queries:

- best first; ``rank`` counts from 1; equal scores are ordered by id; no passage twice in a list;
- at most ``k`` passages, fewer only when the corpus (or the filter) has fewer;
- ``pool`` is how many candidates are scored before the cut to ``k`` (None: the engine's default);
  engines that score everything ignore it; a pool below ``k`` counts as ``k``;
- the result of a query depends neither on its neighbours in the batch nor on earlier calls;
- ``k < 1``, an empty batch entry or a query without a word raise ``QueryError``;
- calls from several threads at once agree with calls one after another.

``where(condition, …)`` is the same retriever over the passages alone whose metadata meet all
conditions (``retrieval.where``): they are left out before anything is scored, so that ``k`` come
back where as many match, and scores are those of the whole corpus. To a run it is another corpus:
``identity`` stays, ``corpus_hash`` is of what is left. One that can't filter raises ``QueryError``.

A retriever is shared, never copied: ``copy`` and ``deepcopy`` return the same object (DSPy's
optimizers copy programs by the hundred), and a pickle holds only how to reopen it.

``identity`` names what the ranking depends on (engine, encoder hash, settings), without paths,
hosts or secrets; ``corpus_hash`` names the passages. Both enter records of runs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from retrieval.corpus import is_text
from retrieval.errors import QueryError
from retrieval.passage import Passage
from retrieval.where import Condition

MAX_K = 1000
"""The most passages one query may ask for."""


@runtime_checkable
class Retriever(Protocol):
    """What programs need of a retriever: see the module docstring for the contract."""

    def search(
        self, queries: Sequence[str], k: int, pool: int | None = None
    ) -> list[list[Passage]]: ...


@runtime_checkable
class ReadsCorpus(Protocol):
    """A retriever that can also list its passages."""

    def corpus(self) -> Iterator[Passage]:
        """Every passage, in a fixed order."""
        ...


SelfT = TypeVar("SelfT", bound="BaseRetriever")


class BaseRetriever(ABC):
    """The part of the contract that every engine here shares: argument checks and copying.

    A subclass implements ``_search`` (arguments are checked by then), ``identity``,
    ``corpus_hash`` and, when it can be reopened in another process, ``__reduce__``.
    """

    def search(
        self, queries: Sequence[str], k: int, pool: int | None = None
    ) -> list[list[Passage]]:
        """The ``k`` best passages for each query. Raises ``QueryError`` on bad arguments."""
        queries = check_queries(queries, k, pool)
        if not queries:
            return []
        return self._search(queries, k, pool)

    @abstractmethod
    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]: ...

    def where(self, *conditions: str | Condition) -> BaseRetriever:
        """The passages alone that meet all ``conditions``, such as ``"year>=2020"``. Raises
        ``QueryError`` for a condition that can't be read or a column that no passage has."""
        raise QueryError(f"{type(self).__name__} can't filter by metadata: leave the filter out")

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Engine, encoder hash and settings as JSON values; no path, host or secret."""

    @property
    @abstractmethod
    def corpus_hash(self) -> str:
        """SHA-256 over the passages, in an order that doesn't matter."""

    def __copy__(self: SelfT) -> SelfT:
        return self

    def __deepcopy__(self: SelfT, memo: dict[int, Any]) -> SelfT:
        return self


def check_queries(queries: Sequence[str], k: int, pool: int | None) -> list[str]:
    """The queries as a list, or ``QueryError`` naming the mend."""
    if isinstance(queries, str):
        raise QueryError("search takes a list of queries; wrap the single one: [query]")
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_K:
        raise QueryError(f"k must be a whole number from 1 to {MAX_K}, got {k!r}")
    if pool is not None and pool < 1:
        raise QueryError(f"pool must be at least 1 or None, got {pool!r}")
    for i, query in enumerate(queries):
        if not isinstance(query, str) or not re.search(r"\w", query):
            raise QueryError(f"query {i} is empty: give it at least one word")
        if not is_text(query):
            raise QueryError(f"query {i} holds half a surrogate pair: write it whole")
    return list(queries)


def size_of(retriever: object) -> int | None:
    """How many passages a retriever searches; None when it doesn't say."""
    try:
        return len(retriever)  # type: ignore[arg-type]
    except TypeError:
        return None


def identity_of(retriever: object) -> dict[str, Any]:
    """A retriever's identity; of one that declares none, its class name."""
    identity = getattr(retriever, "identity", None)
    if isinstance(identity, Mapping):
        return dict(identity)
    return {"engine": f"{type(retriever).__module__}:{type(retriever).__qualname__}"}
