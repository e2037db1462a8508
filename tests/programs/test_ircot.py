"""ircot: thoughts are queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget
from programs.ircot import IRCoT, first_sentence

QUESTION = "Who employs the painter of Blue Harbour?"
ROOM = HopBudget(hops=8, context_passages=100, context_tokens=50_000)


class Script:
    """Thoughts in order, "read" from the reader. Keeps what each was shown."""

    def __init__(self, *thoughts: str, done_after: int | None = None) -> None:
        self.thoughts = list(thoughts)
        self.done_after = done_after
        self.reasoner: list[Mapping[str, Any]] = []
        self.reader: list[Mapping[str, Any]] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if "thoughts" not in inputs:
            self.reader.append(dict(inputs))
            return {"answer": "read"}
        self.reasoner.append(dict(inputs))
        said = len(self.reasoner)
        return {"thought": self.thoughts[said - 1], "done": said == self.done_after}


def ask(program: IRCoT, script: Any, question: str = QUESTION) -> Any:
    adapter = script if isinstance(script, OracleAdapter) else ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def many(n: int) -> list[str]:
    return [f"River number {i} rises in country {i * i}." for i in range(n)]


def test_each_thought_is_the_next_query_and_joins_the_chain(words: Any) -> None:
    script = Script("Ida Moor painted it.", "Orla employs Ida Moor.", "Orla it is.", done_after=3)
    prediction = ask(IRCoT(words, ROOM), script)
    assert words.queries == [QUESTION, "Ida Moor painted it.", "Orla employs Ida Moor."]
    assert script.reasoner[-1]["thoughts"] == words.queries[1:]
    assert [h.parent for h in prediction.evidence.hops] == [None, 0, 1]
    assert (prediction.answer, prediction.stop_reason) == ("read", "answered")


def test_the_reader_sees_the_pool_and_not_the_thoughts(words: Any) -> None:
    script = Script("Ida Moor painted it.", "Done.", done_after=2)
    prediction = ask(IRCoT(words, ROOM), script)
    assert set(script.reader[0]) == {"context", "question"}
    assert script.reader[0]["context"].ids == tuple(p.id for p in prediction.evidence.passages)


def test_the_papers_sign_ends_the_chain_without_a_search(words: Any) -> None:
    prediction = ask(IRCoT(words), Script("So the answer is: Orla."))
    assert prediction.stop_reason == "answered"
    assert words.queries == [QUESTION]


def test_the_pool_only_grows_at_its_end(words: Any) -> None:
    script = Script(*many(4), done_after=4)
    ask(IRCoT(words, ROOM), script)
    texts = [str(shown["context"]) for shown in script.reasoner]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


@pytest.mark.parametrize("cap", [3, 5, 7])
def test_no_more_than_the_cap_is_shown_and_a_full_pool_ends_the_chain(words: Any, cap: int) -> None:
    script = Script(*(p.title for p in words.passages))
    budget = HopBudget(passages=3, hops=20, context_passages=cap, context_tokens=50_000)
    prediction = ask(IRCoT(words, budget), script)
    assert prediction.stop_reason == "budget"
    assert len(script.reader[0]["context"].ids) == cap
    before_last = {p.id for hop in prediction.evidence.hops[:-1] for p in hop.passages}
    assert len(before_last) < cap


@pytest.mark.parametrize("hops", [0, 2])
def test_the_cap_counts_sentences(words: Any, hops: int) -> None:
    script = Script(*many(9))
    prediction = ask(IRCoT(words, replace(ROOM, hops=hops)), script)
    assert (len(script.reasoner), len(words.queries)) == (hops, hops + 1)
    assert (prediction.answer, prediction.stop_reason) == ("read", "budget")


def test_a_repeated_thought_ends_the_chain(words: Any) -> None:
    prediction = ask(IRCoT(words), Script("Ida Moor painted it.", "ida moor  painted it"))
    assert prediction.stop_reason == "repeated_query"
    assert len(words.queries) == 2


def test_a_thought_without_a_word_is_read_from_the_pool(words: Any) -> None:
    assert ask(IRCoT(words), Script("  ")).stop_reason == "answered"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Ida painted it. Orla employs her.", "Ida painted it."),
        ("J. R. Moor was born in St. Orla.", "J. R. Moor was born in St. Orla."),
        ("It opened in 1948. Then it closed.", "It opened in 1948."),
        ("He met Prof. Jones there. Then he left.", "He met Prof. Jones there."),
        ("Capt. Moor sold Orla Inc. Shares fell.", "Capt. Moor sold Orla Inc. Shares fell."),
        ("The answer is no. It is open.", "The answer is no."),
        ("no end mark", "no end mark"),
        ("It grew by 3.5 percent\nin May", "It grew by 3.5 percent in May"),
        ("", ""),
        (None, ""),
    ],
)
def test_only_the_first_sentence_counts(text: object, first: str) -> None:
    assert first_sentence(text) == first


def test_the_oracle_answers_chains_and_gives_up_on_questions_without_an_answer(
    chains: Benchmark, rare_words: Any
) -> None:
    asked = chains.questions["dev"]
    program = IRCoT(rare_words(chains))
    answered = 0
    for question in asked:
        prediction = ask(program, OracleAdapter([question]), question.question)
        assert not prediction.evidence.errors
        if question.answerable:
            answered += prediction.answer == question.answer
        else:
            assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")
    assert answered / sum(q.answerable for q in asked) > 0.8
