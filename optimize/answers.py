"""AnswerStore: rows by (question id, fingerprint), on disk as they come, so that nothing that was
answered is paid for twice, across trials, stages and kills."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from optimize.errors import RunError
from optimize.lines import whole_lines
from optimize.rows import PredictionRow

Key = tuple[str, str]


class AnswerStore:
    """An append-only JSONL file of rows, read once at opening.

    A line that a kill cut short is dropped (and cut off the file); any other line that is no row
    raises ``RunError`` with file and line. Thread-safe; two threads that want the same key wait
    for one flight. Several processes may append to one file (each line is one write), each seeing
    what the others wrote when it opened the file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._rows: dict[Key, PredictionRow] = {}
        self._flights: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        for number, line in whole_lines(path):
            try:
                row = PredictionRow.model_validate_json(line)
            except ValidationError as fault:
                first = fault.errors()[0]
                raise RunError(
                    f"{path}:{number} is no prediction row ({first['msg']}): the file was written "
                    "by another version or by hand; move it away to start anew"
                ) from fault
            self._rows[row.id, row.fingerprint] = row

    def get(self, question: str, fingerprint: str) -> PredictionRow | None:
        return self._rows.get((question, fingerprint))

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, fingerprint: str | None = None) -> Iterator[PredictionRow]:
        """Rows in the order in which they were written."""
        for (_, mark), row in list(self._rows.items()):
            if fingerprint in (None, mark):
                yield row

    def put(self, row: PredictionRow) -> None:
        """Keep a row, on disk before this returns. The same key again replaces it."""
        line = row.model_dump_json() + "\n"
        with self._lock:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab") as file:
                    file.write(line.encode())
                    file.flush()
                    os.fsync(file.fileno())
            self._rows[row.id, row.fingerprint] = row

    def answered(
        self, question: str, fingerprint: str, ask: Callable[[], PredictionRow]
    ) -> tuple[PredictionRow, bool]:
        """The row of this key, and whether it was known before: asked for at most once, whoever
        wants it. A row that failed is asked again."""
        key = (question, fingerprint)
        with self._lock:
            flight = self._flights.setdefault(key, threading.Lock())
        with flight:
            row = self._rows.get(key)
            if row is not None and row.stop_reason != "error":
                return row, True
            row = ask()
            self.put(row)
            return row, False
