"""Opening an index by where it is: a folder here, or the address of a server."""

from __future__ import annotations

from pathlib import Path

from retrieval.contract import BaseRetriever
from retrieval.index import open_index
from retrieval.manifest import Manifest
from retrieval.qdrant import QdrantManifest, is_qdrant, open_qdrant
from retrieval.remote import open_remote
from retrieval.wire import is_url


def cut_of(folder: Path | str) -> dict[str, int] | None:
    """How an index's documents were cut into passages. Raises ``IndexFault``."""
    if is_qdrant(folder):
        return QdrantManifest.read(Path(folder)).cut
    return Manifest.read(Path(folder)).cut


def open_retriever(
    where: str | Path, *, engine: str | None = None, checkpoint: str | None = None
) -> BaseRetriever:
    """A folder's index, here or in the Qdrant collection that it names; an ``http://HOST:PORT`` by
    the server there.

    Raises ``IndexFault`` naming the mend.
    """
    if is_url(where):
        return open_remote(str(where), engine=engine)
    if is_qdrant(where):
        return open_qdrant(where, engine=engine, checkpoint=checkpoint)
    return open_index(where, engine=engine, checkpoint=checkpoint)
