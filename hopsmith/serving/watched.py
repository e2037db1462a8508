"""WatchedRetriever: a retriever that times its searches, and opens itself anew when one fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from retrieval import Passage, QueryError, RetrievalError, Retriever
from retrieval.contract import BaseRetriever, identity_of
from retrieval.errors import IndexFault

Told = Callable[[float], None]


class IndexUnavailable(RetrievalError):
    """The index can't be searched now. The message names what is wrong with it."""


class WatchedRetriever(BaseRetriever):
    """Searches what ``reopen`` opens, and after a failure what it opens then.

    So a server goes on by itself once a lost index, or the server behind it, is back. An index that
    comes back as another one (encoder, engine, settings) is refused. Raises ``IndexUnavailable``.
    """

    def __init__(self, reopen: Callable[[], Retriever], told: Told = lambda _: None) -> None:
        self._reopen = reopen
        self._told = told
        self._inner = reopen()
        self._lock = threading.Lock()
        self.fault: str | None = None
        """Why the latest search failed; None once one has succeeded."""

    def search(
        self, queries: Sequence[str], k: int, pool: int | None = None
    ) -> list[list[Passage]]:
        return self._timed(list(queries), k, pool)

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        return self._timed(queries, k, pool)

    def _timed(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        started = time.perf_counter()
        inner = self._inner
        try:
            found = inner.search(queries, k, pool=pool)
        except QueryError:
            raise
        except (RetrievalError, OSError) as fault:
            found = self._again(inner, fault, queries, k, pool)
        finally:
            self._told(time.perf_counter() - started)
        self.fault = None
        return found

    def _again(
        self, failed: Retriever, fault: Exception, queries: list[str], k: int, pool: int | None
    ) -> list[list[Passage]]:
        try:
            with self._lock:
                if self._inner is failed:
                    self._inner = self._opened(failed)
            return self._inner.search(queries, k, pool=pool)
        except QueryError:
            raise
        except (RetrievalError, OSError) as second:
            self.fault = f"{type(second).__name__}: {' '.join(str(second).split())[:200]}"
            raise IndexUnavailable(self.fault) from fault

    def _opened(self, before: Retriever) -> Retriever:
        fresh = self._reopen()
        if identity_of(fresh) != identity_of(before):
            raise IndexFault(
                "the index that is there now differs from the one that was opened: reload the "
                "server to serve it"
            )
        return fresh

    def check(self) -> str | None:
        """What is wrong with the index now; opens it anew if the latest search had failed."""
        if self.fault is None:
            return None
        try:
            with self._lock:
                self._inner = self._opened(self._inner)
            self.fault = None
        except (RetrievalError, OSError) as fault:
            self.fault = f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        return self.fault

    @property
    def folder(self) -> Any:
        """Where the index lies, if it is a folder."""
        return getattr(getattr(self._inner, "index", None), "folder", None)

    @property
    def identity(self) -> Mapping[str, Any]:
        return identity_of(self._inner)

    @property
    def corpus_hash(self) -> str:
        return str(getattr(self._inner, "corpus_hash", "") or "")
