"""How a server bears load: a scripted LM in one process, many clients in another.

The clients are ``FACTOR`` times as many as the server answers at once. Each asks, waits for the
answer or the 429, keeps away as long as ``Retry-After`` says (half to all of it, at random), and
asks again. What is measured is the server and its limits: the LM takes a fixed time and uses none
of the machine, the index is BM25.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

FACTOR = 4
ALONE = 40
"""Questions asked one after another before the load."""
P95_WITHIN = 1.3
GROWTH_WITHIN = 0.05
PATIENCE = 60.0
START_PATIENCE = 300.0
"""Seconds until the server is up, its imports included."""
QUESTION = "Where was the founder of firm {} born?"


@dataclass
class Load:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)
    """Of the requests that were answered, waiting for a turn included."""
    statuses: Counter[str] = field(default_factory=Counter)
    """How requests ended: by status, or by the client's failure."""
    wall: float = 0.0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def to_json(self) -> dict[str, Any]:
        answered = len(self.seconds)
        return {
            "answered": answered,
            "refused": self.statuses["429"],
            "lost": self.lost,
            "p50": round(self.percentile(0.5), 4),
            "p95": round(self.percentile(0.95), 4),
            "mean": round(statistics.fmean(self.seconds), 4),
            "per_second": round(answered / self.wall, 2),
        }

    @property
    def lost(self) -> int:
        """Requests that ended without an answer and without a 429."""
        return sum(n for status, n in self.statuses.items() if status not in ("200", "429"))


@dataclass(frozen=True)
class Report:
    """A bench's figures; memory in MiB of resident set."""

    concurrency: int
    clients: int
    lm_seconds: float
    method: str
    alone: Load
    loaded: Load
    memory: tuple[float, ...]
    """After the first quarter of the answers, and after each further quarter."""

    @property
    def ratio(self) -> float:
        return self.loaded.percentile(0.95) / self.alone.percentile(0.95)

    @property
    def growth(self) -> float:
        """From the first quarter's end to the last one's, as a share."""
        return self.memory[-1] / self.memory[0] - 1

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "concurrency": self.concurrency,
            "clients": self.clients,
            "lm_seconds": self.lm_seconds,
            "alone": self.alone.to_json(),
            "loaded": self.loaded.to_json(),
            "p95_ratio": round(self.ratio, 3),
            "memory_mib": [round(m, 1) for m in self.memory],
            "memory_growth": round(self.growth, 4),
            "no_request_lost": self.loaded.lost == 0,
            "p95_within": self.ratio <= P95_WITHIN,
            "memory_flat": self.growth <= GROWTH_WITHIN,
        }


def bench_serve(
    *,
    concurrency: int = 16,
    requests: int = 2000,
    lm_seconds: float = 0.2,
    method: str = "decompose",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Serve in a child process and load it from this one until ``requests`` were answered."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    with tempfile.TemporaryDirectory(prefix="hopsmith-bench-") as scratch:
        server = spawn.Process(
            target=serve_scripted,
            args=(there, scratch, method, concurrency, lm_seconds),
            daemon=True,
        )
        server.start()
        try:
            if not here.poll(START_PATIENCE):
                raise RuntimeError("the bench's server did not start")
            url = here.recv()
            pid = server.pid or 0
            alone, loaded, memory = asyncio.run(
                load(url, pid, FACTOR * concurrency, requests, progress)
            )
        finally:
            server.terminate()
            server.join(PATIENCE)
    return Report(
        concurrency, FACTOR * concurrency, lm_seconds, method, alone, loaded, tuple(memory)
    )


async def load(
    url: str, pid: int, clients: int, requests: int, progress: Callable[[int, int], None]
) -> tuple[Load, Load, list[float]]:
    """Ask one by one, then from many clients at once."""
    import httpx

    limits = httpx.Limits(max_connections=clients + 1)
    async with httpx.AsyncClient(
        base_url=url, timeout=PATIENCE, limits=limits, verify=False
    ) as client:
        alone, loaded, memory = Load(), Load(), list[float]()
        for n in range(ALONE):
            await one(client, n, alone)

        async def many() -> None:
            while len(loaded.seconds) < requests:
                after = await one(client, random.randrange(10**6), loaded)
                done = len(loaded.seconds)
                progress(min(done, requests), requests)
                while len(memory) < min(4, 4 * done // requests):
                    memory.append(resident(pid))
                if after:
                    await asyncio.sleep(after * random.uniform(0.5, 1.0))

        started = time.perf_counter()
        await asyncio.gather(*(many() for _ in range(clients)))
        loaded.wall = time.perf_counter() - started
        alone.wall = sum(alone.seconds)
    return alone, loaded, memory


async def one(client: Any, number: int, told: Load) -> float:
    """Ask once. Returns the seconds to keep away."""
    import httpx

    started = time.perf_counter()
    try:
        reply = await client.post("/v1/answer", json={"question": QUESTION.format(number)})
    except httpx.HTTPError as fault:
        told.statuses[type(fault).__name__] += 1
        return 1.0
    answered = reply.status_code == 200 and reply.json()["answer"]
    told.statuses[str(reply.status_code) if answered or reply.status_code != 200 else "empty"] += 1
    if answered:
        told.seconds.append(time.perf_counter() - started)
    return float(reply.headers.get("Retry-After", 0))


def resident(pid: int) -> float:
    """A process's resident set in MiB."""
    done = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


def scripted(signature: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Two hops for any question."""
    if "sub_questions" in signature.output_fields:
        return {"kind": "bridge", "sub_questions": ["Who founded it?", "Where is {answer_1}?"]}
    return {"answer": "Ada Quill" if "founded" in str(inputs.get("question")) else "Tamsin"}


def serve_scripted(
    told: Connection, scratch: str, method: str, concurrency: int, lm_seconds: float
) -> None:
    """The child: a server as ``hopsmith serve`` makes it, over an LM that follows a script."""
    from benchmarks import synthetic
    from benchmarks.scripted import ScriptedAdapter, stand_in
    from hopsmith.serving.app import create_app
    from hopsmith.serving.catalogue import Catalogue
    from hopsmith.serving.limits import Limits
    from hopsmith.serving.metrics import Metrics
    from hopsmith.serving.pipelines import MethodSource
    from hopsmith.serving.server import address, listen, log_to_stderr, run
    from hopsmith.serving.service import Service
    from programs.step import ROLE_LMS
    from retrieval import build_index, open_index

    log_to_stderr(quiet=True)
    folder = Path(scratch) / "index"
    build_index(synthetic(60, 200, seed=0).corpus, folder, engine="bm25")
    limits, metrics = Limits(concurrency=concurrency, queue=concurrency), Metrics()
    context = {
        "lm": stand_in("scripted/lm"),
        "adapter": ScriptedAdapter(scripted, latency=lm_seconds),
        "disable_history": True,
        ROLE_LMS: {},
    }
    catalogue = Catalogue(
        [MethodSource(method, method, lambda: context)],
        lambda engine: open_index(folder),
        seconds=limits.seconds,
        told=lambda seconds: metrics.stage("retrieval", seconds),
    )
    app = create_app(Service(catalogue, limits, metrics))
    bound = listen("127.0.0.1", 0)
    run(app, bound, lambda: told.send(address(bound)))
