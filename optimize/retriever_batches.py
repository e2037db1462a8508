"""Batches for training a retriever, in which no passage counts as wrong for a query that it
answers: the other queries' passages are every query's negatives."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from optimize.retriever_examples import Query, TrainingError, TrainingQuestion, TrainingSet

TRIES = 50
"""Questions that may be put back or left out for one batch; it is smaller then."""


@dataclass(frozen=True, slots=True)
class Example:
    """One line of a batch: the positive passage's id comes first."""

    query: str
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples and the texts of their passages."""

    queries: list[str]
    passages: list[list[str]]


class Sampler:
    """Batches without end, the same for the same seed.

    Each data set gives the same number of queries, however many questions it has; within a set
    every question comes once before any comes again. Of a question, itself is asked with
    probability ``whole``, else one of its sub-questions. Negatives are drawn by turns from what the
    retriever found and from the question's distractors; where there are too few of them, from all
    passages. Raises ``TrainingError`` where even those are too few.
    """

    def __init__(
        self, sets: Sequence[TrainingSet], *, size: int, negatives: int, whole: float, seed: int
    ) -> None:
        self._sets = sets
        self._size = size
        self._negatives = negatives
        self._whole = whole
        self._random = random.Random(seed)
        self._waiting: list[list[TrainingQuestion]] = [[] for _ in sets]
        self._turn = 0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self._batch()

    def _batch(self) -> Batch:
        taken: list[tuple[TrainingSet, Example]] = []
        gold: set[str] = set()
        used: set[str] = set()
        left = TRIES
        while len(taken) < self._size and left:
            place = self._turn % len(self._sets)
            source = self._sets[place]
            question = self._next(place)
            query = self._query(question)
            own = set(_keys(source, source.gold[query.text]))
            if not used.isdisjoint(own):
                left -= 1
                self._waiting[place].insert(0, question)
                continue
            example = self._example(source, question, query, gold | own)
            if example is None:
                left -= 1
                continue
            self._turn += 1
            taken.append((source, example))
            gold |= own
            used |= own.union(_keys(source, example.passages))
        if not taken:
            raise TrainingError(
                f"no query has {self._negatives} passages that don't answer it: index more "
                "passages, or lower --negatives"
            )
        return Batch(
            [example.query for _, example in taken],
            [[source.texts[i] for i in example.passages] for source, example in taken],
        )

    def _next(self, place: int) -> TrainingQuestion:
        waiting = self._waiting[place]
        if not waiting:
            waiting.extend(self._sets[place].questions)
            self._random.shuffle(waiting)
        return waiting.pop()

    def _query(self, question: TrainingQuestion) -> Query:
        if question.parts and self._random.random() >= self._whole:
            return self._random.choice(question.parts)
        return question.whole

    def _example(
        self, source: TrainingSet, question: TrainingQuestion, query: Query, gold: set[str]
    ) -> Example | None:
        positive = self._random.choice(query.positives)
        wrong = [
            [i for i in ids if source.texts[i] not in gold]
            for ids in (source.mined[query.text], question.distractors)
        ]
        negatives: dict[str, None] = {}
        turn = self._random.randrange(2)
        while len(negatives) < self._negatives and any(wrong):
            pool = wrong[(turn + len(negatives)) % 2] or wrong[0] or wrong[1]
            negatives[pool.pop(self._random.randrange(len(pool)))] = None
        if len(negatives) < self._negatives:
            rest = [i for i, text in source.texts.items() if text not in gold]
            self._random.shuffle(rest)
            negatives |= dict.fromkeys(rest)
        if len(negatives) < self._negatives:
            return None
        return Example(query.text, (positive, *list(negatives)[: self._negatives]))


def _keys(source: TrainingSet, ids: Iterable[str]) -> list[str]:
    """Passages by their text: two data sets may hold the same one under two ids."""
    return [source.texts[i] for i in ids]
