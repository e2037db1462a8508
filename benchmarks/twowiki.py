"""2WikiMultiHopQA (Ho et al. 2020): evidence triples, put into words as sub-questions in dependency
order, each with the supporting paragraph that is about its subject."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_validator

from benchmarks.errors import BadRow, BenchmarkError
from benchmarks.places import Places, plain
from benchmarks.question import GoldHop, Question
from benchmarks.relations import asked
from benchmarks.rows import Hub, Row, file_rows
from benchmarks.wiki_rows import WikiRow, context_ids, pairs, parsed, support, text_of
from signatures import Triple

HUB = Hub("framolfese/2WikiMultihopQA", None, {"train": "train", "dev": "validation"})
ANSWER_RULE = "hotpotqa"
KINDS = {
    "compositional": "bridge",
    "comparison": "comparison",
    "bridge_comparison": "bridge_comparison",
    "inference": "inference",
}
CHAINED = ("compositional", "inference")
SAME_NAME = 0.6
"""Names at least this alike (``likeness``) may be one entity."""


class TwoWikiRow(WikiRow):
    """A row; the hub's copies write evidences as JSON or as columns."""

    evidences: list[tuple[str, str, str]] = []
    answer_id: str | None = None

    @field_validator("evidences", mode="before")
    @classmethod
    def _evidences(cls, value: Any) -> Any:
        return pairs(value, "fact", "subject", "relation", "object", "entity")


class AliasRow(BaseModel):
    """A line of the official ``id_aliases.json``."""

    Q_id: str
    aliases: list[str] = []
    demonyms: list[str] = []


@dataclass(frozen=True, slots=True)
class Step:
    """A triple on its way to a hop; several objects of one subject and relation are joined."""

    subject: str
    relation: str
    objects: tuple[str, ...]
    needs: int | None = None
    """Place (0-based) of the step whose object is this one's subject."""


def question(
    row: Row, places: Places, notes: list[str], aliases: Mapping[str, Sequence[str]] | None = None
) -> Question:
    """``aliases`` are answers by ``answer_id``. Raises ``BadRow``."""
    found: TwoWikiRow = parsed(TwoWikiRow, row.data)
    ids, sentences, wrong = support(found, places)
    notes += wrong
    if not ids:
        raise BadRow("there are no supporting facts")
    texts = {title: text_of(lines) for title, lines in found.context}
    steps = chain(found.evidences, found.type)
    titles = assign(steps, {title: texts.get(title, "") for title in ids})
    hops = [
        GoldHop(ids[title], _asked(step), ", ".join(step.objects), sentences[title])
        for step, title in zip(steps, titles, strict=True)
    ]
    return Question.of(
        id=found.id,
        question=found.question.strip(),
        answer=found.answer,
        answers=(aliases or {}).get(found.answer_id or "", ()),
        supporting=list(ids.values()),
        hops=hops or [GoldHop(ids[t], sentences=sentences[t]) for t in ids],
        kind=KINDS.get(found.type, "bridge"),
        meta={
            "type": found.type,
            "evidences": [list(e) for e in found.evidences],
            "context": context_ids(found, places),
        },
    )


def triples(asked: Question) -> list[Triple]:
    """A question's evidences with the paragraphs that state them."""
    evidences = [(str(s), str(r), str(o)) for s, r, o in asked.meta.get("evidences", ())]
    steps = chain(evidences, str(asked.meta.get("type", "")))
    if len(steps) != len(asked.hops):
        return []
    return [
        Triple(step.subject, step.relation, found, hop.passage)
        for step, hop in zip(steps, asked.hops, strict=True)
        if hop.passage is not None
        for found in step.objects
    ]


def _asked(step: Step) -> str:
    subject = step.subject if step.needs is None else f"{{answer_{step.needs + 1}}}"
    return asked(subject, step.relation)


def chain(evidences: Sequence[tuple[str, str, str]], kind: str) -> list[Step]:
    """Steps in dependency order: each after the one that finds its subject."""
    merged: dict[tuple[str, str], Step] = {}
    for subject, relation, obj in evidences:
        key = plain(subject), plain(relation)
        step = merged.get(key)
        if step is None:
            merged[key] = Step(subject, relation, (obj,))
        elif obj not in step.objects:
            merged[key] = replace(step, objects=(*step.objects, obj))
    steps = list(merged.values())
    needs = [_needed(step, steps, kind) for step in steps]
    order: list[int] = []
    while len(order) < len(steps):
        free = [
            n
            for n in range(len(steps))
            if n not in order and (needs[n] is None or needs[n] in order)
        ]
        order.append(free[0] if free else min(set(range(len(steps))) - set(order)))
    place = {n: at for at, n in enumerate(order)}
    made = []
    for at, n in enumerate(order):
        need = needs[n]
        earlier = None if need is None or place[need] >= at else place[need]
        made.append(replace(steps[n], needs=earlier))
    return made


def _needed(step: Step, steps: Sequence[Step], kind: str) -> int | None:
    """Which step finds this one's subject: by its name, and in chains of two by position, where the
    data call the entity by two names ("Kanye West", "Kanye")."""
    others = [n for n, s in enumerate(steps) if s is not step]
    for n in others:
        if any(plain(o) == plain(step.subject) for o in steps[n].objects):
            return n
    if kind in CHAINED and len(steps) == 2 and step is steps[1]:
        backward = any(plain(o) == plain(steps[0].subject) for o in step.objects)
        return None if backward else 0
    if kind == "bridge_comparison":
        own = step.subject
        alike = [(max(likeness(o, own) for o in steps[n].objects), -n) for n in others]
        best, place = max(alike, default=(0.0, 0))
        if best >= SAME_NAME and best > max(likeness(steps[n].subject, own) for n in others):
            return -place
    return None


def assign(steps: Sequence[Step], titles: Mapping[str, str]) -> list[str]:
    """The supporting title of each step, by likeness of title and subject and by whether the text
    names subject and object; each subject gets a title of its own where there are enough."""
    names = list(titles)
    subjects = list(dict.fromkeys(plain(s.subject) for s in steps))
    scores: dict[tuple[str, str], float] = {}
    for subject, title in itertools.product(subjects, names):
        own = [s for s in steps if plain(s.subject) == subject]
        text = plain(titles[title])
        told = [o for s in own for o in s.objects if plain(o) in text]
        score = 2 * likeness(subject, title) + (subject in text)
        scores[subject, title] = score + len(told) / sum(len(s.objects) for s in own)
    if len(subjects) <= len(names) <= 6:
        best = max(
            itertools.permutations(names, len(subjects)),
            key=lambda chosen: sum(scores[pair] for pair in zip(subjects, chosen, strict=True)),
        )
        by_subject = dict(zip(subjects, best, strict=True))
    else:
        by_subject = {s: max(names, key=lambda t: scores[s, t]) for s in subjects}
    return [by_subject[plain(s.subject)] for s in steps]


def likeness(left: str, right: str) -> float:
    """0 to 1: equal names, "(film)" and the like aside, are 1."""
    one, other = (plain(re.sub(r"\([^)]*\)", " ", name)) for name in (left, right))
    words = set(one.split()), set(other.split())
    if not words[0] or not words[1]:
        return float(plain(left) == plain(right))
    shared = len(words[0] & words[1]) / min(len(words[0]), len(words[1]))
    return (shared + SequenceMatcher(None, one, other).ratio()) / 2


def read_aliases(folder: Path) -> dict[str, tuple[str, ...]]:
    """The official ``id_aliases.json`` beside the data, where it is: answers by ``answer_id``.
    Raises ``BenchmarkError``."""
    path = folder / "id_aliases.json"
    if not path.is_file():
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for row in file_rows(path):
        try:
            names: AliasRow = parsed(AliasRow, row.data)
        except BadRow as fault:
            raise BenchmarkError(f"{row.where}: {fault}") from None
        found[names.Q_id] = (*names.aliases, *names.demonyms)
    return found
