"""One question under way: its place in line, its thread, its deadline, its end."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import dspy

from hopsmith.serving.conversation import CALLS as CONDENSING_CALLS
from hopsmith.serving.conversation import condense
from hopsmith.serving.limits import Admission, Limits
from hopsmith.serving.metrics import Metrics
from hopsmith.serving.pipelines import Served
from hopsmith.serving.problems import Problem
from hopsmith.serving.watched import IndexUnavailable
from programs import Cancelled, Ledger, Meter, OutOfBudget
from programs.evidence import Evidence, Hop, StopReason
from programs.faults import StopRun
from programs.program import CANCEL, DEADLINE, LISTENER
from retrieval import QueryError

GRACE = 0.25
"""Seconds past the deadline that a program has to end by itself."""
RETRY_LM = 5

log = logging.getLogger("hopsmith.serving")
Listener = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class End:
    """How a question ended."""

    answer: str | None
    stop_reason: StopReason
    evidence: Evidence
    ledger: Ledger
    seconds: float
    error: str | None = None
    cited: tuple[str, ...] = ()
    """Ids of passages that the program itself names."""


@dataclass(eq=False)
class Asked:
    """A question and what is known of it so far. Written by its threads, read by the loop."""

    served: Served
    question: str
    history: tuple[str, ...] = ()
    """What was said before the question, in order; the question then becomes one that stands alone
    when it is its turn."""
    caps: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 120.0
    listener: Listener | None = None
    """Told of each event, on the question's threads."""
    id: str = field(default_factory=lambda: f"q-{secrets.token_hex(8)}")
    started: float = field(default_factory=time.monotonic)
    cancel: threading.Event = field(default_factory=threading.Event)
    hops: dict[int, Hop] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def left(self) -> float:
        return self.started + self.seconds - time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def hear(self, event: str, values: Mapping[str, Any]) -> None:
        """What the program tells as it goes."""
        if event == "started":
            self.ledger = values["ledger"]
        elif event == "hop" and values["program"] == 0:
            self.hops[values["hop"].id] = values["hop"]
        if self.listener is not None:
            self.listener(event, values)

    def so_far(self) -> End:
        """The best answer that there is now: the latest of any hop."""
        hops = dict(self.hops)
        evidence = Evidence(hops[i] for i in sorted(hops))
        answer = evidence.best_answer()
        stop: StopReason = "budget" if answer is not None else "error"
        error = None if answer is not None else "the time was up before there was any answer"
        return End(answer, stop, evidence, self.ledger, self.elapsed, error)


class Desk:
    """Takes questions, as many at once as the limits allow."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self.admission = Admission(limits)
        self.under_way: set[Asked] = set()
        self._pool = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="question")

    async def ask(self, asked: Asked) -> End:
        """Answer a question. Raises ``Problem``. Cancelling this ends the question at its next LM
        call; its place is free when its thread has ended."""
        await self.admission.enter()
        self.metrics.stage("queue", asked.elapsed)
        began = time.monotonic()
        self.under_way.add(asked)
        future = asyncio.get_running_loop().run_in_executor(self._pool, answer, asked)

        def over(_: Any) -> None:
            self.under_way.discard(asked)
            self.admission.leave(time.monotonic() - began)

        future.add_done_callback(over)
        try:
            await asyncio.wait({future}, timeout=max(0.0, asked.left) + GRACE)
        except asyncio.CancelledError:
            asked.cancel.set()
            self.metrics.stops.labels(asked.served.name, "cancelled").inc()
            raise
        if not future.done():
            asked.cancel.set()
            return self.checked(asked, asked.so_far())
        end = future.result()
        if isinstance(end, Problem):
            self.metrics.errors.labels(end.kind).inc()
            raise end
        return self.checked(asked, end)

    def checked(self, asked: Asked, end: End) -> End:
        """Count an end. Raises ``Problem`` when it is none that a client can use: it failed, or
        found nothing while a hop's LM step failed."""
        self.metrics.answered(asked.served.name, end.evidence, end.stop_reason, end.ledger)
        broken = next((hop for hop in end.evidence.hops if hop.status == "error"), None)
        gave_up = end.answer is None and broken is not None
        if end.stop_reason != "error" and not gave_up:
            return end
        kind = "deadline" if asked.left <= 0 else "lm-unusable"
        self.metrics.errors.labels(kind).inc()
        from optimize.rows import hop_rows

        raise Problem(
            kind,
            end.error or (broken and broken.error) or "the question could not be answered",
            stop_reason="error",
            hops=[row.model_dump() for row in hop_rows(end.evidence)],
        )

    def close(self) -> None:
        """End what is still under way at its next LM call."""
        for asked in list(self.under_way):
            asked.cancel.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def answer(asked: Asked) -> End | Problem:
    """Run the program in this thread. Nothing is raised: a failure comes back as a problem."""
    served = asked.served
    keys = {
        CANCEL: asked.cancel,
        LISTENER: asked.hear,
        DEADLINE: max(asked.left, 1e-3),
        "trace": None,  # DSPy would keep the last 10,000 calls, prompts and all
    }
    try:
        with dspy.context(**{**served.context, **keys}):
            told = Ledger()
            if asked.history:
                meter = Meter(CONDENSING_CALLS, time.monotonic() + asked.left, asked.cancel)
                asked.question, told = condense(asked.history, asked.question, meter)
            prediction = served.capped(asked.caps)(question=asked.question)
            prediction.usage.merge(told)
    except StopRun as fault:
        log.error("%s: %s", asked.id, mend(fault))
        for lm in served.lms:
            lm.failed("the latest question found it failing")
        return Problem(
            "lm-unavailable",
            "the LM can't be reached or refuses to answer; the server's log names the mend",
            headers={"Retry-After": str(RETRY_LM)},
        )
    except Cancelled:
        return Problem("stopping", "the question was cancelled")
    except OutOfBudget:
        return asked.so_far()
    except IndexUnavailable as fault:
        log.error("%s: %s", asked.id, fault)
        return Problem(
            "index-unavailable",
            "the index can't be opened or searched; the server's log says why",
            headers={"Retry-After": str(RETRY_LM)},
        )
    except QueryError as fault:
        return Problem("invalid", str(fault))
    except BaseException as fault:
        log.error("%s failed: %s", asked.id, where(fault))
        return Problem(
            "internal", f"{type(fault).__name__}; the log tells where", instance=asked.id
        )
    for lm in served.lms:
        lm.answered()
    return End(
        answer=prediction.answer,
        stop_reason=prediction.stop_reason,
        evidence=prediction.evidence,
        ledger=prediction.usage,
        seconds=asked.elapsed,
        error=prediction.error,
        cited=tuple(prediction.get("cited") or ()),
    )


def mend(fault: BaseException) -> str:
    """A configuration fault's message less what the endpoint itself said (in brackets), which may
    quote a prompt."""
    return " ".join(re.sub(r"\(.*\)", "", " ".join(str(fault).split())).split())


def where(fault: BaseException) -> str:
    """A failure's class and the places it passed, without its message: that may quote a question or
    a passage."""
    import traceback

    frames = traceback.extract_tb(fault.__traceback__)
    places = " < ".join(f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in reversed(frames))
    return f"{type(fault).__name__} at {places}"
