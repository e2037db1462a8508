"""Journal: questions and thumbs kept on disk, for the next compile; nothing is kept unasked.

A folder with ``requests-DATE.jsonl`` and ``feedback-DATE.jsonl``, readable by the server's user
alone. Several servers may share it: each line is one write. A disk that is full loses lines, never
an answer, and writing goes on when there is room again.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import logging
import os
import random
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hopsmith.errors import HopsmithError
from hopsmith.serving.citations import support
from optimize.rows import HopRow, hop_rows
from programs.evidence import Evidence

RECENT = 512
"""Answers remembered in memory, so that a thumb can name one that was not sampled."""
Redact = Callable[[dict[str, Any]], "dict[str, Any] | None"]
"""Given a record as JSON values, what may be kept of it; None for nothing."""

log = logging.getLogger("hopsmith.serving")


class RequestRecord(BaseModel):
    """A line of ``requests-DATE.jsonl``."""

    model_config = ConfigDict(extra="allow")

    id: str
    time: str
    pipeline: str
    fingerprint: str
    corpus_hash: str | None = None
    question: str
    answer: str | None
    stop_reason: str
    hops: list[HopRow] = Field(default_factory=list)
    support: dict[int, str] = Field(default_factory=dict)
    """By hop: the id of the passage that its answer rests on."""
    cited: list[str] = Field(default_factory=list)
    seconds: float = 0.0


class FeedbackRecord(BaseModel):
    """A line of ``feedback-DATE.jsonl``."""

    model_config = ConfigDict(extra="allow")

    id: str
    """Of the request."""
    time: str
    thumb: Literal["up", "down"]
    answer: str | None = None
    comment: str | None = None


class Journal:
    """Thread-safe."""

    def __init__(self, folder: Path, sample: float = 1.0, redact: Redact | None = None) -> None:
        """``sample`` is the share of requests that are kept, 0 to 1; one that gets a thumb is kept
        too. Raises ``HopsmithError`` when the folder can't be written to."""
        self.folder = folder
        self.sample = sample
        self.redact = redact
        self.fault: str | None = None
        """Why the latest line could not be written."""
        self.lost = 0
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, tuple[RequestRecord, bool]] = OrderedDict()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as fault:
            raise HopsmithError(f"--log-dir {folder}: {fault.strerror or fault}") from fault

    def request(self, record: RequestRecord) -> None:
        """Remember a request, and keep it if it is sampled."""
        chosen = random.random() < self.sample
        kept = chosen and self._write("requests", record)
        with self._lock:
            self._recent[record.id] = (record, kept)
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)

    def feedback(self, record: FeedbackRecord) -> tuple[bool, bool]:
        """Keep a thumb, and the request that it is about if that is still remembered. Returns
        whether each is on disk now (of a request that another server answered: unknown, False)."""
        written = self._write("feedback", record)
        with self._lock:
            request, kept = self._recent.get(record.id, (None, False))
        if written and request is not None and not kept:
            kept = self._write("requests", request)
            with self._lock:
                if record.id in self._recent:
                    self._recent[record.id] = (request, kept)
        return written, kept

    def _write(self, kind: str, record: BaseModel) -> bool:
        row: dict[str, Any] | None = record.model_dump(mode="json")
        if self.redact is not None:
            try:
                row = self.redact(dict(row or {}))
            except Exception as fault:
                self._failed(f"the redaction hook failed: {type(fault).__name__}")
                return False
            if row is None:
                return False
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        path = self.folder / f"{kind}-{record.time[:10]}.jsonl"  # type: ignore[attr-defined]
        try:
            with self._lock:
                append(path, line)
        except OSError as fault:
            self._failed(f"{fault.strerror or fault}")
            return False
        if self.fault is not None:
            log.warning("the journal is written again")
        self.fault = None
        return True

    def _failed(self, why: str) -> None:
        self.lost += 1
        if self.fault != why:
            log.error("the journal loses lines: %s", why)
        self.fault = why


def append(path: Path, line: bytes) -> None:
    """Append a line whole or not at all. Raises ``OSError``."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        before = os.fstat(handle).st_size
        written = 0
        try:
            written = os.write(handle, line)
            if written < len(line):
                raise OSError(28, "No space left on device")
        except OSError:
            if written:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, before)
            raise
    finally:
        os.close(handle)


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def request_record(
    *, id: str, question: str, answer: str | None, evidence: Evidence, **more: Any
) -> RequestRecord:
    """A question's record, with the passage that each hop's answer rests on."""
    found = {hop.id: p.id for hop in evidence.hops if (p := support(hop)) is not None}
    return RequestRecord(
        id=id,
        time=now(),
        question=question,
        answer=answer,
        hops=hop_rows(evidence),
        support=found,
        **more,
    )


def redaction(name: str | None) -> Redact | None:
    """``module:function`` as what it names. Raises ``HopsmithError``."""
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        hook: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as fault:
        raise HopsmithError(f"--redact {name}: {fault}; it is MODULE:FUNCTION") from fault
    if not callable(hook):
        raise HopsmithError(f"--redact {name} is no function")
    checked: Redact = hook
    return checked
