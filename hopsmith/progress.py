"""Progress on stderr: bars with rate and time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from retrieval.documents import DocumentCorpus

console = Console(stderr=True)


@contextmanager
def passages_bar(
    total: int | None, label: str = "encoding", corpus: object = None
) -> Iterator[Callable[[int, int], None]]:
    """For ``build_index`` and extraction: told (done, total). Names the document of ``corpus`` that
    is read."""
    with _bar("passages/s") as bar:
        task = bar.add_task(label, total=total, rate="")

        def tell(done: int, of: int) -> None:
            bar.update(task, description=label, completed=done, total=of, rate=_rate(bar, task))

        def reading(source: str) -> None:
            bar.update(task, description=f"reading {escape(source[-40:])}")

        if isinstance(corpus, DocumentCorpus):
            corpus.reading = reading
        yield tell
        bar.update(task, description=label)


@contextmanager
def questions_bar(label: str, total: int) -> Iterator[Callable[[int, int, Any], None]]:
    """For ``evaluate``: told (done, total, row)."""
    with _bar("questions/s") as bar:
        task = bar.add_task(label, total=total, rate="")

        def tell(done: int, of: int, row: Any) -> None:
            bar.update(task, completed=done, total=of, rate=_rate(bar, task))

        yield tell


def _bar(unit: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} " + unit),
        TextColumn("·"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


def _rate(bar: Progress, task: Any) -> str:
    speed = bar.tasks[task].finished_speed or bar.tasks[task].speed
    return f"{speed:.1f}" if speed else ""
