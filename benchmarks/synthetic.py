"""The synthetic benchmark: questions with exact gold chains over a synthetic world's passages.

No licence, no leakage from pre-training, any size, one seed gives the same benchmark.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from benchmarks.asking import Asker
from benchmarks.prose import passage_about
from benchmarks.question import SPLITS, Benchmark, Question
from benchmarks.world import TYPES, World, build_world
from retrieval import Passage
from signatures import Triple

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
PATIENCE = 4000
"""Draws in a row without a new question after which a world counts as exhausted."""
BLOCK = 1000
"""Entities per world when passages are streamed."""


class SyntheticError(ValueError):
    """A synthetic benchmark that can't be made with these numbers."""


def synthetic(
    questions: int = QUESTIONS,
    passages: int = PASSAGES,
    seed: int = 0,
    *,
    hops: Sequence[int] = (2, 3, 4),
    kinds: Sequence[str] | None = None,
) -> Benchmark:
    """A benchmark of ``questions`` over ``passages``, split 40/30/30 by kind.

    ``hops`` are the lengths that chains may have; ``kinds`` restricts what is asked:
    ``("bridge",)`` with ``hops=(3,)`` makes a world whose chains all have three hops. Raises
    ``SyntheticError`` when the world is too small for so many different questions.
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
    gone = _left_out(world, missing, rng)
    corpus = [passage_about(world, e, seed) for e in world.types if e not in gone]
    ids = {p.title: p.id for p in corpus}
    asker = Asker(world, ids, rng)
    longer = [h for h in hops if h > 1] or [2]
    drawn: list[Question] = []
    asked_already: set[str] = set()
    draw = partial(_draw, asked_already)
    for kind, n in _shares({k: MIX[k] for k in asked}, questions).items():
        if kind == "bridge":
            for length, share in _shares({str(h): 1.0 for h in hops}, n).items():
                drawn += draw(partial(asker.bridge, int(length)), share, f"{length}-hop bridge")
        elif kind == "null":
            drawn += draw(lambda: asker.null(rng.choice(longer)), n, kind)
        else:
            drawn += draw(getattr(asker, kind), n, kind)
    return Benchmark(
        name="synthetic",
        questions=_split(drawn, rng),
        corpus=corpus,
        answer_rule="hotpotqa",
        triples=[t for entity, passage in ids.items() for t in _told(world, entity, passage)],
    )


def _told(world: World, entity: str, passage: str) -> list[Triple]:
    """The facts that an entity's passage tells."""
    return [
        Triple(
            fact.subject,
            relation_name(fact.relation),
            fact.object,
            passage,
            world.types[entity],
            world.types.get(fact.object, "year"),
        )
        for fact in world.of(entity)
    ]


def relation_name(relation: str) -> str:
    """A relation of the world as a triple says it: "museum_city" is "city"."""
    return relation.removeprefix("museum_").replace("_", " ")


def _left_out(world: World, n: int, rng: random.Random) -> set[str]:
    """Entities for the corpus to miss: such as another entity's passage leads to."""
    leads = {obj: subject for (subject, _), obj in world.facts.items() if obj in world.types}
    gone: set[str] = set()
    for entity in rng.sample(sorted(leads), len(leads)):
        if len(gone) < n and leads[entity] not in gone:
            gone.add(entity)
    return gone


def _draw(
    taken: set[str], make: Callable[[], Question | None], n: int, kind: str
) -> list[Question]:
    """``n`` questions whose texts are not in ``taken``, which grows by them."""
    found: list[Question] = []
    fruitless = 0
    while len(found) < n and fruitless < PATIENCE:
        question = make()
        if question is None or question.question in taken:
            fruitless += 1
        else:
            taken.add(question.question)
            found.append(question)
            fruitless = 0
    if len(found) == n:
        return found
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


def _split(questions: Sequence[Question], rng: random.Random) -> dict[str, list[Question]]:
    """Deal the questions over the splits in proportion, so that each has every kind where it can.

    No two splits ask for the same facts in the end: questions whose chains end alike stay together.
    """
    splits: dict[str, list[Question]] = {name: [] for name in SPLITS}
    debt = dict.fromkeys(SPLITS, 0.0)
    taken: dict[frozenset[str], str] = {}
    for question in questions:
        for name in SPLITS:
            debt[name] += SHARES[name]
        name = taken.setdefault(ends(question), max(SPLITS, key=lambda s: debt[s]))
        debt[name] -= 1
        splits[name].append(question)
    if not all(splits.values()):
        raise SyntheticError(
            f"{len(questions)} questions leave a split empty: ask for more questions"
        )
    for name, dealt in splits.items():
        rng.shuffle(dealt)
        splits[name] = [
            q.copy(id=f"syn-{name}-{i:05d}").with_inputs("question") for i, q in enumerate(dealt)
        ]
    return splits


def ends(question: Question) -> frozenset[str]:
    """What a chain asks for in the end: its filled sub-questions on which no later one rests."""
    answers = [hop.answer for hop in question.hops]
    rested = {n for hop in question.hops for n in hop.depends_on}
    return frozenset(
        hop.filled(answers) or ""
        for place, hop in enumerate(question.hops, 1)
        if place not in rested
    )


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
