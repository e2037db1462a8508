"""agentic: the controller's loop."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget
from programs.agentic import Agentic, names_something
from programs.evidence import Evidence
from retrieval import Passage

QUESTION = "Who is the mayor of the city where Ida Moor was born?"


class Script:
    """Verdicts in order for the controller, "written" for the writer; keeps what it was shown."""

    def __init__(self, *verdicts: Mapping[str, Any]) -> None:
        self.verdicts = list(verdicts)
        self.shown: list[Mapping[str, Any]] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.shown.append(inputs)
        if "done" not in signature.output_fields:
            return {"answer": "written"}
        return self.verdicts.pop(0)


def more(query: str | None) -> dict[str, Any]:
    return {"done": False, "answer": None, "next_query": query}


def ask(program: Agentic, script: Any, question: str = QUESTION) -> dspy.Prediction:
    adapter = script if isinstance(script, OracleAdapter) else ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def test_done_ends_with_the_controllers_answer_and_no_further_call(words: Any) -> None:
    script = Script({"done": True, "answer": "Ada Quill", "next_query": None})
    prediction = ask(Agentic(words), script)
    assert (prediction.answer, prediction.stop_reason) == ("Ada Quill", "answered")
    assert prediction.usage.total.lm_calls == 1
    assert words.queries == [QUESTION]


def test_next_queries_are_searched_in_a_chain(words: Any) -> None:
    script = Script(
        more("birthplace of Ida Moor"),
        more("mayor of Moor"),
        {"done": True, "answer": "Ada", "next_query": None},
    )
    prediction = ask(Agentic(words), script)
    assert words.queries == [QUESTION, "birthplace of Ida Moor", "mayor of Moor"]
    assert [(h.parent, h.depth) for h in prediction.evidence.hops] == [(None, 0), (0, 1), (1, 2)]
    assert script.shown[-1]["queries"] == words.queries


def test_context_only_grows_at_its_end(words: Any) -> None:
    script = Script(*(more(f"Ida Moor {n}") for n in range(9)))
    ask(Agentic(words, HopBudget(hops=3, context_passages=50, context_tokens=9000)), script)
    texts = [str(shown["context"]) for shown in script.shown if "queries" in shown]
    assert len(texts) == 4
    assert all(b.startswith(a) for a, b in itertools.pairwise(texts))


@pytest.mark.parametrize("hops", [0, 2])
def test_at_the_cap_the_writer_answers(words: Any, hops: int) -> None:
    script = Script(*(more(f"Ida Moor {n}") for n in range(9)))
    prediction = ask(Agentic(words, HopBudget(hops=hops)), script)
    assert len(words.queries) == hops + 1
    assert (prediction.answer, prediction.stop_reason) == ("written", "budget")


def test_a_repeated_query_stops_the_loop(words: Any) -> None:
    prediction = ask(Agentic(words), Script(more(QUESTION.upper())))
    assert (prediction.answer, prediction.stop_reason) == ("written", "repeated_query")
    assert words.queries == [QUESTION]


def test_a_query_without_a_name_goes_back_once(words: Any) -> None:
    script = Script(
        more("mayor of {answer_1}"),
        more("mayor of the city in question"),
        {"done": True, "answer": "Ada", "next_query": None},
    )
    ask(Agentic(words), script)
    assert "no name" in script.shown[1]["remark"]
    assert words.queries == [QUESTION, "mayor of the city in question"]


def test_done_without_an_answer_is_written_from_the_pool(words: Any) -> None:
    prediction = ask(Agentic(words), Script({"done": True, "answer": " ", "next_query": None}))
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")


def test_nothing_in_words_is_no_answer(words: Any) -> None:
    prediction = ask(Agentic(words), Script({"done": True, "answer": "null", "next_query": None}))
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")
    assert prediction.evidence.hops[-1].answer is None


def test_no_next_query_ends_the_loop(words: Any) -> None:
    prediction = ask(Agentic(words), Script(more("null")))
    assert (prediction.answer, prediction.stop_reason) == ("written", "answered")


def test_a_cut_keeps_the_first_and_the_latest_retrieval(words: Any) -> None:
    script = Script(*(more(f"Ida Moor {n} {'x' * n}") for n in range(9)))
    budget = HopBudget(passages=2, hops=4, context_passages=4, context_tokens=9000)
    prediction = ask(Agentic(words, budget), script)
    hops = prediction.evidence.hops
    last = [shown for shown in script.shown if "queries" in shown][-1]
    assert {p.id for hop in (hops[0], hops[-1]) for p in hop.passages} <= set(last["context"].ids)


def test_the_oracle_answers_chains_and_gives_up_on_questions_without_an_answer(
    chains: Benchmark, rare_words: Any
) -> None:
    asked = chains.questions["dev"]
    program = Agentic(rare_words(chains))
    answered = 0
    for question in asked:
        prediction = ask(program, OracleAdapter([question]), question.question)
        assert not prediction.evidence.errors
        if question.answerable:
            answered += prediction.answer == question.answer
        else:
            assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")
    assert answered / sum(q.answerable for q in asked) > 0.8


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("who was the architect", False),
        ("employer of that person", False),
        ("director of it", False),
        ("mayor of the isles", True),
        ("length of orla", True),
        ("opened by 1948", True),
        ("谁是市长", True),
    ],
)
def test_small_words_of_titles_name_nothing(query: str, named: bool) -> None:
    evidence = Evidence()
    passages = [Passage("1", "The Orla Bridge", "a"), Passage("2", "Lord of the Isles 1948", "b")]
    evidence.add(role="controller", query="q", passages=passages)
    assert names_something(query, "When was its architect born?", evidence) is named


def test_a_title_of_small_words_is_a_name() -> None:
    evidence = Evidence()
    evidence.add(role="controller", query="q", passages=[Passage("1", "Her (film)", "a")])
    assert names_something("who directed Her", "Who made it?", evidence)


def test_names_are_those_of_question_and_passages() -> None:
    evidence = Evidence()
    passage = Passage(id="1", title="blue harbour", text="It was painted by Ida Moor in 1948.")
    evidence.add(role="controller", query="q", passages=[passage])
    for query in ("employer of ida moor", "harbour", "what happened in 1948", "Zorn's works"):
        assert names_something(query, "Which works did Zorn buy?", evidence)
    for query in ("employer of the painter", "who is the employer of it", "Moor and {answer_1}"):
        assert not names_something(query, "Which works did Zorn buy?", evidence)
