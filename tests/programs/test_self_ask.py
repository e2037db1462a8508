"""self_ask: follow-ups one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget
from programs.self_ask import NOT_FOUND, SelfAsk

QUESTION = "Who employs the painter of Blue Harbour?"
NEITHER: dict[str, Any] = {"follow_up": None, "answer": None}


class Script:
    """The asker's replies and the resolver's answers, in order; "joined" from facts, "written"
    from passages. Keeps what the asker was shown."""

    def __init__(self, *asker: Mapping[str, Any] | None, found: tuple[str | None, ...]) -> None:
        self.asker, self.found = list(asker), list(found)
        self.facts: list[list[str]] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        if "follow_up" in signature.output_fields:
            self.facts.append(inputs["facts"])
            return self.asker.pop(0)
        if "facts" in inputs:
            return {"answer": "joined"}
        if str(signature.output_fields["answer"].annotation) == "<class 'str'>":
            return {"answer": "written"}
        return {"answer": self.found.pop(0)}


def follow(query: str) -> dict[str, Any]:
    return {"follow_up": query, "answer": None}


def ask(program: SelfAsk, script: Any, question: str = QUESTION) -> Any:
    adapter = script if isinstance(script, OracleAdapter) else ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def test_follow_ups_are_searched_and_answered_until_none_is_needed(words: Any) -> None:
    script = Script(
        follow("Who painted Blue Harbour?"),
        follow("Who employs Ida Moor?"),
        {"follow_up": None, "answer": "Orla Press"},
        found=("Ida Moor", None),
    )
    prediction = ask(SelfAsk(words), script)
    assert (prediction.answer, prediction.stop_reason) == ("Orla Press", "answered")
    assert words.queries == ["Who painted Blue Harbour?", "Who employs Ida Moor?"]
    assert [(h.parent, h.answer) for h in prediction.evidence.hops] == [
        (None, "Ida Moor"),
        (0, None),
    ]
    assert script.facts[-1] == [
        "Who painted Blue Harbour? → Ida Moor",
        f"Who employs Ida Moor? → {NOT_FOUND}",
    ]
    assert prediction.usage.total.lm_calls == 5


def test_no_answer_goes_without_evidence(words: Any) -> None:
    script = Script({"follow_up": None, "answer": "from memory"}, found=("Orla Press",))
    prediction = ask(SelfAsk(words), script)
    assert prediction.answer == "Orla Press"
    assert words.queries == [QUESTION]


def test_a_repeated_follow_up_ends_with_the_facts(words: Any) -> None:
    script = Script(follow("Who painted it?"), follow("who painted it"), found=("Ida Moor",))
    prediction = ask(SelfAsk(words), script)
    assert (prediction.answer, prediction.stop_reason) == ("joined", "repeated_query")
    assert words.queries == ["Who painted it?"]


def test_without_a_fact_the_passages_answer(words: Any) -> None:
    script = Script(follow("Who painted it?"), NEITHER, found=(None,))
    assert ask(SelfAsk(words), script).answer == "written"


@pytest.mark.parametrize("hops", [0, 2])
def test_the_cap_counts_follow_ups(words: Any, hops: int) -> None:
    script = Script(*(follow(f"Who is {n}?") for n in range(9)), found=("a", "b", "c", "d"))
    prediction = ask(SelfAsk(words, HopBudget(hops=hops)), script)
    assert len(words.queries) == hops + 1
    assert (prediction.answer, prediction.stop_reason) == ("joined", "budget")


def test_an_answer_after_the_last_follow_up_counts(words: Any) -> None:
    script = Script(follow("Who?"), {"follow_up": "", "answer": "Ada"}, found=("Ida",))
    prediction = ask(SelfAsk(words, HopBudget(hops=0)), script)
    assert (prediction.answer, prediction.stop_reason) == ("Ada", "answered")


def test_nothing_in_words_is_answered_from_the_facts(words: Any) -> None:
    script = Script(
        follow("Who painted it?"), {"follow_up": None, "answer": "N/A"}, found=("Ida Moor",)
    )
    assert ask(SelfAsk(words), script).answer == "joined"


def test_an_asker_that_fails_is_recorded_and_covered(words: Any) -> None:
    script = Script(None, None, found=("Orla Press",))
    prediction = ask(SelfAsk(words), script)
    assert prediction.answer == "Orla Press"
    assert prediction.evidence.errors == 1


def test_the_oracle_answers_chains_and_gives_up_on_questions_without_an_answer(
    chains: Benchmark, rare_words: Any
) -> None:
    asked = chains.questions["dev"]
    program = SelfAsk(rare_words(chains))
    answered = 0
    for question in asked:
        prediction = ask(program, OracleAdapter([question]), question.question)
        assert not prediction.evidence.errors
        if question.answerable:
            answered += prediction.answer == question.answer
        else:
            assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")
    assert answered / sum(q.answerable for q in asked) > 0.8
