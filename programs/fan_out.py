"""fan_out: independent work of one question, at once, with the results in order.

Each task runs in a copy of the caller's context, so that ``dspy.context`` (the scope with its
meter included) and trace callbacks hold in it. Against ``dspy.Parallel``: results and failures
come back in task order and as they were raised; nothing is resubmitted when it is slow; usage
trackers are shared, not copied; and each task traces apart, the traces joined in task order, so
that the demos that an optimizer cuts from them are the same from run to run.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import dspy

from programs.scope import current

T = TypeVar("T")
MAX_THREADS = 16
WIDTH = "hopsmith_width"
"""Key in ``dspy.settings``: the most tasks of one question at once. The local LM serves one request
at a time, and which of two comes first would change what its prefix cache holds, and with it the
last bits of an answer: with a width of 1, one seed gives the same numbers twice."""


def width() -> int:
    """The most tasks at once."""
    return int(dspy.settings.get(WIDTH) or MAX_THREADS)


def fan_out(
    tasks: Sequence[Callable[[], T]],
    *,
    calls_each: int = 2,
    keep: Callable[[int, T], object] | None = None,
) -> list[T]:
    """Run the tasks at once and return their results in order; a single one runs inline.

    ``calls_each`` is the most LM calls that one task makes. When the meter can't grant that many
    to all, the tasks run one after another, so that which of them goes without is no race.
    The first exception, in task order, is raised after all tasks have ended. ``keep`` is given
    each task's place and result, in order and by the caller's own thread, also those that an
    exception would lose.
    """
    if not tasks:
        return []
    scope = current()
    scarce = scope is not None and scope.meter.left < calls_each * len(tasks)
    if len(tasks) == 1 or width() == 1 or scarce:
        results = []
        for place, task in enumerate(tasks):
            results.append(task())
            if keep is not None:
                keep(place, results[-1])
        return results

    tracing = dspy.settings.trace is not None
    traces: list[list[Any]] = [[] for _ in tasks]

    def traced(i: int) -> T:
        if not tracing:
            return tasks[i]()
        with dspy.context(trace=traces[i]):
            return tasks[i]()

    with ThreadPoolExecutor(max_workers=min(len(tasks), width())) as pool:
        futures = [
            pool.submit(contextvars.copy_context().run, traced, i) for i in range(len(tasks))
        ]
    if tracing:
        for trace in traces:
            dspy.settings.trace.extend(trace)
    for place, future in enumerate(futures):
        if keep is not None and future.exception() is None:
            keep(place, future.result())
    return [future.result() for future in futures]
