"""Journal: embeddings that were paid for, kept beside an index until it is written, so that a build
that broke off goes on where it stopped."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

AT_ONCE = 500
"""Keys in one query: SQLite's bound on variables is 999 in older versions."""


class Journal:
    """Vectors (float16) by text, of one embedder, in an SQLite file. Several processes may write
    it at once."""

    def __init__(self, place: Path, embedder: str) -> None:
        self.place = place
        self.embedder = embedder

    def read(self, texts: Sequence[str]) -> dict[str, Any]:
        """Of these texts those that were embedded before."""
        if not self.place.exists():
            return {}
        keys = {self._key(text): text for text in texts}
        wanted = list(keys)
        found: dict[str, Any] = {}
        with closing(self._open()) as db:
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = db.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some)
                found |= {keys[k]: np.frombuffer(v, np.float16) for k, v in rows}
        return found

    def write(self, vectors: Mapping[str, Any]) -> None:
        """Durably, in one step."""
        rows = [(self._key(t), v.astype(np.float16).tobytes()) for t, v in vectors.items()]
        with closing(self._open()) as db, db:
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def forget(self) -> None:
        """Remove it: the index has what it held."""
        self.place.unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        self.place.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.place, timeout=60)
        db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
        return db

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.embedder}\n{text}".encode("utf-8", "surrogatepass")).digest()
