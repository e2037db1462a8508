"""index-serve: one index for many clients."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

import typer

from hopsmith.commands import options as opt
from hopsmith.errors import HopsmithError
from retrieval.wire import is_loopback

SHORTEST_TOKEN = 16
GRACE = 30
"""Seconds that requests under way have to end when the server is told to stop."""
MOST_WAITING = 512
"""Connections beyond which a client is told to come again (503)."""


def register(app: typer.Typer) -> None:
    app.command("index-serve")(index_serve)


def index_serve(
    index: Annotated[str, typer.Argument(metavar="DIR", help="An index folder.")],
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")
    ] = 8893,
    engine: opt.Engine = None,
    checkpoint: opt.Checkpoint = None,
    max_k: Annotated[
        int, typer.Option("--max-k", min=1, max=1000, help="Passages per query, at most.")
    ] = 1000,
    max_queries: Annotated[
        int, typer.Option("--max-queries", min=1, help="Queries per request, at most.")
    ] = 256,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=1024, help="Size of a request, at most.")
    ] = 1 << 20,
    json: opt.Json = False,
) -> None:
    """Serve an index over HTTP: --index http://HOST:PORT searches it from elsewhere.

    Other machines need the token that HOPSMITH_INDEX_TOKEN holds here and there.
    dspy.ColBERTv2 is answered at /api/search, Prometheus at /metrics. The index is served as it was
    when it was opened; SIGHUP opens it anew, with what was added and deleted since.
    """
    from hopsmith.settings import load_settings
    from hopsmith.show import print_json
    from retrieval import open_retriever
    from retrieval.contract import size_of

    secret = load_settings().index_token
    token = secret.get_secret_value() if secret is not None else None
    check_open_to(host, token)
    retriever = open_retriever(index, engine=engine, checkpoint=checkpoint)
    listening = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listening.getsockname()[1]}"

    from retrieval.server import Bounds, create_app

    app = create_app(
        retriever, token=token, bounds=Bounds(k=max_k, queries=max_queries, body=max_bytes)
    )
    retriever.search(["warm up"], 1)

    def reopen() -> None:
        try:
            fresh = open_retriever(index, engine=engine, checkpoint=checkpoint)
            fresh.search(["warm up"], 1)
        except Exception as fault:
            said = " ".join(str(fault).split()) or type(fault).__name__
            print(f"not reopened, the index is served as it was: {said}", file=sys.stderr)
            return
        app.state.served.take(fresh)
        print(f"reopened: {size_of(fresh)} passages", file=sys.stderr, flush=True)

    reopen_on_hangup(reopen)
    about = {"url": url, "passages": size_of(retriever), "engine": retriever.identity["engine"]}
    if json:
        print_json(about)
        sys.stdout.flush()
    else:
        print(f"serving {index} at {url}; Ctrl-C stops it", file=sys.stderr, flush=True)
    serve(app, listening)


def reopen_on_hangup(reopen: Callable[[], None]) -> None:
    """Have each SIGHUP call it in a thread of its own, one after another."""
    turns = threading.Lock()

    def in_turn() -> None:
        with turns:
            reopen()

    if hasattr(signal, "SIGHUP"):
        signal.signal(
            signal.SIGHUP, lambda *_: threading.Thread(target=in_turn, daemon=True).start()
        )


def check_open_to(host: str, token: str | None) -> None:
    """Raise ``HopsmithError`` for a host that others reach, without a token that keeps them out."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise HopsmithError(
            f"HOPSMITH_INDEX_TOKEN has {len(token)} characters: use at least {SHORTEST_TOKEN}, "
            "such as those of openssl rand -hex 24"
        )
    if token is None and not is_loopback(host):
        raise HopsmithError(
            f"--host {host} is open to other machines: set HOPSMITH_INDEX_TOKEN to a secret here "
            "and for the clients first (openssl rand -hex 24 makes one), or leave --host out"
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ``HopsmithError`` when the port or the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as fault:
        raise HopsmithError(
            f"can't listen at {host}:{port} ({fault.strerror or fault}): choose another --port or "
            "--host"
        ) from fault
    # asyncio does this for sockets of its own making; without it a reply waits 40 ms for an ACK
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(app: Any, listening: socket.socket) -> None:
    """Serve until told to stop (SIGINT, SIGTERM), then let requests under way end."""
    import uvicorn

    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again when it has ended
        signal.signal(number, lambda *_: None)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_WAITING,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[listening])
