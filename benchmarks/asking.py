"""Questions about a synthetic world, each with its exact gold chain."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.question import GoldHop, Question
from benchmarks.world import BY_NAME, BY_SUBJECT, TYPES, Relation, World

YEAR_QUESTIONS: Mapping[str, tuple[str, str]] = {
    "born": ("Who was born earlier, {a} or {b}?", "was born earlier"),
    "founded": ("Which company was founded earlier, {a} or {b}?", "was founded earlier"),
    "released": ("Which product was released earlier, {a} or {b}?", "was released earlier"),
    "opened": ("Which university opened earlier, {a} or {b}?", "opened earlier"),
    "premiere": ("Which film premiered earlier, {a} or {b}?", "premiered earlier"),
    "museum_opened": ("Which museum was inaugurated earlier, {a} or {b}?", "opened earlier"),
}
SAME_QUESTIONS: Mapping[str, str] = {
    "born_in": "Were {a} and {b} born in the same city?",
    "based_in": "Are {a} and {b} based in the same city?",
    "country": "Are {a} and {b} in the same country?",
    "studied_at": "Did {a} and {b} study at the same university?",
}


@dataclass
class Asker:
    """Draws questions of a world; ``told`` are the entities whose passages are in the corpus."""

    world: World
    ids: Mapping[str, str]
    """Passage id by entity; entities without one are not in the corpus."""
    rng: random.Random

    def single(self) -> Question | None:
        subject = self._entity()
        relation = self.rng.choice(BY_SUBJECT[self.world.types[subject]])
        hop, answer = self._hop(subject, relation)
        return self._question("single", relation.question.format(s=subject), answer, [hop])

    def bridge(self, length: int) -> Question | None:
        """A chain of ``length`` hops, each asking about the answer of the one before."""
        return self._chain(length, last_told=True)

    def null(self, length: int) -> Question | None:
        """A chain whose last passage is not in the corpus."""
        return self._chain(length, last_told=False)

    def comparison(self) -> Question | None:
        if self.rng.random() < 0.7:
            name = self.rng.choice(sorted(YEAR_QUESTIONS))
            a, b = self._pair(subject_of(name))
            text = YEAR_QUESTIONS[name][0]
        else:
            name = self.rng.choice(sorted(SAME_QUESTIONS))
            a, b = self._alike(name) if self.rng.random() < 0.5 else self._pair(subject_of(name))
            text = SAME_QUESTIONS[name]
        first, x = self._hop(a, BY_NAME[name])
        second, y = self._hop(b, BY_NAME[name])
        answer = self._compared(name, a, b, x, y)
        if answer is None:
            return None
        return self._question("comparison", text.format(a=a, b=b), answer, [first, second])

    def bridge_comparison(self) -> Question | None:
        kind = self.rng.choice(("product", "film", "company", "university", "museum"))
        link = self.rng.choice([r for r in BY_SUBJECT[kind] if r.object in ("person", "company")])
        ends = [r.name for r in BY_SUBJECT[link.object] if r.name in YEAR_QUESTIONS]
        name = self.rng.choice(ends)
        a, b = self._pair(kind)
        one, middle_a = self._hop(a, link)
        two, middle_b = self._hop(b, link)
        if middle_a == middle_b or not self._told(middle_a, middle_b):
            return None
        three, x = self._hop(middle_a, BY_NAME[name], "{answer_1}")
        four, y = self._hop(middle_b, BY_NAME[name], "{answer_2}")
        answer = self._compared(name, a, b, x, y)
        if answer is None:
            return None
        noun = link.noun.format(s=a), link.noun.format(s=b)
        text = f"Which of the two {YEAR_QUESTIONS[name][1]}, {noun[0]} or {noun[1]}?"
        chosen, described = (middle_a, noun[0]) if answer == a else (middle_b, noun[1])
        return self._question(
            "bridge_comparison", text, chosen, [one, two, three, four], (described,)
        )

    def _chain(self, length: int, last_told: bool) -> Question | None:
        """A chain of ``length`` hops; with ``last_told`` False its last passage is missing."""
        subject = start = self._entity()
        relations: list[Relation] = []
        hops: list[GoldHop] = []
        met = {start}
        answer = ""
        for i in range(length):
            last = i == length - 1
            relation = self._next(subject, last, met, last_told if i == length - 2 else True)
            wanted = last_told or not last
            if relation is None or self._told(subject) is not wanted:
                return None
            if not wanted and self._told(self.world.implied(subject, relation.name) or subject):
                return None
            shown = subject if i == 0 else f"{{answer_{i}}}"
            hop, answer = self._hop(subject, relation, shown)
            relations.append(relation)
            hops.append(hop)
            met.add(answer)
            subject = answer
        noun = start
        for relation in relations[:-1]:
            noun = relation.noun.format(s=noun)
        text = relations[-1].question.format(s=noun)
        if last_told:
            return self._question("bridge" if length > 1 else "single", text, answer, hops)
        return self._question("null", text, None, hops)

    def _next(self, subject: str, last: bool, met: set[str], next_told: bool) -> Relation | None:
        """A relation to follow from here: to a new entity that is (or is not) in the corpus."""
        choices = []
        for relation in BY_SUBJECT[self.world.types[subject]]:
            target = self.world.look(subject, relation.name)
            if target in met:
                continue
            if last or (relation.object != "year" and self._told(target) is next_told):
                choices.append(relation)
        return self.rng.choice(choices) if choices else None

    def _hop(
        self, subject: str, relation: Relation, shown: str | None = None
    ) -> tuple[GoldHop, str]:
        answer = self.world.look(subject, relation.name)
        text = relation.question.format(s=shown or subject)
        return GoldHop(self.ids.get(subject), text, answer), answer

    def _compared(self, relation: str, a: str, b: str, x: str, y: str) -> str | None:
        if relation in SAME_QUESTIONS:
            return "yes" if x == y else "no"
        return None if x == y else (a if int(x) < int(y) else b)

    def _told(self, *entities: str) -> bool:
        return all(e in self.ids for e in entities)

    def _entity(self) -> str:
        return self.rng.choice(self.world.entities[self.rng.choice(TYPES)])

    def _pair(self, kind: str) -> tuple[str, str]:
        a, b = self.rng.sample(self.world.entities[kind], 2)
        return a, b

    def _alike(self, relation: str) -> tuple[str, str]:
        """Two subjects with the same object; any two where there are none."""
        kind = subject_of(relation)
        first = self.rng.choice(self.world.entities[kind])
        shared = self.world.look(first, relation)
        others = [
            e
            for e in self.world.entities[kind]
            if e != first and self.world.look(e, relation) == shared
        ]
        return (first, self.rng.choice(others)) if others else self._pair(kind)

    def _question(
        self,
        kind: str,
        text: str,
        answer: str | None,
        hops: list[GoldHop],
        aliases: tuple[str, ...] = (),
    ) -> Question | None:
        told = [h.passage for h in hops if h.passage is not None]
        if answer is not None and len(told) < len(hops):
            return None
        return Question.of(
            id="",
            question=text,
            answer=answer,
            answers=aliases,
            supporting=told,
            hops=hops,
            kind=kind,
            answerable=answer is not None,
        )


def subject_of(relation: str) -> str:
    """The type that a relation is about."""
    return BY_NAME[relation].subject
