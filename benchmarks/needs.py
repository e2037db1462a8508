"""Needs: how a gold chain may be asked for in words before its answers are known.

Control policies that split or rewrite questions ask for several hops at once ("the founder of the
answer to “who painted X”"). The oracle must write such texts and know them again. Hops are named
by their 0-based place in the chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from benchmarks.question import GoldHop, Question

JUST_FOUND = "the answer just found"
"""How a dependent need refers to its prerequisite until it is rewritten."""
MOST_HOPS = 6
"""Longest chain of which every subset of known answers is tried."""


def normal(text: str) -> str:
    """Case, white space and end marks aside."""
    return " ".join(text.casefold().split()).rstrip(" ?.!")


@dataclass(frozen=True)
class Need:
    """What a text asks for: the answers of ``targets``, given those of ``known``."""

    targets: tuple[int, ...]
    known: frozenset[int] = frozenset()

    def missing(self, hops: Sequence[GoldHop]) -> tuple[int, ...]:
        """Hops whose passages it takes to answer this, targets included, in order."""
        found: set[int] = set()
        waiting = list(self.targets)
        while waiting:
            hop = waiting.pop()
            if hop not in found:
                found.add(hop)
                waiting += [d for d in depends(hops, hop) if d not in self.known]
        return tuple(sorted(found))

    def halves(self, hops: Sequence[GoldHop]) -> list[str]:
        """The gold split: a prerequisite and what depends on it, or two independent needs; empty
        where one look-up answers this."""
        if len(self.targets) > 1:
            rest = self.targets[1:]
            return [worded(hops, self.targets[0], self.known), joined(hops, rest, self.known)]
        (target,) = self.targets
        unknown = [d for d in depends(hops, target) if d not in self.known]
        if not unknown:
            return []
        first = unknown[0]
        dependent = worded(hops, target, self.known, just_found=first)
        return [worded(hops, first, self.known), dependent]


def depends(hops: Sequence[GoldHop], hop: int) -> tuple[int, ...]:
    """The hops whose answers ``hop`` needs."""
    return tuple(d - 1 for d in hops[hop].depends_on)


def sinks(hops: Sequence[GoldHop]) -> tuple[int, ...]:
    """Hops that no other waits for: the question compares their answers, or asks for the only
    one's."""
    used = {d for i in range(len(hops)) for d in depends(hops, i)}
    return tuple(i for i in range(len(hops)) if i not in used)


def worded(
    hops: Sequence[GoldHop], hop: int, known: Collection[int] = (), just_found: int | None = None
) -> str:
    """A hop's sub-question: known answers filled in, unknown ones described, and the answer of
    ``just_found`` referred to."""
    text = hops[hop].question or ""
    for dep in depends(hops, hop):
        if dep == just_found:
            words = JUST_FOUND
        elif dep in known:
            words = hops[dep].answer or JUST_FOUND
        else:
            words = f"the answer to “{worded(hops, dep, known).rstrip(' ?')}”"
        text = text.replace(f"{{answer_{dep + 1}}}", words)
    return text


def joined(hops: Sequence[GoldHop], targets: Collection[int], known: Collection[int] = ()) -> str:
    """Several independent needs as one text."""
    return " And: ".join(worded(hops, hop, known) for hop in targets)


def need_of(gold: Question, text: str, just_found: int | None = None) -> Need | None:
    """What a text asks of this question's gold, if it is one of the texts written here.

    A text that refers to the answer just found is one only where it is told whose that is: "when
    was that person born" may follow on several hops.
    """
    if not gold.ordered:
        return None
    if normal(text) == normal(gold.question):
        return Need(sinks(gold.hops))
    known = _known_texts(tuple(gold.hops))
    return known.get((normal(text), None)) or known.get((normal(text), just_found))


@lru_cache(maxsize=512)
def _known_texts(hops: tuple[GoldHop, ...]) -> Mapping[tuple[str, int | None], Need]:
    """Needs by text and by the hop whose answer the text refers to."""
    found: dict[tuple[str, int | None], Need] = {}
    for text, just_found, need in _texts(hops):
        found.setdefault((normal(text), just_found), need)
    return found


def _texts(hops: tuple[GoldHop, ...]) -> Iterator[tuple[str, int | None, Need]]:
    ends = sinks(hops)
    for known in _subsets(len(hops)):
        for i in range(len(hops)):
            yield worded(hops, i, known), None, Need((i,), _told(hops, i, known))
            for dep in depends(hops, i):
                need = Need((i,), _told(hops, i, known, just_found=dep))
                yield worded(hops, i, known, just_found=dep), dep, need
        for first in range(1, len(ends) - 1):
            told = frozenset().union(*(_told(hops, end, known) for end in ends[first:]))
            yield joined(hops, ends[first:], known), None, Need(ends[first:], told)


def _told(
    hops: Sequence[GoldHop], hop: int, known: Collection[int], just_found: int | None = None
) -> frozenset[int]:
    """Of ``known``, the hops whose answers a text gives: no more may be read off it."""
    told: set[int] = set()
    for dep in depends(hops, hop):
        if dep != just_found:
            told |= {dep} if dep in known else _told(hops, dep, known)
    return frozenset(told)


def _subsets(hops: int) -> Iterator[frozenset[int]]:
    if hops > MOST_HOPS:
        yield from (frozenset(range(n)) for n in range(hops, -1, -1))
        return
    for size in range(hops, -1, -1):
        yield from map(frozenset, combinations(range(hops), size))
