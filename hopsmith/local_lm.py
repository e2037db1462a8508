"""The local LM's server: llama.cpp inside this process, OpenAI-compatible, on loopback.

One server per process and configuration, started when first asked for and closed at exit. It is
reached over HTTP like any other endpoint, so that the local path and the production path are the
same client.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from hopsmith.errors import HopsmithError
from hopsmith.weights import Weights

WINDOW = 8192
"""Tokens of prompt and reply together, per slot."""
PROMPT_STORE_MIB = 512
"""Memory for prompts of other predictors, whose prefixes are then read again without computing."""
SPINS = "1000"
"""Turns that an OpenMP thread waits awake: libgomp's own choice for a crowded machine."""
PATIENCE = 120.0
"""Seconds to wait for a started server's first answer."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What distinguishes one server of this process from another."""

    weights: Weights
    slots: int = 1
    """Requests served at once. More than one shares the cores and makes answers depend on what
    else is being served."""
    window: int = WINDOW
    prefix_cache: bool = True
    """Reuse the computation of a prompt's beginning. Saves most of the reading time of a growing
    prompt; an answer may then differ in a near-tie, depending on what was asked before."""


class LocalServer:
    """A running server. Thread-safe."""

    def __init__(self, plan: ServerPlan, native: Any) -> None:
        self.plan = plan
        self.weights = plan.weights
        self.address: str = native.listening_address
        """``http://127.0.0.1:PORT``; the OpenAI-compatible API is below ``url``."""
        self.url = f"{self.address}/v1"
        self._native = native

    def get(self, path: str) -> dict[str, Any]:
        return self._exchange(urllib.request.Request(self.address + path))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self.address + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        return self._exchange(request)

    def count_tokens(self, text: str) -> int:
        """Exact, by the model's own tokenizer."""
        return len(self.post("/tokenize", {"content": text})["tokens"])

    def close(self) -> None:
        """Stop serving and free the model. Waits for the reply under way."""
        self._native = None

    def _exchange(self, request: urllib.request.Request) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=PATIENCE) as reply:
            found: dict[str, Any] = json.load(reply)
        return found


_servers: dict[tuple[int, ServerPlan], LocalServer] = {}
_lock = threading.Lock()


def serve(
    weights: Weights,
    *,
    window: int = WINDOW,
    slots: int = 1,
    prefix_cache: bool = True,
    say: Say = lambda _: None,
) -> LocalServer:
    """The running server for these settings, started when there is none.

    Raises ``HopsmithError`` when the engine is not installed or can't load the weights.
    """
    plan = ServerPlan(weights, slots, window, prefix_cache)
    key = (os.getpid(), plan)
    with _lock:
        if key not in _servers:
            _servers[key] = _start(plan, say)
        return _servers[key]


def running(url: str) -> LocalServer | None:
    """This process's server at ``url``."""
    return next((s for s in list(_servers.values()) if s.url == url), None)


def close_all() -> None:
    """Close the servers of this process. A later ``serve`` starts afresh."""
    with _lock:
        for key in [k for k in _servers if k[0] == os.getpid()]:
            _servers.pop(key).close()


atexit.register(close_all)


def cores() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _engine() -> Any:
    """llama.cpp. Its threads give their core up instead of spinning when another program needs it:
    on 2 cores with busy neighbours it then writes some 4 tokens a second instead of 0.5. OpenMP
    reads the variable when it loads; who set it, or ``OMP_WAIT_POLICY``, keeps that."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    try:
        import xllamacpp
    except ModuleNotFoundError as fault:
        raise HopsmithError(
            'the local LM\'s engine is not installed: pip install "hopsmith[local]", or name '
            "another LM with --lm"
        ) from fault
    except ImportError as fault:
        raise HopsmithError(
            f"the local LM's engine can't be loaded ({fault}): install the library it misses "
            "(libgomp.so.1 is in Debian's libgomp1), or name another LM with --lm"
        ) from fault
    return xllamacpp


def _start(plan: ServerPlan, say: Say) -> LocalServer:
    xllamacpp = _engine()
    params = xllamacpp.CommonParams()
    params.model.path = str(plan.weights.path)
    params.model_alias = {plan.weights.name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = plan.window * plan.slots
    params.n_parallel = plan.slots
    params.cache_prompt = plan.prefix_cache
    params.cache_ram_mib = PROMPT_STORE_MIB if plan.prefix_cache else 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = cores()
    params.no_extra_bufts = True  # repacked weights load slower and read prompts slower here
    params.warmup = False
    params.verbosity = 0
    started = time.monotonic()
    try:
        server = LocalServer(plan, xllamacpp.Server(params))
    except RuntimeError as fault:
        raise HopsmithError(
            f"llama.cpp can't load {plan.weights.path.name} ({fault}): name another GGUF file with "
            "--lm-file, or set a smaller HOPSMITH_WINDOW"
        ) from fault
    while not _answers(server):
        if time.monotonic() - started > PATIENCE:
            server.close()
            raise HopsmithError(
                f"the local LM did not answer within {PATIENCE:.0f} s of starting: free memory or "
                "cores, or name another LM with --lm"
            )
        time.sleep(0.05)
    say(
        f"local LM {plan.weights.name} loaded in {time.monotonic() - started:.1f} s "
        f"({plan.slots} slot{'s' if plan.slots > 1 else ''} of {plan.window} tokens, "
        f"{cores()} threads)"
    )
    return server


def _answers(server: LocalServer) -> bool:
    try:
        return server.get("/health").get("status") == "ok"
    except (OSError, HTTPException):
        return False
