"""The routes. Each is a thin face over ``Service``; failures are problem details."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsmith import __version__
from hopsmith.serving import chat
from hopsmith.serving.guard import Guard
from hopsmith.serving.metrics import CONTENT_TYPE, Metrics
from hopsmith.serving.page import page
from hopsmith.serving.problems import KINDS, MEDIA_TYPE, Problem, ProblemDetails
from hopsmith.serving.schema import (
    Answered,
    AnswerRequest,
    FeedbackRequest,
    Kept,
    Reloaded,
    ReloadRequest,
)
from hopsmith.serving.service import Service
from hopsmith.serving.streaming import begun, lines, stream, while_connected

OPENAI = ("/v1/chat/", "/v1/models")
"""Paths whose failures carry the ``error`` member of OpenAI's API as well."""
ABOUT = """Multi-hop question answering over the server's documents. Failures are problem details
(RFC 9457) whose `type` is `urn:hopsmith:KIND`; a 429 says in `Retry-After` when to come back."""


def create_app(
    service: Service, *, token: str | None = None, admin_token: str | None = None
) -> FastAPI:
    """The application. Closing it ends what is under way at its next LM call."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="Hopsmith",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.add_middleware(
        Guard, token=token, admin_token=admin_token, body_bytes=service.limits.body_bytes
    )
    app.add_middleware(Counted, metrics=service.metrics)
    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    answering(app, service)
    chatting(app, service)
    watching(app, service)
    return app


def answering(app: FastAPI, service: Service) -> None:
    """Questions and feedback."""

    @app.post("/v1/answer", responses=failing("invalid", "busy", "lm-unavailable", "deadline"))
    async def answer(given: AnswerRequest, request: Request) -> Answered:
        """Answer a question."""
        asked = service.asked(given.question, given.pipeline, given.budget.given(), given.seconds)
        return await while_connected(request, service, asked)

    @app.post(
        "/v1/answer/stream",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "Server-sent events: `start` (id, pipeline), `asking` (role, before "
                "each LM call), `hop` (program, hop, passages; when it is taken and again when its "
                "answer is known), then `answer` (as /v1/answer gives it) or `error` (a problem).",
                "content": {"text/event-stream": {"example": STREAM_EXAMPLE}},
            },
            **failing("invalid", "busy"),
        },
    )
    async def answer_stream(given: AnswerRequest) -> StreamingResponse:
        """Answer a question, and tell each hop as it happens."""
        asked = service.asked(given.question, given.pipeline, given.budget.given(), given.seconds)
        return stream(lines(*await begun(service, asked)))

    @app.get("/v1/pipelines")
    async def pipelines() -> dict[str, Any]:
        """What is served, the default first, and what the server takes."""
        return {
            "pipelines": [about.model_dump() for about in service.catalogue.abouts],
            "question_chars": service.limits.question_chars,
            "seconds": service.limits.seconds,
            "feedback": service.journal is not None,
        }

    @app.post("/v1/feedback", status_code=202, responses=failing("forbidden", "log-full"))
    async def feedback(given: FeedbackRequest) -> Kept:
        """Say what you think of an answer. It is kept for review and for the next compile."""
        return await service.feedback(given)


def chatting(app: FastAPI, service: Service) -> None:
    """OpenAI's API."""

    @app.post("/v1/chat/completions", responses=failing("invalid", "busy", "lm-unavailable"))
    async def completions(given: chat.ChatRequest, request: Request) -> Response:
        """Answer a conversation's last message, as OpenAI's API does."""
        message, history = given.question()
        asked = service.asked(message, given.pipeline)
        asked.history = history
        if given.stream:
            opened = await begun(service, asked)
            return stream(chat.chunks(given, asked.served.name, *opened))
        return JSONResponse(chat.completion(await while_connected(request, service, asked)))

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """Pipelines, as OpenAI's API lists models."""
        return chat.models([about.name for about in service.catalogue.abouts])


def watching(app: FastAPI, service: Service) -> None:
    """The page, health, numbers, and reloading."""

    @app.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        html, headers = page()
        return HTMLResponse(html, headers=headers)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is up."""
        return {"status": "ok"}

    @app.get(
        "/readyz", responses={503: {"description": "A part can't answer; the body says which"}}
    )
    async def readyz() -> JSONResponse:
        """Questions can be answered: the index is open, the LM answers."""
        ready, parts = await service.ready()
        status = "ready" if ready else "not ready"
        return JSONResponse({"status": status, "parts": parts}, 200 if ready else 503)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @app.post("/admin/reload", responses=failing("unauthorized", "forbidden", "refused"))
    async def reload(given: ReloadRequest) -> dict[str, list[Reloaded]]:
        """Load pipelines anew, try them on the canary question, and take them up; or keep the old
        ones and say why."""
        return {"reloaded": await service.reload(given.pipeline, given.export)}


def failing(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes these failures."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        status, title = KINDS[kind]
        example = Problem(kind, title).to_json()
        found[status] = {
            "description": title,
            "model": ProblemDetails,
            "content": {MEDIA_TYPE: {"example": example}},
        }
    return found


STREAM_EXAMPLE = (
    'event: start\ndata: {"id": "q-6a1f0c2be1d94c7e", "pipeline": {"name": "tuned", …}}\n\n'
    'event: hop\ndata: {"program": 0, "hop": {"id": 0, "refined": "Who founded Norvale?", …}, '
    '"passages": […]}\n\nevent: answer\ndata: {"answer": "Tamsin", …}\n\n'
)


async def on_problem(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Problem)
    body = fault.for_openai() if request.url.path.startswith(OPENAI) else fault.to_json()
    return JSONResponse(body, fault.status, headers=fault.headers, media_type=MEDIA_TYPE)


async def on_invalid(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, RequestValidationError)
    first = fault.errors()[0]
    if first["type"] == "json_invalid":
        return await on_problem(request, Problem("malformed", "the body is no JSON"))
    where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    return await on_problem(request, Problem("invalid", f"{where}: {first['msg']}"))


async def on_http(request: Request, fault: Exception) -> Response:
    """Failures of the framework: no such path, another method, a body that is too large."""
    assert isinstance(fault, HTTPException)
    kinds = {400: "malformed", 404: "not-found", 405: "method-not-allowed", 413: "too-large"}
    kind = kinds.get(fault.status_code, "internal")
    return await on_problem(request, Problem(kind, str(fault.detail), headers=fault.headers or {}))


class Counted:
    """ASGI middleware: requests by endpoint and status, and how long they took."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            endpoint = self.endpoint(scope)
            self.metrics.requests.labels(endpoint, str(status)).inc()
            self.metrics.request_seconds.labels(endpoint).observe(time.perf_counter() - started)

    def endpoint(self, scope: Mapping[str, Any]) -> str:
        """The route, so that wild paths make no labels."""
        route = scope.get("route")
        return str(getattr(route, "path", None) or "other")
