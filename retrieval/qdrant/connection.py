"""The client of a Qdrant: one a process and address, tried again where a failure may pass."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from retrieval.errors import IndexFault, RemoteFault
from retrieval.wire import is_url

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

KEY = "HOPSMITH_QDRANT_API_KEY"
PATIENCE = 60
ATTEMPTS = 5

T = TypeVar("T")

_clients: dict[tuple[int, str], tuple[QdrantClient, threading.Lock | None]] = {}
_connecting = threading.Lock()


@contextmanager
def asking(url: str) -> Iterator[Callable[[Callable[[QdrantClient], T]], T]]:
    """A function that calls the client of ``url`` and tries again what may pass. One client a
    process and address. Raises ``RemoteFault`` in one line, ``IndexFault`` without the extra."""
    try:
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
    except ModuleNotFoundError as fault:
        raise IndexFault('Qdrant\'s client is missing: pip install "hopsmith[qdrant]"') from fault
    from tenacity import (
        Retrying,
        retry_if_exception_type,
        stop_after_attempt,
        wait_random_exponential,
    )

    client, lock = _client(url)
    tries = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.25, max=4),
        retry=retry_if_exception_type(ResponseHandlingException),
        reraise=True,
    )

    def ask(call: Callable[[QdrantClient], T]) -> T:
        if lock is None:
            return tries(call, client)
        with lock:
            return call(client)

    try:
        yield ask
    except ResponseHandlingException as fault:
        raise RemoteFault(
            f"no Qdrant answers at {url} ({' '.join(str(fault).split())[:200]}): start it, or "
            "correct --url"
        ) from fault
    except UnexpectedResponse as fault:
        if fault.status_code in (401, 403):
            raise RemoteFault(f"Qdrant at {url} refuses us: set {KEY} to its API key") from fault
        said = " ".join(fault.content.decode("utf-8", "replace").split())[:200]
        raise RemoteFault(f"Qdrant at {url} answers {fault.status_code}: {said}") from fault


def _client(url: str) -> tuple[QdrantClient, threading.Lock | None]:
    with _connecting:
        key = (os.getpid(), url)
        if key not in _clients:
            _clients[key] = (_remote(url), None) if is_url(url) else (_here(url), threading.Lock())
        return _clients[key]


def _here(folder: str) -> QdrantClient:
    from qdrant_client import QdrantClient

    try:
        return QdrantClient(path=folder, force_disable_check_same_thread=True)
    except RuntimeError as fault:
        raise IndexFault(
            f"{folder} is open in another process: a folder serves one at a time; start a Qdrant "
            "server for more"
        ) from fault


def _remote(url: str) -> QdrantClient:
    from qdrant_client import QdrantClient

    return QdrantClient(
        url=url, api_key=os.environ.get(KEY), timeout=PATIENCE, check_compatibility=False
    )


def close_clients() -> None:
    """Close this process's clients; the next call opens them again."""
    with _connecting:
        for key in [k for k in _clients if k[0] == os.getpid()]:
            _clients.pop(key)[0].close()
