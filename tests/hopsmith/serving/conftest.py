"""A real server in this process: its own event loop in a thread, an LM that follows a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from benchmarks import Benchmark
from benchmarks.scripted import ScriptedAdapter, stand_in
from hopsmith.serving.app import create_app
from hopsmith.serving.catalogue import Canary, Catalogue
from hopsmith.serving.journal import Journal
from hopsmith.serving.limits import Limits
from hopsmith.serving.metrics import Metrics
from hopsmith.serving.pipelines import MethodSource
from hopsmith.serving.server import address, listen
from hopsmith.serving.service import Service
from programs.step import ROLE_LMS
from retrieval import Retriever

Script = Callable[[Any, Mapping[str, Any]], Any]


def scripted(signature: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Two hops for any question: the second asks about the first one's answer."""
    if "sub_questions" in signature.output_fields:
        return {"kind": "bridge", "sub_questions": ["Who founded it?", "Where is {answer_1}?"]}
    if "conversation" in signature.input_fields:
        return {"question": f"{inputs['message']} (of {inputs['conversation'][0]})"}
    return {"answer": "Ada Quill" if "founded" in inputs["question"] else "Tamsin"}


def context_of(script: Script) -> Callable[[], Mapping[str, Any]]:
    return lambda: {
        "lm": stand_in("scripted/lm"),
        "adapter": ScriptedAdapter(script),
        "disable_history": True,
        ROLE_LMS: {},
    }


@dataclass
class Live:
    """A server under test."""

    url: str
    service: Service
    client: httpx.Client
    stop: Callable[[], None]
    """Tell it to stop; returns at once."""

    def answers(self) -> bool:
        """Whether a new client is let in."""
        try:
            return httpx.get(f"{self.url}/healthz", verify=False).status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, question: str = "Where was its founder born?", **more: Any) -> httpx.Response:
        return self.client.post("/v1/answer", json={"question": question, **more})


def make_service(
    retriever: Retriever,
    script: Script = scripted,
    *,
    methods: Mapping[str, str] | None = None,
    sources: Any = None,
    limits: Limits | None = None,
    journal: Journal | None = None,
    canary: Canary | None = None,
    reopen: Callable[[str | None], Retriever] | None = None,
    **more: Any,
) -> Service:
    limits = limits or Limits()
    metrics = Metrics()
    names = methods or {"main": "decompose"}
    catalogue = Catalogue(
        sources or [MethodSource(n, method, context_of(script)) for n, method in names.items()],
        reopen or (lambda engine: retriever),
        seconds=limits.seconds,
        canary=canary,
        told=lambda seconds: metrics.stage("retrieval", seconds),
    )
    return Service(catalogue, limits, metrics, journal, **more)


@contextmanager
def live(service: Service, **options: Any) -> Iterator[Live]:
    """Serve until the block ends."""
    bound = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        create_app(service, **options), log_config=None, access_log=False, lifespan="on"
    )
    server = uvicorn.Server(config)
    up = threading.Event()
    real = server.startup

    async def startup(sockets: Any = None) -> None:
        await real(sockets)
        up.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])), daemon=True)
    thread.start()
    assert up.wait(10)
    url = address(bound)
    try:
        with httpx.Client(base_url=url, timeout=20, verify=False) as client:
            yield Live(url, service, client, lambda: setattr(server, "should_exit", True))
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def serve(words: Retriever) -> Iterator[Callable[..., Live]]:
    """``serve(script, …)`` starts a server over the word retriever; it stops with the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(
            script: Script = scripted,
            *,
            token: str | None = None,
            admin_token: str | None = None,
            retriever: Retriever | None = None,
            **more: Any,
        ) -> Live:
            service = make_service(retriever or words, script, **more)
            return stack.enter_context(live(service, token=token, admin_token=admin_token))

        yield start


@pytest.fixture
def journal_folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def scripted_context() -> dict[str, Any]:
    """Keys for ``dspy.context`` with an LM that follows the script."""
    return dict(context_of(scripted)())


@pytest.fixture
def questions(world: Benchmark) -> list[str]:
    return [q.question for q in world.questions["dev"]]
