"""Opening an index by where it is: a folder here, or the address of a server."""

from __future__ import annotations

from pathlib import Path

from retrieval.contract import BaseRetriever
from retrieval.index import open_index
from retrieval.remote import open_remote
from retrieval.wire import is_url


def open_retriever(
    where: str | Path, *, engine: str | None = None, checkpoint: str | None = None
) -> BaseRetriever:
    """A folder's index by ``open_index``; an ``http://HOST:PORT`` by the server there.

    Raises ``IndexFault`` naming the mend.
    """
    if is_url(where):
        return open_remote(str(where), engine=engine)
    return open_index(where, engine=engine, checkpoint=checkpoint)
