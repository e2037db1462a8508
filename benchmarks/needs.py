"""Needs: how a gold chain may be asked for in words before its answers are known.

Control policies that split or rewrite questions ask for several hops at once ("the founder of the
answer to “who painted X”"). The oracle must write such texts and know them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations

from benchmarks.question import Question

JUST_FOUND = "the answer just found"
"""How a dependent need refers to its prerequisite until it is rewritten."""
MOST_HOPS = 6
"""Longest chain of which every subset of known answers is tried."""


def normal(text: str) -> str:
    """Case, white space and end marks aside."""
    return " ".join(text.casefold().split()).rstrip(" ?.!")


@dataclass(frozen=True)
class Need:
    """What a text asks for: the answers of ``targets`` (0-based hops), given those of ``known``."""

    targets: tuple[int, ...]
    known: frozenset[int] = frozenset()
    refers: bool = False
    """Whether it refers to an answer found just before, and can't be answered by itself."""

    def missing(self, gold: Question) -> tuple[int, ...]:
        """Hops whose passages it takes to answer this, targets included, in order."""
        found: set[int] = set()
        waiting = list(self.targets)
        while waiting:
            hop = waiting.pop()
            if hop not in found:
                found.add(hop)
                waiting += [d for d in depends(gold, hop) if d not in self.known]
        return tuple(sorted(found))


def depends(gold: Question, hop: int) -> tuple[int, ...]:
    """The hops whose answers ``hop`` needs, all 0-based."""
    return tuple(d - 1 for d in gold.hops[hop].depends_on)


def sinks(gold: Question) -> tuple[int, ...]:
    """Hops that no other waits for: the question compares their answers, or is the only one's."""
    used = {d for i in range(len(gold.hops)) for d in depends(gold, i)}
    return tuple(i for i in range(len(gold.hops)) if i not in used)


def worded(
    gold: Question, hop: int, known: Collection[int] = (), just_found: int | None = None
) -> str:
    """A hop's sub-question: known answers filled in, unknown ones described, and the answer of
    ``just_found`` referred to."""
    text = gold.hops[hop].question or ""
    for dep in depends(gold, hop):
        if dep == just_found:
            words = JUST_FOUND
        elif dep in known:
            words = gold.hops[dep].answer or JUST_FOUND
        else:
            words = f"the answer to “{worded(gold, dep, known).rstrip(' ?')}”"
        text = text.replace(f"{{answer_{dep + 1}}}", words)
    return text


def joined(gold: Question, hops: Collection[int], known: Collection[int] = ()) -> str:
    """Several independent needs as one text."""
    return " And: ".join(worded(gold, hop, known) for hop in hops)


def need_of(gold: Question, text: str) -> Need | None:
    """What a text asks of this question's gold, if it is one of the texts written here."""
    wanted = normal(text)
    if not gold.ordered:
        return None
    if wanted == normal(gold.question):
        return Need(sinks(gold))
    return next((need for words, need in _texts(gold) if normal(words) == wanted), None)


def _texts(gold: Question) -> Iterator[tuple[str, Need]]:
    ends = sinks(gold)
    for known in _subsets(len(gold.hops)):
        for i in range(len(gold.hops)):
            yield worded(gold, i, known), Need((i,), known)
            for dep in depends(gold, i):
                yield worded(gold, i, known, just_found=dep), Need((i,), known, refers=True)
        for first in range(1, len(ends) - 1):
            yield joined(gold, ends[first:], known), Need(ends[first:], known)


def _subsets(hops: int) -> Iterator[frozenset[int]]:
    if hops > MOST_HOPS:
        yield from (frozenset(range(n)) for n in range(hops, -1, -1))
        return
    for size in range(hops, -1, -1):
        yield from map(frozenset, combinations(range(hops), size))
