"""Errors of this room. Each message names the mend; the command line prints it as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RetrievalError(Exception):
    """A fault of input or set-up that the user can mend."""


class QueryError(RetrievalError, ValueError):
    """A query, k or pool that can't be searched for."""


class CorpusError(RetrievalError, ValueError):
    """A corpus that can't be indexed: empty, duplicate ids, a line that is no JSON, …"""


class IndexFault(RetrievalError):
    """An index that is missing, broken, half-built or of another encoder or engine."""


class EmbeddingFault(IndexFault):
    """An embedder that can't be reached, refuses us or answers something else."""

    stops_run = True
    """Read by ``programs``: without it a run only writes failures."""


class RetrieverFault(RetrievalError):
    """A plugged-in retriever that can't be opened."""


class RemoteFault(IndexFault):
    """An index elsewhere that can't be reached, refuses us or answers something else."""

    stops_run = True
    """Read by ``programs``: without its index a run only writes failures."""


@contextmanager
def undamaged(folder: Path) -> Iterator[None]:
    """Raise ``IndexFault`` where what is read of a folder is not as it was written."""
    try:
        yield
    except (ValueError, EOFError) as fault:
        raise IndexFault(f"{folder} is damaged: index the corpus again") from fault
