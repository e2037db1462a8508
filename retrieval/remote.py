"""RemoteRetriever: an index that ``hopsmith index-serve`` serves, under the contract.

It has the server's own identity and corpus hash, so that an export or a run measured over a local
index is the same over a served one. The token comes from ``HOPSMITH_INDEX_TOKEN`` and stays out of
identity and pickles.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ValidationError

from retrieval.contract import BaseRetriever
from retrieval.errors import QueryError, RemoteFault
from retrieval.passage import Passage
from retrieval.where import Condition, conditions_of
from retrieval.wire import FORMAT, TOKEN, About, SearchReply, hash_of

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 5
"""Tries of one request: about 4 s of waiting in all when nothing answers."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 4.0
"""Seconds; before try n at random up to ``FIRST_WAIT · 2ⁿ``."""
LONGEST_ASKED = 30.0
"""Seconds that a server's ``Retry-After`` is heeded for, at most."""
PATIENCE = 60.0
"""Seconds to wait for a reply."""
CONNECT = 5.0
CONNECTIONS = 64
ENVELOPE = 64
"""Bytes of a request besides its queries."""
BUSY = (429, 502, 503, 504)

M = TypeVar("M", bound=BaseModel)


class _Passing(Exception):
    """A failure that may pass; ``after`` is how long the server asks to wait, in seconds."""

    def __init__(self, says: str, after: float | None = None) -> None:
        super().__init__(says)
        self.after = after


class RemoteRetriever(BaseRetriever):
    """A client of one server. Thread-safe: threads share its connections, a forked process opens
    its own. Batches beyond what the server takes at once are sent in several requests."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience: float = PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``token`` is by default that of ``HOPSMITH_INDEX_TOKEN``, and is not pickled: a copy in
        another process reads the variable. Raises ``RemoteFault`` for what is no address."""
        self.url = _address(url)
        self.conditions: tuple[Condition, ...] = ()
        self.patience = patience
        self._token = token
        self._sleep = sleep
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._http: tuple[int, httpx.Client] | None = None
        self._known: About | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self.url, self.patience, *map(str, self.conditions)))

    def where(self, *conditions: str | Condition) -> RemoteRetriever:
        """The server's ``where``. Shares nothing with this one but the token."""
        narrow = RemoteRetriever(self.url, self._token, patience=self.patience, sleep=self._sleep)
        narrow.conditions = (*self.conditions, *conditions_of(conditions))
        _ = narrow.about
        return narrow

    def __len__(self) -> int:
        """Passages in the index. Raises ``TypeError`` when the server doesn't know."""
        if self.about.passages is None:
            raise TypeError("the server does not know how many passages there are")
        return self.about.passages

    def __bool__(self) -> bool:
        return True

    @property
    def about(self) -> About:
        """What the server said of its index when it was first asked. Raises ``RemoteFault``."""
        with self._lock:
            if self._known is None:
                self._known = self._read(About, self._exchange("GET", f"/v1/index{self._filter}"))
                if self._known.format != FORMAT:
                    raise RemoteFault(
                        f"the server at {self.url} speaks format {self._known.format}, this "
                        f"version {FORMAT}: run the same version of Hopsmith on both sides"
                    )
            return self._known

    @property
    def _filter(self) -> str:
        wanted = [("where", str(c)) for c in self.conditions]
        return f"?{urlencode(wanted)}" if wanted else ""

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.about.identity

    @property
    def corpus_hash(self) -> str:
        return self.about.corpus_hash

    def close(self) -> None:
        """Close the connections; a later search opens new ones."""
        with self._connecting:
            if self._http is not None and self._http[0] == os.getpid():
                self._http[1].close()
            self._http = None

    def _search(self, queries: list[str], k: int, pool: int | None) -> list[list[Passage]]:
        about = self.about
        if k > about.max_k:
            raise QueryError(f"the server at {self.url} gives at most k={about.max_k}, not {k}")
        filters = {"where": list(map(str, self.conditions))} if self.conditions else {}
        room = about.max_bytes - (len(json.dumps(filters)) if filters else 0)
        out: list[list[Passage]] = []
        for batch in _batches(queries, about.max_queries, room):
            body = {"queries": batch, "k": k, "pool": pool, **filters}
            reply = self._read(SearchReply, self._exchange("POST", "/v1/search", body))
            if len(reply.results) != len(batch):
                raise self._strange(f"{len(reply.results)} results for {len(batch)} queries")
            self._check_same(reply)
            out.extend(reply.passages())
        return out

    def _check_same(self, reply: SearchReply) -> None:
        """Refuse another engine or encoder than at first; warn of another corpus."""
        about = self.about
        if reply.identity_hash != hash_of(about.identity):
            raise RemoteFault(
                f"the server at {self.url} now serves an index of another engine or encoder: "
                "start this again"
            )
        if reply.corpus_hash != about.corpus_hash:
            with self._lock:
                self._known = about.model_copy(update={"corpus_hash": reply.corpus_hash})
            warnings.warn(f"the corpus served at {self.url} has changed", stacklevel=2)

    def _exchange(self, method: str, path: str, body: Any = None) -> bytes:
        """A reply's body, after some tries. Raises ``RemoteFault``, ``QueryError``."""
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

        tries = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=_wait,
            retry=retry_if_exception_type(_Passing),
            sleep=self._sleep,
            reraise=True,
        )
        content = None if body is None else json.dumps(body).encode()
        try:
            found: bytes = tries(self._once, method, path, content)
        except _Passing as fault:
            raise RemoteFault(
                f"no index server answers at {self.url} ({fault}): start it with hopsmith "
                "index-serve DIR, or correct --index"
            ) from fault
        return found

    def _once(self, method: str, path: str, content: bytes | None) -> bytes:
        import httpx

        headers = {"Content-Type": "application/json"} if content is not None else {}
        token = self._token or os.environ.get(TOKEN)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            reply = self._client().request(method, path, content=content, headers=headers)
        except httpx.TimeoutException as fault:
            raise _Passing(f"{type(fault).__name__} after {self.patience:g} s") from fault
        except httpx.TransportError as fault:
            raise _Passing(str(fault) or type(fault).__name__) from fault
        if reply.status_code == 200:
            return reply.content
        says = _error(reply)
        if reply.status_code in BUSY:
            raise _Passing(f"status {reply.status_code}", _seconds(reply.headers))
        if reply.status_code in (401, 403):
            raise RemoteFault(
                f"the index server at {self.url} refuses us ({says or reply.status_code}): set "
                f"{TOKEN} to the server's token"
            )
        if reply.status_code in (400, 413) and says:
            raise QueryError(f"the index server at {self.url}: {says}")
        raise self._strange(f"status {reply.status_code}{f', {says}' if says else ''}")

    def _client(self) -> httpx.Client:
        import httpx

        with self._connecting:
            if self._http is None or self._http[0] != os.getpid():
                local = urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")
                client = httpx.Client(
                    base_url=self.url,
                    timeout=httpx.Timeout(self.patience, connect=min(CONNECT, self.patience)),
                    limits=httpx.Limits(
                        max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS
                    ),
                    trust_env=not local,  # no proxy between us and loopback
                )
                self._http = (os.getpid(), client)
            return self._http[1]

    def _read(self, model: type[M], body: bytes) -> M:
        try:
            return model.model_validate(json.loads(body))
        except (ValueError, RecursionError) as fault:
            what = "no JSON" if not isinstance(fault, ValidationError) else "another form"
            raise self._strange(what) from fault

    def _strange(self, what: str) -> RemoteFault:
        return RemoteFault(
            f"what answers at {self.url} is no Hopsmith index server, or a broken one ({what}): "
            "correct --index, or see the server's log"
        )


def open_remote(
    url: str, *, token: str | None = None, engine: str | None = None, patience: float = PATIENCE
) -> RemoteRetriever:
    """A served index, asked once who it is. Raises ``RemoteFault`` naming the mend: nothing
    answers, the token is wrong, it is searched by another engine than ``engine``."""
    retriever = RemoteRetriever(url, token, patience=patience)
    served = retriever.identity.get("engine")
    if engine is not None and served != engine:
        raise RemoteFault(
            f"the index at {retriever.url} is served with the engine {served}: leave --engine "
            f"out, or serve it with hopsmith index-serve DIR --engine {engine}"
        )
    return retriever


def _reopen(url: str, patience: float, *conditions: str) -> RemoteRetriever:
    retriever = RemoteRetriever(url, patience=patience)
    return retriever.where(*conditions) if conditions else retriever


def _address(url: str) -> str:
    parts = urlsplit(url.strip().rstrip("/"))
    if parts.username or parts.password:
        raise RemoteFault(
            f"leave the secret out of the address and set {TOKEN}: http://HOST:PORT is wanted"
        )
    try:
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        fits = None
    if not fits or parts.query or parts.fragment:
        raise RemoteFault(f"{url!r} is no address of an index server: http://HOST:PORT is wanted")
    return parts.geturl()


def _batches(queries: list[str], most: int, size: int) -> Iterator[list[str]]:
    """Neighbours that fit one request. Raises ``QueryError`` for a query that fits none."""
    batch: list[str] = []
    used = ENVELOPE
    for i, query in enumerate(queries):
        needs = len(json.dumps(query)) + 2
        if ENVELOPE + needs > size:
            raise QueryError(f"query {i} is longer than the {size:,} bytes the server takes")
        if batch and (len(batch) == most or used + needs > size):
            yield batch
            batch, used = [], ENVELOPE
        batch.append(query)
        used += needs
    if batch:
        yield batch


def _wait(state: Any) -> float:
    """Seconds until the next try: what the server asked for, else backoff with full jitter."""
    from tenacity import wait_random_exponential

    fault = state.outcome.exception()
    if isinstance(fault, _Passing) and fault.after is not None:
        return min(fault.after, LONGEST_ASKED)
    return wait_random_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT)(state)


def _seconds(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds; None when it is missing or a date."""
    said = headers.get("retry-after", "")
    return float(said) if said.isdigit() else None


def _error(reply: Any) -> str:
    try:
        body = reply.json()
    except ValueError:
        return ""
    return str(body["error"])[:300] if isinstance(body, dict) and "error" in body else ""
