"""A retrieval server: one opened index for many clients (``retrieval.wire`` is what they say).

Every request but ``/healthz`` needs the token, where one is set; without one, only requests
addressed to this machine's loopback names are answered, so that no web page can reach the index
under a name of its own.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import anyio
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from retrieval.contract import MAX_K, BaseRetriever, size_of
from retrieval.errors import QueryError
from retrieval.segment import content
from retrieval.wire import FORMAT, SearchRequest, is_loopback, reply

ROUTES = ("/healthz", "/metrics", "/v1/index", "/v1/search", "/api/search")
FILTERS = 32
"""Filters that are kept ready: making one reads every passage once."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the server takes at most."""

    k: int = MAX_K
    queries: int = 256
    """Of one request."""
    body: int = 1 << 20
    """Bytes of one request."""
    at_once: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Searches under way at once; further ones wait for their turn."""


class Metrics:
    """Counters of one server, in Prometheus' text format."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "hopsmith_index_requests_total",
            "Requests answered",
            ("route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "hopsmith_index_request_seconds",
            "Time from a request's head to its reply",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.queries = Counter(
            "hopsmith_index_queries_total", "Queries searched for", registry=self.registry
        )
        self.searching = Gauge(
            "hopsmith_index_searches_in_progress", "Searches under way", registry=self.registry
        )
        self._size = Gauge(
            "hopsmith_index_passages", "Passages in the index", registry=self.registry
        )

    def serving(self, passages: int | None) -> None:
        self._size.set(passages if passages is not None else float("nan"))


class Served:
    """The retriever that answers, until another is taken up; requests under way keep theirs."""

    def __init__(self, retriever: BaseRetriever, metrics: Metrics) -> None:
        self.metrics = metrics
        self.take(retriever)

    def take(self, retriever: BaseRetriever) -> None:
        self.retriever = retriever
        self.narrow = lru_cache(FILTERS)(lambda where: retriever.where(*where))
        self.metrics.serving(size_of(retriever))


def create_app(
    retriever: BaseRetriever, *, token: str | None = None, bounds: Bounds | None = None
) -> FastAPI:
    """The server of one retriever, as an ASGI application; ``app.state.served`` takes another."""
    bounds = bounds or Bounds()
    metrics = Metrics()
    served = Served(retriever, metrics)
    turns = anyio.CapacityLimiter(bounds.at_once)
    app = FastAPI(title="Hopsmith index", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.served = served
    app.add_middleware(_Guard, token=token, most=bounds.body)
    app.add_middleware(_Counted, metrics=metrics)

    async def among(where: Sequence[str]) -> BaseRetriever:
        if not where:
            return served.retriever
        return await anyio.to_thread.run_sync(served.narrow, tuple(where), limiter=turns)

    async def search(
        queries: Sequence[str], k: int, pool: int | None = None, at: BaseRetriever | None = None
    ) -> Any:
        at = served.retriever if at is None else at
        if len(queries) > bounds.queries:
            raise QueryError(f"a request holds at most {bounds.queries} queries: send several")
        if k > bounds.k:
            raise QueryError(f"k may be {bounds.k} at most here, got {k}")
        if pool is not None and pool > MAX_K:
            raise QueryError(f"pool may be {MAX_K} at most, got {pool}")

        def work() -> Any:
            with metrics.searching.track_inprogress():
                return at.search(queries, k, pool)

        found = await anyio.to_thread.run_sync(work, limiter=turns)
        metrics.queries.inc(len(queries))
        return found

    @app.get("/healthz")
    async def health() -> Response:
        return _json({"status": "ok", "passages": size_of(served.retriever)})

    @app.get("/metrics")
    async def tell_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/index")
    async def about(where: Annotated[list[str], Query(max_length=16)] = []) -> Response:  # noqa: B006
        at = await among(where)
        return _json(
            {
                "format": FORMAT,
                "identity": dict(at.identity),
                "corpus_hash": at.corpus_hash,
                "passages": size_of(at),
                "max_k": bounds.k,
                "max_queries": bounds.queries,
                "max_bytes": bounds.body,
            }
        )

    @app.post("/v1/search")
    async def search_all(asked: SearchRequest) -> Response:
        at = await among(asked.where)
        found = await search(asked.queries, asked.k, asked.pool, at)
        return _json(reply(at.identity, at.corpus_hash, found))

    @app.get("/api/search")
    async def colbert_get(query: str, k: int = 10) -> Response:
        return _json(_topk(query, (await search([query], k))[0]))

    @app.post("/api/search")
    async def colbert_post(request: Request) -> Response:
        try:
            asked = await request.json()
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict) or not isinstance(asked.get("k", 10), int):
            raise QueryError('a JSON object {"query": "…", "k": 10} is wanted')
        query = asked.get("query", "")
        return _json(_topk(query, (await search([query], asked.get("k", 10)))[0]))

    @app.exception_handler(QueryError)
    async def bad_query(_: Request, fault: QueryError) -> Response:
        return _error(400, str(fault))

    @app.exception_handler(RequestValidationError)
    async def bad_request(_: Request, fault: RequestValidationError) -> Response:
        first = fault.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
        return _error(400, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, fault: HTTPException) -> Response:
        return _error(fault.status_code, str(fault.detail))

    @app.exception_handler(Exception)
    async def failed(_: Request, fault: Exception) -> Response:
        return _error(500, f"the search failed: {type(fault).__name__}")

    return app


def _topk(query: str, found: Sequence[Any]) -> dict[str, Any]:
    """A reply to ``dspy.ColBERTv2``, whose POST form reads ``long_text`` and whose GET form makes
    it of ``text``: title and text as colbert-ai's collections have them."""
    rows = []
    for passage in found:
        text = f"{passage.title} | {passage.text}" if passage.title else content(passage)
        rows.append(
            {
                "pid": passage.id,
                "rank": passage.rank,
                "score": passage.score,
                "text": text,
                "long_text": text,
            }
        )
    return {"query": query, "topk": rows}


def _json(value: Any, status: int = 200) -> Response:
    """ASCII JSON: half a surrogate pair in a passage can't be written as UTF-8."""
    return Response(json.dumps(value), status, media_type="application/json")


def _error(status: int, says: str) -> Response:
    return _json({"error": says}, status)


class _Guard:
    """Refuses requests without the token, from elsewhere when there is none, and too large ones."""

    def __init__(self, app: Any, token: str | None, most: int) -> None:
        self.app = app
        self.token = token
        self.most = most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        read = 0

        async def bounded() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                raise HTTPException(413, self._too_large())
            return message

        await self.app(scope, bounded, send)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> Response | None:
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.most:
            return _error(413, self._too_large())
        if path == "/healthz":
            return None
        if self.token is not None:
            return None if self._knows(headers) else _error(401, "the bearer token is wrong")
        host = headers.get(b"host", b"").decode("latin-1")
        name = host if host.endswith("]") else host.rsplit(":", 1)[0]
        return None if is_loopback(name) else _error(403, "this server is for loopback only")

    def _knows(self, headers: dict[bytes, bytes]) -> bool:
        """Bearer, or Basic with the token as its password, which clients that only take a URL
        (``http://:TOKEN@host``) send."""
        assert self.token is not None
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(given.strip(), self.token.encode())

    def _too_large(self) -> str:
        return f"a request has at most {self.most:,} bytes: send fewer queries at once"


class _Counted:
    """Counts requests by route and status, and their time."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        route = scope["path"] if scope["path"] in ROUTES else "other"
        status = 500
        started = time.perf_counter()

        async def noting(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
