"""What a retriever is trained on: gold never counts as wrong, sets count alike."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import Benchmark, GoldHop, Question
from optimize.retriever_batches import Batch, Sampler
from optimize.retriever_examples import TrainingError, TrainingSet, dev_set, training_set
from retrieval import Passage, build_index, open_index
from retrieval.engines import IndexRetriever
from retrieval.segment import content


@pytest.fixture(scope="module")
def index(world: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> IndexRetriever:
    folder = tmp_path_factory.mktemp("words") / "index"
    build_index(world.corpus, folder, engine="bm25")
    return open_index(folder)


@pytest.fixture(scope="module")
def questions(world: Benchmark) -> list[Question]:
    return [q for split in world.questions.values() for q in split if q.answerable]


@pytest.fixture(scope="module")
def every(questions: list[Question], index: IndexRetriever) -> TrainingSet:
    return training_set("world", questions, index)


def batches(sets: list[TrainingSet], count: int, **settings: float) -> list[Batch]:
    chosen = {"size": 6, "negatives": 2, "whole": 0.5, "seed": 0, **settings}
    return list(islice(Sampler(sets, **chosen), count))  # type: ignore[arg-type]


def test_sub_questions_are_asked_with_the_earlier_answers_in_place(index: IndexRetriever) -> None:
    first, second = index.index.passage(0), index.index.passage(1)
    question = Question.of(
        id="q",
        question="Where was the founder born?",
        answer="Tamsin",
        supporting=[first.id, second.id],
        hops=[
            GoldHop(first.id, "Who founded Norvale?", "Ada Quill"),
            GoldHop(second.id, "Where was {answer_1} born?", "Tamsin"),
        ],
        meta={"context": [first.id, index.index.passage(2).id, "elsewhere"]},
    )
    unknown = Question.of(
        id="r",
        question="Where was the founder born?",
        answer="Tamsin",
        supporting=[second.id],
        hops=[GoldHop(first.id, "Who?"), GoldHop(second.id, "Where was {answer_1} born?")],
    )
    made = training_set("own", [question] * 7 + [unknown], index).questions
    assert [(p.text, p.positives) for p in made[0].parts] == [
        ("Who founded Norvale?", (first.id,)),
        ("Where was Ada Quill born?", (second.id,)),
    ]
    assert made[0].whole.positives == (first.id, second.id)
    assert made[0].distractors == (index.index.passage(2).id,)
    assert made[-1].parts == ()


def test_what_the_retriever_finds_is_a_negative_unless_it_is_gold(every: TrainingSet) -> None:
    for question in every.questions:
        for query in (question.whole, *question.parts):
            assert every.mined[query.text]
            assert not set(every.mined[query.text]) & set(question.gold)
            assert {*every.mined[query.text], *question.gold} <= set(every.texts)


def test_questions_that_cannot_be_trained_on_are_named(
    questions: list[Question], index: IndexRetriever
) -> None:
    bad = [
        Question.of(id="none", question="Who?", answer=None, answerable=False),
        Question.of(id="bare", question="Who?", answer="A"),
        Question.of(id="lost", question="Who?", answer="A", supporting=["nowhere"]),
    ]
    found = training_set("world", [*bad, *questions], index)
    assert found.faults == (
        "question none is unanswerable",
        "question bare names no gold passage",
        "question lost: passage 'nowhere' is not in the index",
    )
    with pytest.raises(TrainingError, match=r"world: 7 of 10 questions .* at least 8 .*none is"):
        training_set("world", [*bad, *questions[:7]], index)
    with pytest.raises(TrainingError, match=r"none of 3 dev questions .*index"):
        dev_set("world", bad, index, 100)


def test_no_passage_of_a_batch_answers_another_query_of_it(
    every: TrainingSet, world: Benchmark
) -> None:
    text = {p.id: content(p) for p in world.corpus}
    gold: dict[str, set[str]] = {}
    for question in every.questions:
        for query in (question.whole, *question.parts):
            gold.setdefault(query.text, set()).update(text[i] for i in question.gold)
    for batch in batches([every], 40):
        assert len(batch.queries) == len(batch.passages) > 0
        for place, query in enumerate(batch.queries):
            assert batch.passages[place][0] in gold[query]
            assert len(batch.passages[place]) == 3
            others = [t for i, ts in enumerate(batch.passages) for t in ts[i == place :]]
            assert not gold[query] & set(others)


def test_batches_come_again_with_the_seed_and_not_with_another(every: TrainingSet) -> None:
    assert batches([every], 5) == batches([every], 5)
    assert batches([every], 5) != batches([every], 5, seed=1)


def test_a_set_of_few_questions_is_asked_as_often_as_one_of_many(
    questions: list[Question], index: IndexRetriever
) -> None:
    few = training_set("few", questions[:8], index)
    many = training_set("many", questions[8:], index)
    ours = {m.whole.text for m in few.questions}
    made = batches([few, many], 60, size=4, whole=1.0)
    asked = Counter(query in ours for batch in made for query in batch.queries)
    assert 0.8 < asked[True] / asked[False] < 1.25


def test_a_question_is_asked_itself_as_often_as_told(every: TrainingSet) -> None:
    whole = {m.whole.text for m in every.questions}
    for share in (0.0, 1.0):
        for batch in batches([every], 10, whole=share):
            parted = [q for q in batch.queries if q not in whole]
            assert not parted if share else parted


def test_a_dev_pool_holds_the_gold_and_then_the_nearest(
    questions: list[Question], index: IndexRetriever, world: Benchmark
) -> None:
    whole = dev_set("world", questions[:4], index, 1000)
    assert set(whole.pool) == {p.id for p in world.corpus}
    part = dev_set("world", questions[:4], index, 15)
    gold = {i for q in questions[:4] for i in q.supporting}
    assert gold <= set(part.pool)
    assert len(part.pool) == 15
    assert set(dev_set("world", questions[:4], index, 1).pool) == gold


def test_a_corpus_of_gold_passages_alone_is_refused(tmp_path: Path) -> None:
    build_index([Passage("a", "", "Ada Quill founded Norvale.")], tmp_path / "one", engine="bm25")
    asked = [
        Question.of(id=str(n), question=f"Who founded it, {n}?", answer="x", supporting=["a"])
        for n in range(9)
    ]
    one = training_set("one", asked, open_index(tmp_path / "one"))
    with pytest.raises(TrainingError, match="no query has 2 passages that don't answer it"):
        batches([one], 1)


def test_one_passage_under_two_ids_is_one_passage(tmp_path: Path) -> None:
    same = "Quill. Ada Quill founded Norvale."
    sets = []
    for name in "ab":
        corpus = [Passage(f"{name}0", "", same)]
        corpus += [Passage(f"{name}{n}", "", f"Norvale number {name} {n}.") for n in range(1, 9)]
        build_index(corpus, tmp_path / name, engine="bm25")
        asked = [
            Question.of(
                id=f"{name}{n}", question=f"Norvale {name} {n}?", answer="x", supporting=[p.id]
            )
            for n, p in enumerate(corpus)
        ]
        sets.append(training_set(name, asked, open_index(tmp_path / name)))
    for batch in batches(sets, 30, size=4, negatives=1):
        texts = [t for ts in batch.passages for t in ts]
        assert texts.count(same) < 2 or same not in [ts[0] for ts in batch.passages]
