"""long_context: the corpus in the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import dspy

from benchmarks import Benchmark
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget
from programs.long_context import LongContext
from programs.scope import WINDOW
from retrieval import Passage

QUESTION = "Who is the mayor of the city where Ida Moor was born?"


class Shown:
    """Keeps the context that the writer was shown."""

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.context = inputs["context"]
        return {"answer": "written"}


def ask(program: LongContext, window: int | None = None) -> tuple[dspy.Prediction, Any]:
    script = Shown()
    more = {} if window is None else {WINDOW: lambda lm: window}
    with dspy.context(
        lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script), disable_history=True, **more
    ):
        return program(question=QUESTION), script.context


def listing(words: Any) -> Any:
    """The word retriever, able to list its corpus."""

    class Listing(type(words)):  # type: ignore[misc]
        def corpus(self) -> Iterator[Passage]:
            return iter(self.passages)

    return Listing(words.passages)


def test_a_small_corpus_is_read_whole_in_its_own_order(words: Any) -> None:
    prediction, context = ask(LongContext(listing(words)))
    assert context.ids == tuple(p.id for p in words.passages)
    (hop,) = prediction.evidence.hops
    assert len(hop.passages) == len(words.passages)
    assert hop.passages[0].rank == 1
    assert "the whole corpus" in hop.note
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")
    assert prediction.usage.total.lm_calls == 1


def test_every_question_has_the_same_context_where_the_corpus_fits(words: Any) -> None:
    retriever = listing(words)
    contexts = []
    for question in ("Ida Moor", "Where?"):
        script = Shown()
        with dspy.context(lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script)):
            LongContext(retriever)(question=question)
        contexts.append(script.context)
    assert contexts[0] == contexts[1]


def test_what_does_not_fit_the_window_is_left_out_worst_first(words: Any) -> None:
    prediction, context = ask(LongContext(listing(words)), window=1200)
    best = words.search([QUESTION], 40)[0]
    shown = len(context.ids)
    assert 1 <= shown < len(words.passages)
    assert context.ids == tuple(p.id for p in best[:shown])
    assert [p.id for p in prediction.evidence.passages] == list(context.ids)
    assert len(context) / 3.5 < 1200


def test_a_larger_window_shows_more(words: Any) -> None:
    small, large = (ask(LongContext(words), window=w)[1] for w in (1000, 1800))
    assert len(small.ids) < len(large.ids)


def test_the_budget_bounds_the_window(words: Any) -> None:
    budget = HopBudget(passages=1000, context_passages=100_000, context_tokens=300)
    _, context = ask(LongContext(words, budget), window=1_000_000)
    assert len(context) / 3.5 < 300


def test_passages_beyond_the_search_follow_and_are_no_queries(words: Any) -> None:
    budget = HopBudget(passages=15, context_passages=100_000, context_tokens=1_000_000)
    prediction, context = ask(LongContext(listing(words), budget))
    first, second, third = prediction.evidence.hops
    assert [h.source for h in prediction.evidence.hops] == ["search", "corpus", "corpus"]
    assert (second.parent, third.parent) == (first.id, first.id)
    assert prediction.evidence.queries == (QUESTION,)
    ranks = [p.rank for h in prediction.evidence.hops for p in h.passages]
    assert ranks == list(range(1, len(words.passages) + 1))
    assert prediction.evidence.ranked()[:15] == first.passages
    assert len(context.ids) == len(words.passages)


def test_a_retriever_that_lists_nothing_is_read_as_far_as_it_ranks(words: Any) -> None:
    budget = HopBudget(passages=15, context_passages=100_000, context_tokens=1_000_000)
    prediction, context = ask(LongContext(words, budget))
    assert len(context.ids) == 15
    assert len(prediction.evidence.hops) == 1


def test_a_passage_longer_than_the_window_is_shortened(world: Benchmark, words: Any) -> None:
    long = Passage("long", "Ida Moor", "was born in the mayor city " * 2000)
    retriever = type(words)([long, *world.corpus])
    _, context = ask(LongContext(retriever), window=1000)
    assert context.ids == ("long",)
    assert len(context) / 3.5 < 1000


def test_demonstrations_take_their_room(words: Any) -> None:
    program = LongContext(words)
    _, before = ask(program, window=1800)
    program.final.demos = [dspy.Example(context="word " * 300, question="q", answer="a")]
    _, after = ask(program, window=1800)
    assert len(after.ids) < len(before.ids)
