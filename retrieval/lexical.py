"""BM25 over an index's live passages, by bm25s (memory-mapped)."""

from __future__ import annotations

import copy
import itertools
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.errors import undamaged

K1 = 1.5
B = 0.75
WORD = r"(?u)\b\w+\b"
"""Words of one letter or digit count, as in "iPhone 7"; bm25s leaves them out by default."""
CHUNK = 8192
"""Texts tokenised at once: bounds the memory of a build."""
WORDLESS = "wordless"
"""Marks an index of texts without a word. An empty folder would not do: one that is being removed
is empty for a moment, and a reader must not take it for an index."""


def tokenise(texts: Sequence[str]) -> list[list[str]]:
    """Lower-cased, English stop words out, stemmed (Snowball)."""
    import bm25s
    import Stemmer

    tokens: list[list[str]] = bm25s.tokenize(
        list(texts),
        stopwords="en",
        stemmer=Stemmer.Stemmer("english"),
        token_pattern=WORD,
        return_ids=False,
        show_progress=False,
    )
    return tokens


def build_lexical(texts: Iterable[str], folder: Path) -> None:
    """Index texts in order and save to a new folder."""
    import bm25s

    vocabulary: dict[str, int] = {}
    documents: list[array[int]] = []
    stream = iter(texts)
    while chunk := list(itertools.islice(stream, CHUNK)):
        for tokens in tokenise(chunk):
            ids = (vocabulary.setdefault(token, len(vocabulary)) for token in tokens)
            documents.append(array("i", ids))
    if not vocabulary:
        folder.mkdir(parents=True)
        (folder / WORDLESS).touch()
        return
    model = bm25s.BM25(k1=K1, b=B)
    model.index((documents, vocabulary), show_progress=False)
    model.save(str(folder), show_progress=False)


class Lexical:
    """A saved BM25 index; ``numbers[i]`` is the passage number of its i-th text. Raises
    ``FileNotFoundError`` when files of it are gone, ``IndexFault`` when they are damaged."""

    _kept: Any = None

    def __init__(self, folder: Path, numbers: Any) -> None:
        import bm25s

        self.numbers = numbers
        wordless = (folder / WORDLESS).is_file()
        with undamaged(folder):
            self._model = None if wordless else bm25s.BM25.load(str(folder), mmap=True)

    def only(self, alive: Any) -> Lexical:
        """The same over the passages alone whose number ``alive`` marks; words weigh as before."""
        narrow = copy.copy(self)
        narrow._kept = alive[self.numbers]
        return narrow

    def top(self, tokens: Sequence[str], n: int) -> tuple[Any, Any]:
        """Numbers and scores of the ``n`` best passages with a score above zero, best first,
        equal scores by number."""
        known = [t for t in tokens if self._model is not None and t in self._model.vocab_dict]
        if self._model is None or not known or n < 1:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        scores = np.asarray(self._model.get_scores(known))
        if self._kept is not None:
            scores = np.where(self._kept, scores, 0)
        places = best(scores, n)
        places = places[scores[places] > 0]
        return self.numbers[places], scores[places]


def best(scores: Any, n: int) -> Any:
    """Places of the ``n`` highest scores, best first, equal ones by place."""
    if n < len(scores):
        cut = np.partition(scores, len(scores) - n)[len(scores) - n]
        places = np.flatnonzero(scores >= cut)
    else:
        places = np.arange(len(scores))
    return places[np.lexsort((places, -scores[places]))][:n]
