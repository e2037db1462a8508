"""What a retriever is trained on and watched by: queries with the passages that answer them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.question import Question
from optimize.errors import OptimizeError
from retrieval.engines import IndexRetriever
from retrieval.segment import content

MINED = 8
"""Passages that the current retriever finds for a query, of which hard negatives are drawn."""
FEWEST = 8
"""Questions that a training set needs at least."""


class TrainingError(OptimizeError):
    """Training that can't begin or go on; the message names the mend."""


@dataclass(frozen=True, slots=True)
class Query:
    """A text to search for and the ids of the passages that answer it."""

    text: str
    positives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question's queries: itself, for every gold passage, and its sub-questions."""

    id: str
    whole: Query
    parts: tuple[Query, ...]
    distractors: tuple[str, ...]
    """Ids of the wrong passages of its own context."""

    @property
    def gold(self) -> tuple[str, ...]:
        return self.whole.positives


@dataclass(frozen=True)
class TrainingSet:
    """One data set's questions, the texts of their passages, and what the retriever takes for
    right."""

    name: str
    questions: tuple[TrainingQuestion, ...]
    texts: Mapping[str, str]
    gold: Mapping[str, tuple[str, ...]]
    """By query text: ids that are never wrong for it, the gold of every question that has it."""
    mined: Mapping[str, tuple[str, ...]]
    """By query text: ids of passages found that are not gold, best first."""
    faults: tuple[str, ...] = ()
    """Questions left out, each with its reason."""


@dataclass(frozen=True)
class DevSet:
    """Questions whose recall is watched over a pool of passages."""

    name: str
    queries: tuple[Query, ...]
    pool: Mapping[str, str]
    """Texts by id: all passages of a small corpus, else the gold ones and those nearest."""
    faults: tuple[str, ...] = ()


def training_set(
    name: str, questions: Iterable[Question], retriever: IndexRetriever
) -> TrainingSet:
    """Examples of a data set, with the index's own hits as hard negatives.

    Left out and named: questions without gold passages, and gold passages that the index lacks.
    Raises ``TrainingError`` when fewer than ``FEWEST`` questions are left.
    """
    asked = list(questions)
    there = _ids(retriever)
    kept, faults = _usable(asked, there)
    made = tuple(_training_question(q, there) for q in kept)
    if len(made) < FEWEST:
        raise TrainingError(
            f"{name}: {len(made)} of {len(asked)} questions can be trained on, at least {FEWEST} "
            f"are needed ({faults[0] if faults else 'there are no more'}); give more questions, or "
            "an index of the corpus that they are about"
        )
    texts = list(dict.fromkeys(q.text for m in made for q in (m.whole, *m.parts)))
    found = retriever.search(texts, MINED)
    hits = {t: tuple(p.id for p in ps) for t, ps in zip(texts, found, strict=True)}
    gold: dict[str, set[str]] = {}
    for m in made:
        for query in (m.whole, *m.parts):
            gold.setdefault(query.text, set()).update(m.gold)
    mined = {t: tuple(i for i in ids if i not in gold[t]) for t, ids in hits.items()}
    wanted = {i for ids in mined.values() for i in ids}
    wanted |= {i for m in made for i in (*m.gold, *m.distractors)}
    right = {text: tuple(sorted(ids)) for text, ids in gold.items()}
    return TrainingSet(name, made, _texts(retriever, wanted), right, mined, tuple(faults))


def dev_set(
    name: str, questions: Iterable[Question], retriever: IndexRetriever, most: int
) -> DevSet:
    """Questions to watch, over the whole corpus where it has at most ``most`` passages, else over
    the gold passages and those that the retriever takes for nearest. Raises ``TrainingError`` when
    no question has gold passages in the index."""
    asked = list(questions)
    there = _ids(retriever)
    kept, faults = _usable(asked, there)
    if not kept:
        raise TrainingError(
            f"{name}: none of {len(asked)} dev questions has its gold passages in the index "
            f"({faults[0] if faults else 'there are none'})"
        )
    queries = tuple(Query(q.question, tuple(q.supporting)) for q in kept)
    wanted = dict.fromkeys(i for q in queries for i in q.positives)
    if len(there) <= most:
        wanted |= dict.fromkeys(there)
    else:
        depth = min(200, max(5, 2 * most // len(queries)))
        found = retriever.search([q.text for q in queries], depth)
        ranks = (p for rank in range(depth) for ps in found for p in ps[rank : rank + 1])
        for passage in ranks:
            if len(wanted) >= most:
                break
            wanted[passage.id] = None
    return DevSet(name, queries, _texts(retriever, set(wanted)), tuple(faults))


def _ids(retriever: IndexRetriever) -> dict[str, None]:
    return dict.fromkeys(p.id for p in retriever.index.passages())


def _texts(retriever: IndexRetriever, wanted: set[str]) -> dict[str, str]:
    return {p.id: content(p) for p in retriever.index.passages() if p.id in wanted}


def _usable(
    questions: Sequence[Question], there: Mapping[str, None]
) -> tuple[list[Question], list[str]]:
    kept, faults = [], []
    for question in questions:
        lacking = [i for i in question.supporting if i not in there]
        if not question.answerable:
            faults.append(f"question {question.id} is unanswerable")
        elif not question.supporting:
            faults.append(f"question {question.id} names no gold passage")
        elif lacking:
            faults.append(f"question {question.id}: passage {lacking[0]!r} is not in the index")
        else:
            kept.append(question)
    return kept, faults


def _training_question(question: Question, there: Mapping[str, None]) -> TrainingQuestion:
    gold = tuple(question.supporting)
    answers = [hop.answer for hop in question.hops]
    parts = []
    for hop in question.hops:
        text = hop.filled(answers)
        if text and "{answer_" not in text and hop.passage in gold:
            parts.append(Query(text, (str(hop.passage),)))
    context = question.meta.get("context", ())
    distractors = tuple(i for i in context if i not in gold and i in there)
    return TrainingQuestion(question.id, Query(question.question, gold), tuple(parts), distractors)
