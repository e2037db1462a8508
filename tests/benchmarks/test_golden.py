"""golden: gold passages in place of a search."""

from __future__ import annotations

import pytest

from benchmarks import Benchmark, BenchmarkError
from benchmarks.golden import GoldenRetriever


def test_a_question_finds_its_gold_passages_in_the_order_of_the_chain(world: Benchmark) -> None:
    questions = world.questions["dev"]
    retriever = GoldenRetriever(questions, world.corpus)
    asked = [q for q in questions if q.supporting][:5]
    for question, found in zip(
        asked, retriever.search([q.question for q in asked], 20), strict=True
    ):
        assert tuple(p.id for p in found) == question.supporting
        assert [p.rank for p in found] == list(range(1, len(found) + 1))
        assert all(p.text for p in found)


def test_k_cuts(world: Benchmark) -> None:
    question = next(q for q in world.questions["dev"] if len(q.supporting) > 1)
    retriever = GoldenRetriever([question], world.corpus)
    (found,) = retriever.search([question.question], 1)
    assert [p.id for p in found] == [question.supporting[0]]


def test_any_other_query_is_refused(world: Benchmark) -> None:
    retriever = GoldenRetriever(world.questions["dev"], world.corpus)
    with pytest.raises(BenchmarkError, match="no gold passages are known for 'Who else"):
        retriever.search(["Who else?"], 5)


def test_a_corpus_without_any_gold_passage_is_refused(world: Benchmark) -> None:
    asked = [q for q in world.questions["dev"] if q.supporting]
    with pytest.raises(BenchmarkError, match="none of the questions' gold passages"):
        GoldenRetriever(asked, [])
