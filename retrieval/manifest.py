"""manifest.json: what an index is. Replacing it is the one moment at which an index changes, so a
reader sees the old state or the new one, and a crash before it leaves the old one."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from retrieval.errors import IndexFault
from retrieval.writing import settle_names

FORMAT = 1
NAME = "manifest.json"


class SegmentEntry(BaseModel):
    """One segment folder below ``segments/``."""

    model_config = ConfigDict(extra="forbid")

    name: str
    passages: int
    tokens: int
    deleted: list[int] = Field(default_factory=list)
    """Places of passages that are gone."""


class Manifest(BaseModel):
    """No path in it: a moved folder still loads."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    engine: str
    encoder: dict[str, Any] | None
    """``CheckpointSpec.identity``; None for an index without vectors."""
    checkpoint: str | None = None
    """What to name the checkpoint by when the index is opened."""
    vectors: str = "float16"
    settings: dict[str, Any] = Field(default_factory=dict)
    segments: list[SegmentEntry]
    lexical: str | None = None
    """Folder of the BM25 index over the live passages."""
    passages: int
    corpus_hash: str
    cut: dict[str, int] | None = None
    """``documents.Cut`` of the documents that it was built from."""
    serial: int = 1
    """Counts changes; names new segments."""

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Raises ``IndexFault`` naming the mend when there is none that can be used."""
        path = folder / NAME
        if not path.is_file():
            what = "is no index" if folder.is_dir() else "does not exist"
            raise IndexFault(f"{folder} {what}: build one with hopsmith index CORPUS --out DIR")
        try:
            raw = json.loads(path.read_text())
            if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
                raise IndexFault(
                    f"{path} has format {raw.get('format')}, this version reads {FORMAT}: "
                    "index the corpus again"
                )
            return cls.model_validate(raw)
        except ValueError as fault:
            raise IndexFault(
                f"{path} can't be read ({type(fault).__name__}): index the corpus again"
            ) from fault

    def write(self, folder: Path) -> None:
        """Atomically."""
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{NAME}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(self.model_dump_json(indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / NAME)
            settle_names(folder)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
