"""One torch thread for small pieces of work. Torch's threads spin while they wait for each other:
where something else wants the cores (a local LM, other workers), one query took ten times as long
with two threads as with one, and on idle cores hardly less."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class OneThread:
    """A block in which the calling thread's torch operations use one thread. Blocks may overlap in
    several threads: the number that was set before the first is put back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def __enter__(self) -> None:
        import torch

        with self._lock:
            if not self._inside:
                self._before = torch.get_num_threads()
            self._inside += 1
            torch.set_num_threads(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import torch

        with self._lock:
            self._inside -= 1
            torch.set_num_threads(self._before)


one_thread = OneThread()


def in_threads(work: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """``work`` for each of the arguments taken together, on as many threads as there are cores."""
    jobs = len(arguments[0])
    workers = min(jobs, os.cpu_count() or 1)
    if workers < 2:
        return list(map(work, *arguments))
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(work, *arguments))
