"""A question as server-sent events: each hop as it happens, then the answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import StreamingResponse

from hopsmith.serving.asking import Asked
from hopsmith.serving.problems import Problem
from hopsmith.serving.schema import Answered, HopEvent, PassageOut, hop_row
from hopsmith.serving.service import Service

PULSE = 15.0
"""Seconds after which a comment is sent, so that nothing on the way takes the line for dead."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Event = tuple[str, Any]
"""A name and its value: JSON values, ``Answered`` for ``answer``, a ``Problem`` for ``error``."""


def sse(event: str, data: Mapping[str, Any]) -> str:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def stream(body: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(body, media_type="text/event-stream", headers=HEADERS)


async def happenings(service: Service, asked: Asked) -> AsyncGenerator[Event | None, None]:
    """A question's events in order, the last of them ``answer`` or ``error``; None when nothing
    has happened for a while. Closing this cancels the question."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event] = asyncio.Queue()

    def tell(event: str, values: Mapping[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(queue.put_nowait, (event, values))

    asked.listener = tell
    sent: set[str] = set()
    task = asyncio.create_task(service.answer(asked))
    task.add_done_callback(lambda _: queue.put_nowait(("over", {})))
    try:
        while True:
            try:
                event, values = await asyncio.wait_for(queue.get(), PULSE)
            except asyncio.TimeoutError:
                yield None
                continue
            if event == "over":
                yield end_of(task)
                return
            if event == "started":
                yield "start", {"id": asked.id, "pipeline": asked.served.about.model_dump()}
            elif event == "hop":
                yield "hop", hop_event(values, sent)
            elif event == "asking":
                yield "asking", dict(values)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Problem):
            await task


def end_of(task: asyncio.Task[Answered]) -> Event:
    fault = task.exception()
    if fault is None:
        return "answer", task.result()
    if isinstance(fault, Problem):
        return "error", fault
    return "error", Problem("internal", type(fault).__name__)


def hop_event(values: Mapping[str, Any], sent: set[str]) -> HopEvent:
    """A hop with those of its passages that were not sent before."""
    hop = values["hop"]
    fresh = [p for p in hop.passages if p.id not in sent]
    sent.update(p.id for p in fresh)
    return HopEvent(
        program=values["program"], hop=hop_row(hop), passages=[PassageOut.of(p) for p in fresh]
    )


async def begun(
    service: Service, asked: Asked
) -> tuple[Event | None, AsyncGenerator[Event | None, None]]:
    """The first event of a question and the others; while there is no event nothing has been
    sent, so that a question that isn't taken is refused with its status. Raises ``Problem``."""
    every = happenings(service, asked)
    first = await anext(every)
    if first is not None and first[0] == "error":
        await every.aclose()
        raise first[1]
    return first, every


async def lines(
    first: Event | None, rest: AsyncGenerator[Event | None, None]
) -> AsyncIterator[str]:
    """The body of ``/v1/answer/stream``."""
    async with contextlib.aclosing(rest):
        yield line(first)
        async for event in rest:
            yield line(event)


def line(event: Event | None) -> str:
    if event is None:
        return ": waiting\n\n"
    name, value = event
    data = value.to_json() if isinstance(value, Problem) else value
    return sse(name, data.model_dump() if isinstance(data, BaseModel) else data)


async def hung_up(request: Request) -> None:
    """Returns when the client has gone. The request's body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def while_connected(request: Request, service: Service, asked: Asked) -> Answered:
    """Answer a question. When the client hangs up, it ends at its next LM call. Raises
    ``Problem``."""
    task = asyncio.create_task(service.answer(asked))
    gone = asyncio.create_task(hung_up(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Problem("gone", "nobody waits for the answer")
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Problem):
                await task
