"""Documents that come again: which of their pieces are new, and which of the index's are gone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING

from retrieval.documents.folder import DocumentCorpus
from retrieval.errors import CorpusError
from retrieval.passage import Passage

if TYPE_CHECKING:
    from retrieval.index import OpenIndex


def renewed(index: OpenIndex, corpus: DocumentCorpus, gone: list[int]) -> Iterator[Passage]:
    """The corpus's pieces that the index does not have as they are. Once a document was gone
    through, ``gone`` holds the numbers of its pieces in the index that it no longer has.

    A document is known by its source; those of the index that the corpus lacks, or can't read,
    stay. Raises ``CorpusError`` for an id that a passage of another source has.
    """
    owners: dict[str, str | None] = {}
    there: dict[str, dict[bytes, int]] = defaultdict(dict)
    for number in index.alive_numbers:
        passage = index.passage(int(number))
        source = passage.metadata.get("source")
        owners[passage.id] = source
        if isinstance(source, str):
            there[source][_digest(passage)] = int(number)
    for source, pieces in groupby(corpus, key=lambda piece: str(piece.metadata["source"])):
        before = there.pop(source, {})
        for piece in pieces:
            if owners.get(piece.id, source) != source:
                raise CorpusError(
                    f"{source} would get the id {piece.id!r}, which another passage of the index "
                    "has: rename the file, or delete that passage first"
                )
            if before.pop(_digest(piece), None) is None:
                yield piece
        gone += before.values()


def _digest(passage: Passage) -> bytes:
    row = [passage.id, passage.title, passage.text, dict(passage.metadata)]
    return sha256(json.dumps(row, sort_keys=True).encode()).digest()
