"""The synthetic world: gold chains follow from its facts, and its passages state them."""

from __future__ import annotations

import random
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.asking import Asker
from benchmarks.prose import SENTENCES, passage_about
from benchmarks.question import SPLITS, Benchmark, Question
from benchmarks.synthetic import (
    MISSING,
    MIX,
    SyntheticError,
    ends,
    stream_passages,
    synthetic,
)
from benchmarks.world import RELATIONS, TYPES, World, build_world

SIZES = st.integers(min_value=80, max_value=200)
SEEDS = st.integers(min_value=0, max_value=10**6)


def every(benchmark: Benchmark) -> list[Question]:
    return [q for split in SPLITS for q in benchmark.questions[split]]


def world_of(passages: int, seed: int) -> World:
    return build_world(passages + max(1, round(passages * MISSING)), seed)


def fact_asked(world: World, text: str) -> tuple[str, str]:
    """The one (subject, relation) that a filled sub-question asks for."""
    found = []
    for relation in RELATIONS:
        before, after = relation.question.split("{s}")
        match = re.fullmatch(re.escape(before) + "(.+)" + re.escape(after), text)
        if match and world.types.get(match[1]) == relation.subject:
            found.append((match[1], relation.name))
    assert len(found) == 1, f"{text!r} asks for {found}"
    return found[0]


def states(text: str, subject: str, relation: str, answer: str) -> bool:
    return any(s.format(s=subject, o=answer) in text for s in SENTENCES[relation])


@settings(max_examples=15, deadline=None)
@given(passages=SIZES, seed=SEEDS)
def test_walking_the_facts_proves_every_gold_chain(passages: int, seed: int) -> None:
    world = world_of(passages, seed)
    benchmark = synthetic(30, passages, seed)
    texts = {p.id: p for p in benchmark.corpus}
    titles = {p.title for p in benchmark.corpus}
    for question in every(benchmark):
        answers = [hop.answer for hop in question.hops]
        for place, hop in enumerate(question.hops, 1):
            assert all(n < place for n in hop.depends_on)
            subject, relation = fact_asked(world, hop.filled(answers) or "")
            assert world.look(subject, relation) == hop.answer
            if hop.passage is None:
                assert not question.answerable
                assert place == len(question.hops)
                assert not {subject, world.implied(subject, relation)} & titles
            else:
                assert texts[hop.passage].title == subject
                assert states(texts[hop.passage].text, subject, relation, hop.answer or "")


@settings(max_examples=15, deadline=None)
@given(passages=SIZES, seed=SEEDS)
def test_answers_follow_from_the_chain(passages: int, seed: int) -> None:
    benchmark = synthetic(30, passages, seed)
    assert sum(len(q) for q in benchmark.questions.values()) == 30
    for q in every(benchmark):
        last = [hop.answer for hop in q.hops]
        if q.kind in ("single", "bridge"):
            assert q.answer == last[-1]
        elif q.kind == "null":
            assert (q.answer, q.answers, q.answerable) == (None, (), False)
            assert q.hops[-1].passage is None
        elif q.answer in ("yes", "no"):
            assert (q.answer == "yes") == (last[0] == last[1])
        else:
            years = [int(a or 0) for a in last[-2:]]
            assert years[0] != years[1]
            names = (
                last[:2]
                if q.kind == "bridge_comparison"
                else re.findall(r", (.+) or (.+)\?$", q.question)[0]
            )
            assert q.answer == names[years.index(min(years))]
        if q.answerable:
            assert set(q.supporting) == {h.passage for h in q.hops}


@settings(max_examples=15, deadline=None)
@given(size=st.integers(20, 300), seed=SEEDS)
def test_passages_state_every_fact_in_30_to_80_words(size: int, seed: int) -> None:
    world = build_world(size, seed)
    assert len(world.types) == size
    assert len({name.casefold() for name in world.types}) == size
    assert set(world.types.values()) == set(TYPES)
    for entity in world.types:
        passage = passage_about(world, entity, seed)
        assert 30 <= len(passage.text.split()) <= 80
        for fact in world.of(entity):
            assert states(passage.text, entity, fact.relation, fact.object)


def test_dates_agree_with_each_other() -> None:
    world = build_world(600, 3)
    for film in world.entities["film"]:
        premiere = int(world.look(film, "premiere"))
        assert premiere >= int(world.look(world.look(film, "director"), "born")) + 20
        assert premiere >= int(world.look(world.look(film, "studio"), "founded"))
    for product in world.entities["product"]:
        assert int(world.look(product, "released")) >= int(
            world.look(world.look(product, "maker"), "founded")
        )
    for country in world.entities["country"]:
        assert world.look(world.look(country, "capital"), "country") == country


def test_names_share_words() -> None:
    words: dict[str, int] = {}
    for name in build_world(300, 0).types:
        for word in set(name.split()):
            words[word] = words.get(word, 0) + 1
    invented = [w for w, n in words.items() if n > 1 and w.endswith(tuple("aeiouxlnrsthmkd"))]
    assert len(invented) > 20


def test_one_seed_gives_one_benchmark() -> None:
    first, again, other = synthetic(40, 100, 5), synthetic(40, 100, 5), synthetic(40, 100, 6)
    assert [dict(q) for q in every(first)] == [dict(q) for q in every(again)]
    assert list(first.corpus) == list(again.corpus)
    assert {q.question for q in every(first)} != {q.question for q in every(other)}


def test_every_kind_is_in_every_split_in_proportion() -> None:
    benchmark = synthetic(200, 400, 1)
    for split, share in (("train", 0.4), ("dev", 0.3), ("test", 0.3)):
        questions = benchmark.split(split)
        assert abs(len(questions) - 200 * share) <= 4
        assert {q.kind for q in questions} == set(MIX)
        assert {len(q.hops) for q in questions if q.kind == "bridge"} == {2, 3, 4}
    ids = [q.id for q in every(benchmark)]
    assert len(set(ids)) == len(ids)


def test_splits_ask_for_different_facts() -> None:
    benchmark = synthetic(400, 300, 2)
    asked = [{ends(q) for q in benchmark.split(s)} for s in SPLITS]
    assert len(set().union(*asked)) == sum(map(len, asked))


@pytest.mark.parametrize("n", [3, 4, 7])
def test_few_questions_still_fill_every_split(n: int) -> None:
    for seed in range(5):
        benchmark = synthetic(n, 100, seed)
        assert all(benchmark.questions[s] for s in SPLITS)
        assert len(every(benchmark)) == n


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6])
def test_chains_of_exactly_n_hops(length: int) -> None:
    for q in every(synthetic(20, 200, 0, hops=(length,), kinds=("bridge",))):
        assert len(q.hops) == length
        assert [h.depends_on for h in q.hops] == [()] + [(i,) for i in range(1, length)]


def test_no_question_is_asked_twice_whatever_its_kind() -> None:
    for seed in range(5):
        asked = [q.question for q in every(synthetic(200, 400, seed, hops=(1, 2)))]
        assert len(set(asked)) == len(asked) == 200


def test_yes_and_no_are_both_common() -> None:
    asked = every(synthetic(400, 600, 0, kinds=("comparison",)))
    yes, no = (sum(q.answer == word for q in asked) for word in ("yes", "no"))
    assert min(yes, no) > 0.3 * (yes + no) > 0


def test_a_comparison_does_not_lean_to_one_side() -> None:
    asked = [
        q for q in every(synthetic(300, 600, 4, kinds=("comparison",))) if " or " in q.question
    ]
    first = sum(q.question.find(q.answer) < q.question.find(" or ") for q in asked)
    assert 0.35 < first / len(asked) < 0.65


@pytest.mark.parametrize(
    ("questions", "passages", "more"),
    [
        (2, 100, {}),
        (10, 19, {}),
        (10, 100, {"kinds": ("riddle",)}),
        (10, 100, {"hops": (0,)}),
        (10, 100, {"hops": ()}),
        (100_000, 20, {"kinds": ("single",)}),
    ],
)
def test_impossible_sizes_are_refused(questions: int, passages: int, more: dict[str, Any]) -> None:
    with pytest.raises(SyntheticError):
        synthetic(questions, passages, **more)


def test_fifty_questions_take_under_a_second_of_processor_time() -> None:
    began = time.process_time()
    synthetic(50, 300)
    assert time.process_time() - began < 1


def test_passages_stream_without_filling_memory() -> None:
    assert peak_of(lambda: sum(1 for _ in stream_passages(4_000))) < 1_800_000
    assert peak_of(lambda: list(stream_passages(4_000))) > 2_400_000


@pytest.mark.slow
def test_a_hundred_thousand_passages_need_no_more_memory() -> None:
    assert peak_of(lambda: sum(1 for _ in stream_passages(100_000))) < 2_000_000


def peak_of(work: Callable[[], object]) -> int:
    """Most bytes held at once by Python objects while ``work`` runs."""
    list(stream_passages(10))
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_streamed_ids_are_unique_and_repeat_with_the_seed() -> None:
    first = list(stream_passages(2500, 1))
    assert len({p.id for p in first}) == 2500
    assert first == list(stream_passages(2500, 1))
    assert first[:10] != list(stream_passages(10, 2))


def test_an_implied_fact_is_never_asked_as_unanswerable() -> None:
    world = build_world(60, 0)
    country = world.entities["country"][0]
    capital = world.look(country, "capital")
    told = {e: e for e in world.types if e != capital}
    asker = Asker(world, told, random.Random(0))
    asked = [q for q in (asker.null(2) for _ in range(3000)) if q is not None]
    assert asked
    assert not any(q.hops[-1].answer == country for q in asked)
