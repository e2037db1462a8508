"""Who may ask and how much they may send, checked before a request is read.

Without a token a server listens on loopback only, and answers only requests that are addressed to
it there: else any web page that the user visits could reach it through a name that resolves to
127.0.0.1.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsmith.serving.problems import MEDIA_TYPE, Problem
from retrieval.wire import is_loopback

OPEN = ("/", "/healthz", "/readyz", "/openapi.json")
"""Paths that need no token: none of them tells of a question, a passage or a setting."""
ADMIN = "/admin/"


class Guard:
    """ASGI middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        admin_token: str | None = None,
        body_bytes: int = 256 * 1024,
    ) -> None:
        self.app = app
        self.token = token
        self.admin_token = admin_token
        self.body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self.check(scope["path"], headers)
            body = Body(receive, self.body_bytes)
            await self.app(scope, body.receive, send)
        except Problem as problem:
            await refuse(problem, send)

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise ``Problem`` for a request that may not be read."""
        if path.startswith(ADMIN):
            if self.admin_token is None:
                raise Problem("forbidden", "start the server with HOPSMITH_ADMIN_TOKEN set")
            self.check_token(self.admin_token, headers)
        elif self.token is not None:
            if path not in OPEN:
                self.check_token(self.token, headers)
        else:
            host = headers.get("host", "")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if host and not is_loopback(name):
                raise Problem(
                    "forbidden",
                    "without a token only requests addressed to localhost are answered: start the "
                    "server with HOPSMITH_TOKEN set",
                )
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > self.body_bytes:
            raise too_large(self.body_bytes)

    def check_token(self, token: str, headers: Mapping[str, str]) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(), token.encode())
        if scheme.casefold() != "bearer" or not same:
            raise Problem(
                "unauthorized",
                "send Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )


class Body:
    """Counts what arrives of a body that declared no length."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._read = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > self._most:
            raise HTTPException(413, too_large(self._most).detail)
        return message


def too_large(most: int) -> Problem:
    return Problem("too-large", f"a request may have {most:,} bytes")


async def refuse(problem: Problem, send: Send) -> None:
    """A problem as a whole response, below any framework."""
    body: dict[str, Any] = problem.for_openai()
    data = json.dumps(body, ensure_ascii=False).encode()
    headers = {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(data)),
        "Connection": "close",
        **problem.headers,
    }
    await send(
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": data})
