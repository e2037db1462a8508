"""Proposition paths: beam search over propositions that share entities, without an LM.

A path's score is what it covers of the question's words, weighted by their rarity among all
propositions, plus the search score of the passage that it starts from. A path grows only by
propositions that cover words still missing, since what adds none leads away from the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from programs.knowledge.names import entity_key
from signatures import Proposition

FROM_ONE = 40
"""Propositions that a path may be continued by at each step, those that cover most first."""


@dataclass(frozen=True, slots=True)
class Path:
    """Propositions by number, each sharing an entity with one before it."""

    steps: tuple[int, ...]
    words: frozenset[str]
    """Of the question, covered."""
    score: float


class PropositionGraph:
    """The propositions of a corpus by entity, by passage and by word. Immutable once built."""

    def __init__(self, propositions: Sequence[Proposition]) -> None:
        from retrieval.lexical import tokenise

        self.propositions = tuple(propositions)
        self.words = [frozenset(w) for w in tokenise([p.text for p in self.propositions])]
        self.entities = [tuple(map(entity_key, p.entities)) for p in self.propositions]
        self.by_entity: dict[str, list[int]] = {}
        self.by_passage: dict[str, list[int]] = {}
        self.seen: dict[str, int] = {}
        for number, proposition in enumerate(self.propositions):
            self.by_passage.setdefault(proposition.passage, []).append(number)
            for key in dict.fromkeys(self.entities[number]):
                self.by_entity.setdefault(key, []).append(number)
            for word in self.words[number]:
                self.seen[word] = self.seen.get(word, 0) + 1

    def weights(self, question: str) -> dict[str, float]:
        """The question's words that propositions have, weighted to a sum of 1."""
        from retrieval.lexical import tokenise

        (words,) = tokenise([question])
        total = len(self.propositions)
        rare = {w: math.log(1 + total / self.seen[w]) for w in words if w in self.seen}
        whole = sum(rare.values())
        return {word: weight / whole for word, weight in rare.items()}

    def beam(
        self, question: str, prior: Mapping[str, float], *, width: int, length: int
    ) -> list[Path]:
        """The paths found, best first: up to ``width`` kept at each of ``length`` steps. ``prior``
        are the passages to start from with their scores from 0 to 1."""
        weights = self.weights(question)
        starts = [
            self._path((number,), self.words[number] & weights.keys(), weights, score)
            for passage, score in prior.items()
            for number in self.by_passage.get(passage, ())
        ]
        beam = _best(starts, width)
        found = list(beam)
        for _ in range(length - 1):
            longer = [new for path in beam for new in self._continued(path, weights, prior)]
            beam = _best(longer, width)
            found += beam
        return _best(found, len(found))

    def _continued(
        self, path: Path, weights: Mapping[str, float], prior: Mapping[str, float]
    ) -> Iterable[Path]:
        missing = weights.keys() - path.words
        near = dict.fromkeys(
            number
            for step in path.steps
            for key in self.entities[step]
            for number in self.by_entity[key]
            if number not in path.steps and not missing.isdisjoint(self.words[number])
        )
        start = prior[self.propositions[path.steps[0]].passage]
        grown = [
            self._path(
                (*path.steps, number), path.words | (self.words[number] & missing), weights, start
            )
            for number in near
        ]
        return _best(grown, FROM_ONE)

    def _path(
        self,
        steps: tuple[int, ...],
        words: Iterable[str],
        weights: Mapping[str, float],
        start: float,
    ) -> Path:
        covered = frozenset(words)
        return Path(steps, covered, start + sum(weights[word] for word in covered))

    def passages(self, path: Path) -> list[str]:
        """Ids of a path's passages, in its order."""
        return list(dict.fromkeys(self.propositions[step].passage for step in path.steps))

    def told(self, path: Path) -> str:
        """A path in words."""
        return " → ".join(self.propositions[step].text for step in path.steps)


def _best(paths: Iterable[Path], most: int) -> list[Path]:
    """By score; of equal ones the shorter, then the earlier propositions."""
    return sorted(paths, key=lambda p: (-p.score, len(p.steps), p.steps))[:most]
