"""Linked passages of a corpus: pairs that a question may lead through."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from retrieval import Passage, Retriever

Kind = Literal["bridge", "comparison"]
LONGEST = 8
"""Words of the longest title that is looked for."""
NEIGHBOURS = 5
_WORD = re.compile(r"\w+(?:['’.-]\w+)*")


@dataclass(frozen=True)
class Pair:
    """Two passages and what links them."""

    kind: Kind
    first: Passage
    second: Passage
    link: str
    """The second one's title, which the first one names; empty for a comparison."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.first.id}:{self.second.id}"


def pairs(
    passages: Iterable[Passage], retriever: Retriever, kinds: Sequence[Kind], seed: int = 0
) -> Iterator[Pair]:
    """Pairs in an order of the seed, kinds in turn; each passage leads to one pair of a kind.

    Bridges are passages that name another's title (a title that no second passage has);
    comparisons are a passage and its nearest neighbour that neither names nor is named.
    """
    every = list(passages)
    random.Random(seed).shuffle(every)
    titles = Titles(every)
    sources = [
        (_bridges(every, titles) if kind == "bridge" else _comparisons(every, titles, retriever))
        for kind in kinds
    ]
    while sources:
        for source in list(sources):
            found = next(source, None)
            if found is None:
                sources.remove(source)
            else:
                yield found


class Titles:
    """Passages by title, and the titles that a text names."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        found: dict[tuple[str, ...], list[Passage]] = {}
        for passage in passages:
            words = _words(passage.title)
            if words and (len(words) > 1 or len(passage.title) > 3):
                found.setdefault(words, []).append(passage)
        self.by_words = {w: found[w][0] for w in found if len(found[w]) == 1}

    def named(self, passage: Passage) -> list[Passage]:
        """Other passages whose title stands in this one's text, longest title first."""
        words = _WORD.findall(passage.text)
        own = _words(passage.title)
        found: dict[str, tuple[int, Passage]] = {}
        for start in range(len(words)):
            if not words[start][:1].isupper() and not words[start][:1].isdigit():
                continue
            for length in range(min(LONGEST, len(words) - start), 0, -1):
                key = tuple(w.casefold() for w in words[start : start + length])
                other = self.by_words.get(key)
                if other is not None and other.id != passage.id and not _within(key, own):
                    found.setdefault(other.id, (length, other))
                    break
        return [p for _, p in sorted(found.values(), key=lambda f: (-f[0], f[1].id))]


def _bridges(passages: Sequence[Passage], titles: Titles) -> Iterator[Pair]:
    for passage in passages:
        for other in titles.named(passage)[:1]:
            yield Pair("bridge", passage, other, other.title)


def _comparisons(
    passages: Sequence[Passage], titles: Titles, retriever: Retriever
) -> Iterator[Pair]:
    paired: set[str] = set()
    for passage in passages:
        if passage.id in paired or not passage.title:
            continue
        query = f"{passage.title} {' '.join(passage.text.split()[:20])}"
        (found,) = retriever.search([query], NEIGHBOURS)
        linked = {p.id for p in titles.named(passage)}
        for other in found:
            if other.id in (passage.id, *paired, *linked) or not other.title:
                continue
            if other.title == passage.title or passage in titles.named(other):
                continue
            paired |= {passage.id, other.id}
            yield Pair("comparison", passage, other, "")
            break


def _words(title: str) -> tuple[str, ...]:
    return tuple(w.casefold() for w in _WORD.findall(title))


def _within(key: tuple[str, ...], own: tuple[str, ...]) -> bool:
    n = len(key)
    return any(own[i : i + n] == key for i in range(len(own) - n + 1))
