"""``DIR/qdrant.json``: the small folder that opens a collection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from retrieval.errors import IndexFault

ENGINE = "qdrant"
NAME = "qdrant.json"
NEXT = "qdrant.next.json"
"""The manifest of an index that is being built to replace the one that is there."""
FORMAT = 1


class QdrantManifest(BaseModel):
    """``DIR/qdrant.json``: where a collection is, and what an index must know of itself."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    url: str
    collection: str
    encoder: dict[str, Any]
    checkpoint: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    average_words: float
    """Mean words of a passage when the collection was built: BM25's length norm."""
    cut: dict[str, int] | None = None
    """How documents were cut into passages."""
    numbered: int = 0
    """The next passage's number. Points that have it or a larger one are of a change that has not
    ended, and no search finds them."""
    passages: int = 0
    corpus_hash: str = ""
    replaces: str | None = None
    """The collection that this one takes the place of, until that is dropped."""
    ready: bool = False
    """False from the first passage to the last: a build that was cut short goes on."""

    @classmethod
    def read(cls, folder: Path, name: str = NAME) -> QdrantManifest:
        """Raises ``IndexFault`` naming the mend."""
        try:
            found = cls.model_validate_json((folder / name).read_text())
        except (OSError, ValueError) as fault:
            raise IndexFault(
                f"{folder / name} can't be read ({type(fault).__name__}): index the corpus again"
            ) from fault
        if found.format != FORMAT:
            raise IndexFault(
                f"{folder / name} has format {found.format}, this version reads {FORMAT}: index "
                "the corpus again"
            )
        return found

    def write(self, folder: Path, name: str = NAME) -> None:
        """Atomically."""
        making = folder / f".{name}.{os.getpid()}"
        making.write_text(self.model_dump_json(indent=1) + "\n")
        os.replace(making, folder / name)


def is_qdrant(folder: Path | str) -> bool:
    """Whether an index folder names a collection."""
    return (Path(folder) / NAME).is_file()
