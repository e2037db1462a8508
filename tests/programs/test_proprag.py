"""proprag: one search, paths of propositions, one reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from benchmarks import Benchmark, Question
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, build
from programs.knowledge import Knowledge
from programs.proprag import prior
from retrieval import Passage


def ask(program: Any, adapter: Any, question: str) -> dspy.Prediction:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def support(prediction: dspy.Prediction, question: Question) -> float:
    read = {p.id for p in prediction.evidence.ranked()}
    return len(read & {*question.supporting}) / len(question.supporting)


def test_paths_find_more_of_the_chain_than_the_search_that_seeds_them(
    chains: Benchmark,
    rare_words: Callable[[Benchmark], Any],
    knowledge_of: Callable[[Benchmark], Knowledge],
) -> None:
    retriever = rare_words(chains)
    asked = [q for q in chains.questions["dev"] if q.kind == "bridge"]
    oracle = OracleAdapter(asked)
    programs = [
        build("proprag", retriever, knowledge=knowledge_of(chains)),
        build("single_shot", retriever),
    ]
    found, searched = (
        sum(support(ask(program, oracle, q.question), q) for q in asked) / len(asked)
        for program in programs
    )
    assert found > searched + 0.1


def test_it_searches_once_reads_k_and_tells_its_paths(
    world: Benchmark, words: Any, knowledge_of: Callable[[Benchmark], Knowledge]
) -> None:
    question = next(q for q in world.questions["dev"] if q.kind == "bridge").question
    program = build("proprag", words, HopBudget(passages=3), knowledge=knowledge_of(world))
    prediction = ask(program, ScriptedAdapter(lambda *_: {"answer": "read"}), question)
    assert words.queries == [question]
    assert prediction.usage.total.lm_calls == 1
    first, *paths = prediction.evidence.hops
    assert [p.rank for p in first.passages] == [1, 2, 3]
    assert first.answer == prediction.answer == "read"
    assert paths
    assert all((h.source, h.status, h.parent) == ("graph", "graph", first.id) for h in paths)
    assert not any(h.passages for h in paths)


def test_search_scores_are_scaled_so_that_engines_compare() -> None:
    found = [Passage("a", "", "", 12.0), Passage("b", "", "", 7.0), Passage("c", "", "", 2.0)]
    assert prior(found) == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert prior(found[:1]) == {"a": 1.0}
    assert prior([]) == {}
