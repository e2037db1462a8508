"""The synthetic benchmark: questions with exact gold chains over a synthetic world's passages.

No licence, no leakage from pre-training, any size, one seed gives the same benchmark.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.prose import passage_about
from benchmarks.question import SPLITS, Benchmark, GoldHop, Question
from benchmarks.world import BY_NAME, BY_SUBJECT, TYPES, Relation, World, build_world
from retrieval import Passage

QUESTIONS, PASSAGES = 2000, 1000
MIX: Mapping[str, float] = {
    "single": 0.15,
    "bridge": 0.45,
    "comparison": 0.15,
    "bridge_comparison": 0.15,
    "null": 0.10,
}
"""Shares of the kinds of questions."""
SHARES = {"train": 0.4, "dev": 0.3, "test": 0.3}
MISSING = 0.03
"""Share of entities whose passages are left out of the corpus, for unanswerable questions."""
BLOCK = 1000
"""Entities per world when passages are streamed."""

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


class SyntheticError(ValueError):
    """A synthetic benchmark that can't be made with these numbers."""


@dataclass
class _Maker:
    """Draws questions of a world; ``told`` are the entities whose passages are in the corpus."""

    world: World
    ids: Mapping[str, str]
    """Passage id by entity; entities without one are not in the corpus."""
    hops: Sequence[int]
    rng: random.Random

    def single(self) -> Question | None:
        subject = self._entity()
        relation = self.rng.choice(BY_SUBJECT[self.world.types[subject]])
        hop, answer = self._hop(subject, relation)
        return self._question("single", relation.question.format(s=subject), answer, [hop])

    def bridge(self) -> Question | None:
        return self._chain(self.rng.choice(self.hops), last_told=True)

    def null(self) -> Question | None:
        return self._chain(self.rng.choice([h for h in self.hops if h > 1] or [2]), False)

    def comparison(self) -> Question | None:
        if self.rng.random() < 0.7:
            name = self.rng.choice(sorted(YEAR_QUESTIONS))
            a, b = self._pair(BY_NAME[name].subject)
            text = YEAR_QUESTIONS[name][0]
        else:
            name = self.rng.choice(sorted(SAME_QUESTIONS))
            a, b = self._pair(BY_NAME[name].subject)
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
        winner = middle_a if answer == a else middle_b
        return self._question("bridge_comparison", text, winner, [one, two, three, four])

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
            if relation is None or (self._told(subject) is last and not last_told):
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

    def _question(
        self, kind: str, text: str, answer: str | None, hops: list[GoldHop]
    ) -> Question | None:
        told = [h.passage for h in hops if h.passage is not None]
        if answer is not None and len(told) < len(hops):
            return None
        return Question.of(
            id="",
            question=text,
            answer=answer,
            supporting=told,
            hops=hops,
            kind=kind,
            answerable=answer is not None,
        )


def synthetic(
    questions: int = QUESTIONS,
    passages: int = PASSAGES,
    seed: int = 0,
    *,
    hops: Sequence[int] = (2, 3, 4),
    kinds: Sequence[str] | None = None,
) -> Benchmark:
    """A benchmark of ``questions`` over ``passages``, split 40/30/30 by kind.

    ``hops`` are the lengths that chains may have; ``kinds`` restricts what is asked (``("bridge",)``
    with ``hops=(3,)`` makes a world whose chains all have three hops). Raises ``SyntheticError``
    when the world is too small for so many different questions.
    """
    if questions < 3 or passages < 2 * len(TYPES):
        raise SyntheticError(
            f"a synthetic benchmark has at least 3 questions and {2 * len(TYPES)} passages, got "
            f"{questions} and {passages}"
        )
    asked = tuple(kinds or MIX)
    if set(asked) - set(MIX):
        raise SyntheticError(f"no kind {sorted(set(asked) - set(MIX))}; there are {', '.join(MIX)}")
    if any(h < 1 for h in hops) or not hops:
        raise SyntheticError(f"chains have one hop or more, got {list(hops)}")
    missing = max(1, round(passages * MISSING)) if "null" in asked else 0
    world = build_world(passages + missing, seed)
    rng = random.Random(f"questions-{seed}")
    gone = set(rng.sample(sorted(world.types), missing))
    corpus = [passage_about(world, e, seed) for e in world.types if e not in gone]
    ids = {p.title: p.id for p in corpus}
    maker = _Maker(world, ids, tuple(hops), rng)
    counts = _shares({k: MIX[k] for k in asked}, questions)
    by_kind = {kind: _draw(getattr(maker, kind), n, kind) for kind, n in counts.items()}
    return Benchmark(
        name="synthetic",
        questions=_split(by_kind, rng),
        corpus=corpus,
        answer_rule="hotpotqa",
    )


def _draw(make: Callable[[], Question | None], n: int, kind: str) -> list[Question]:
    found: dict[str, Question] = {}
    for _ in range(400 * n + 400):
        if len(found) == n:
            return list(found.values())
        question = make()
        if question is not None:
            found.setdefault(question.question, question)
    if len(found) == n:
        return list(found.values())
    raise SyntheticError(
        f"this world holds only {len(found)} different {kind} questions, {n} were asked for: ask "
        "for more passages or fewer questions"
    )


def _shares(weights: Mapping[str, float], n: int) -> dict[str, int]:
    """``n`` dealt by weight, largest remainders first."""
    total = sum(weights.values())
    exact = {k: n * w / total for k, w in weights.items()}
    counts = {k: int(x) for k, x in exact.items()}
    for k in sorted(exact, key=lambda k: (counts[k] - exact[k], k))[: n - sum(counts.values())]:
        counts[k] += 1
    return counts


def _split(by_kind: Mapping[str, list[Question]], rng: random.Random) -> dict[str, list[Question]]:
    """Deal each kind over the splits, so that each split has every kind where it can."""
    splits: dict[str, list[Question]] = {name: [] for name in SPLITS}
    debt = dict.fromkeys(SPLITS, 0.0)
    for questions in by_kind.values():
        for question in questions:
            for name in SPLITS:
                debt[name] += SHARES[name]
            name = max(SPLITS, key=lambda s: debt[s])
            debt[name] -= 1
            splits[name].append(question)
    for name, questions in splits.items():
        rng.shuffle(questions)
        splits[name] = [
            Question.of(**{**_fields(q), "id": f"syn-{name}-{i:05d}"})
            for i, q in enumerate(questions)
        ]
    return splits


def _fields(question: Question) -> dict[str, object]:
    names = ("question", "answer", "answers", "supporting", "hops", "kind", "answerable", "meta")
    return {name: question[name] for name in names}


def stream_passages(n: int, seed: int = 0) -> Iterator[Passage]:
    """``n`` passages of worlds of ``BLOCK`` entities, one after another, without holding them.

    Names may repeat between worlds, as they do in real corpora; ids don't.
    """
    made = 0
    block = 0
    while made < n:
        world = build_world(BLOCK, f"{seed}-{block}")
        for i, entity in enumerate(world.types):
            if made == n:
                return
            passage = passage_about(world, entity, f"{seed}-{block}")
            yield Passage(f"s{block:06d}-{i:04d}", passage.title, passage.text)
            made += 1
        block += 1
