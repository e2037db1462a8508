"""The process: a socket, an event loop, signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from hopsmith.errors import HopsmithError
from hopsmith.serving.problems import Problem
from hopsmith.serving.service import Service
from retrieval.wire import is_loopback

LAST = 5.0
"""Seconds beyond a question's own limit that a server waits for what is under way when it is told
to stop."""

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept: longer than proxies and clients reuse one, so that they
don't meet it while it is being closed."""


def check_host(host: str, token: str | None) -> None:
    """Raise ``HopsmithError`` when a server would be open to others without a token."""
    if not is_loopback(host) and not token:
        raise HopsmithError(
            f"--host {host} is open to other machines: set HOPSMITH_TOKEN to the token that "
            "clients must send, or keep --host 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises ``HopsmithError``."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, proto)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as fault:
        raise HopsmithError(
            f"can't listen on {host}:{port} ({fault.strerror or fault}): give another --host or "
            "--port"
        ) from fault
    bound.set_inheritable(True)
    return bound


def run(app: FastAPI, bound: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; what is under way is finished first. SIGHUP reloads."""
    service: Service = app.state.service
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        lifespan="on",
        timeout_graceful_shutdown=int(service.limits.seconds + LAST),
    )
    server = Server(config, service, ready)
    # uvicorn raises the signal again when it has stopped: this makes it an orderly exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.serve_until_told([bound]))


class Server(uvicorn.Server):
    """Takes SIGHUP as well, and says not ready from the moment it is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.service = service
        self.ready = ready
        self._reloads: set[asyncio.Task[None]] = set()

    async def serve_until_told(self, sockets: list[socket.socket]) -> None:
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        await self.serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.stopping = True
        await super().shutdown(sockets)

    def _reload(self) -> None:
        async def reload() -> None:
            with contextlib.suppress(Problem):  # logged
                await self.service.reload()

        task = asyncio.ensure_future(reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)


def log_to_stderr(*, quiet: bool = False) -> None:
    """One line an event, or ``quiet`` a failure; of other libraries only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("hopsmith.serving")
    ours.handlers, ours.propagate = [handler], False
    ours.setLevel(logging.ERROR if quiet else logging.INFO)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)


def address(bound: socket.socket) -> str:
    """The URL to type into a browser."""
    host, port = bound.getsockname()[:2]
    host = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}"
