"""Cutting a document into passages: never across headings, between sentences where it can be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from retrieval.documents.document import Block
from retrieval.errors import CorpusError

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
"""A Chinese, Japanese or Korean letter counts as a word."""
_STOP = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”）]*\s*|\n+")
_ENDED = re.compile(r"[.!?…:;。！？][\"'”’»)\]」』”）]*$")
TAIL = 0.25
"""A last piece of less than this share of the length goes to the one before it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How long passages are, in words.

    The defaults come from documents of 20 paragraphs each without a heading, searched by BM25: the
    share of the gold paragraphs' text among the first passages, up to 600 words of them, so that
    long passages have no advantage; 200 dev questions of HotpotQA (1,971 paragraphs) and 200 of
    MuSiQue (3,141), ± 0.04. Of 40, 60, 80, 100, 120, 160, 200 and 300 words without overlap:
    HotpotQA 0.525, 0.628, 0.625, 0.611, 0.583, 0.532, 0.509, 0.454; MuSiQue 0.282, 0.335, 0.349,
    0.368, 0.360, 0.367, 0.335, 0.308. Of 100 words with 20 of overlap: 0.619 and 0.371, for a tenth
    more passages; with 40: 0.638 and 0.376, for two fifths more. (Recall@5 alone rises with length:
    at 100 words 0.556 and 0.344, with 20 of overlap 0.579 and 0.349, at 300 words 0.660 and 0.447,
    by reading three times as much.)
    """

    words: int = 100
    overlap: int = 20
    """Words of the piece before that a piece repeats, at most: whole sentences."""

    def __post_init__(self) -> None:
        if not 10 <= self.words <= 10_000:
            raise CorpusError(f"passages may have 10 to 10,000 words, not {self.words}")
        if not 0 <= self.overlap <= self.words // 2:
            raise CorpusError(
                f"the overlap may be 0 to {self.words // 2} words (half of a passage), not "
                f"{self.overlap}"
            )


@dataclass(frozen=True, slots=True)
class Piece:
    """What becomes a passage."""

    text: str
    headings: tuple[str, ...]
    page: int | None
    last_page: int | None


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    words: int
    page: int | None
    glue: str
    """What parts it from the sentence before; a line break where a block begins."""


def cut_blocks(blocks: Sequence[Block], cut: Cut) -> Iterator[Piece]:
    """The pieces in order. A text that grows at its end keeps its earlier pieces."""
    for headings, section in groupby(blocks, key=lambda block: block.headings):
        sentences = [s for block in section for s in _sentences(block, cut.words)]
        for group in _packed(sentences, cut):
            pages = [s.page for s in group if s.page is not None]
            first, last = (pages[0], pages[-1]) if pages else (None, None)
            yield Piece(_joined(group), headings, first, last)


def words_in(text: str) -> int:
    """How long a text is."""
    return len(_WORD.findall(text))


def _sentences(block: Block, most: int) -> Iterator[_Sentence]:
    """A block's sentences; one longer than ``most`` words is cut between words."""
    text, glue, behind = block.text, "\n", 0
    for start, end in _spans(text, most):
        kept = text[start:end].strip()
        if not kept:
            continue
        begin = text.index(kept, start)
        if behind:
            gap = text[behind:begin]
            glue = "\n" if "\n" in gap else gap[:1]
        yield _Sentence(kept, words_in(kept), block.page, glue)
        behind = begin + len(kept)


def _spans(text: str, most: int) -> Iterator[tuple[int, int]]:
    stops = [m.end() for m in _STOP.finditer(text) if not text[m.end() : m.end() + 1].islower()]
    for start, end in pairwise([0, *stops, len(text)]):
        words = [m.start() for m in _WORD.finditer(text, start, end)]
        yield from pairwise([start, *words[most::most], end])


def _packed(sentences: Sequence[_Sentence], cut: Cut) -> list[list[_Sentence]]:
    groups: list[list[_Sentence]] = []
    again: list[_Sentence] = []
    fresh: list[_Sentence] = []
    for sentence in sentences:
        if fresh and _words(again) + _words(fresh) + sentence.words > cut.words:
            groups.append(again + fresh)
            again, fresh = _tail(groups[-1], min(cut.overlap, cut.words - sentence.words)), []
        fresh.append(sentence)
    if groups and _words(fresh) < TAIL * cut.words:
        groups[-1].extend(fresh)
    elif fresh:
        groups.append(again + fresh)
    return groups


def _tail(group: Sequence[_Sentence], words: int) -> list[_Sentence]:
    """The last whole sentences of a group that have no more than so many words."""
    kept: list[_Sentence] = []
    for sentence in reversed(group):
        if not 0 < sentence.words <= words:
            break
        words -= sentence.words
        kept.insert(0, sentence)
    return kept


def _words(group: Sequence[_Sentence]) -> int:
    return sum(sentence.words for sentence in group)


def _joined(group: Sequence[_Sentence]) -> str:
    """The text of a group. A sentence that a page's end breaks goes on without a line break."""
    out = group[0].text
    for before, sentence in pairwise(group):
        broken = before.page != sentence.page and not _ENDED.search(before.text)
        out += (" " if broken else sentence.glue) + sentence.text
    return out
