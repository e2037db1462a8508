"""PAR²-RAG: the anchor, the chain, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark, Question
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, build
from programs.budget import BudgetError
from programs.queries import worded
from retrieval import Passage

QUESTION = "Where was the founder of Acme born?"
PASSAGES = [
    Passage("acme", "Acme", "Acme was founded by Ada Quill."),
    Passage("ada", "Ada Quill", "Ada Quill was born in Tarn."),
    Passage("tarn", "Tarn", "Tarn is a town on a lake."),
    Passage("zeno", "Zeno", "Zeno sells lamps."),
]


class Asked:
    """A script that answers by output fields and keeps what it was given."""

    def __init__(self, **replies: Any) -> None:
        self.replies = replies
        self.inputs: dict[str, list[Mapping[str, Any]]] = {}

    def __call__(self, signature: Any, inputs: Mapping[str, Any]) -> Any:
        key = next(k for k in self.replies if k in signature.output_fields)
        seen = self.inputs.setdefault(key, [])
        seen.append(inputs)
        reply = self.replies[key]
        value = reply(len(seen), inputs) if callable(reply) else reply
        if value is None or isinstance(value, dict):
            return value
        return {key: value}


def go_on(follow_up: str | None, missing: str = "the birthplace") -> dict[str, Any]:
    return {"missing": missing, "sufficient": False, "follow_up": follow_up}


ENOUGH = {"missing": "", "sufficient": True, "follow_up": None}


def ask(
    words_on: Callable[..., Any], name: str, script: Asked, budget: HopBudget, **arguments: Any
) -> dspy.Prediction:
    program = build(name, words_on(PASSAGES), budget, **arguments)
    adapter = ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=QUESTION)


@pytest.fixture
def words_on(words: Any) -> Callable[..., Any]:
    return type(words)


def test_the_anchor_is_one_batched_search_over_sub_queries_seen_without_evidence(
    words_on: Any,
) -> None:
    plan = ["founder of Acme", "Ada Quill born", "FOUNDER of  acme?", "", "town on a lake"]
    script = Asked(sub_queries=plan, answer="Tarn")
    retriever = words_on(PASSAGES)
    batches: list[list[str]] = []
    search = retriever.search
    retriever.search = lambda q, k, pool=None: batches.append(list(q)) or search(q, k, pool=pool)
    program = build("coverage_anchor", retriever, HopBudget(passages=1, sub_queries=2))
    adapter = ScriptedAdapter(script)
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        prediction = program(question=QUESTION)
    assert batches == [["founder of Acme", "Ada Quill born"]]
    assert script.inputs["sub_queries"] == [{"question": QUESTION, "limit": 2}]
    assert script.inputs["answer"][0]["context"].ids == ("ada", "acme")
    assert prediction.stop_reason == "answered"
    assert prediction.usage.total.lm_calls == 2


def test_a_plan_without_words_falls_back_to_the_question(words_on: Any) -> None:
    script = Asked(sub_queries=["", "?", "null"], answer="Tarn")
    prediction = ask(words_on, "coverage_anchor", script, HopBudget())
    assert prediction.evidence.queries == (QUESTION,)


def test_passages_found_by_several_sub_queries_are_shown_once_and_by_best_rank(
    words_on: Any,
) -> None:
    script = Asked(sub_queries=["Acme founded", "Ada Quill born"], answer="Tarn")
    ask(words_on, "coverage_anchor", script, HopBudget(passages=3, context_passages=40))
    ids = script.inputs["answer"][0]["context"].ids
    assert len(ids) == len(set(ids))
    assert set(ids[:2]) == {"acme", "ada"}


def test_par2_stops_when_the_controller_finds_the_evidence_sufficient(words_on: Any) -> None:
    script = Asked(
        sub_queries=["founder of Acme"],
        sufficient=lambda n, _: ENOUGH if n == 2 else go_on("Ada Quill born"),
        answer=lambda n, _: ["", "Tarn"][n - 1],
    )
    prediction = ask(words_on, "par2", script, HopBudget(passages=1))
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "sufficient")
    assert prediction.evidence.queries == ("founder of Acme", "Ada Quill born")
    first, second = (given["context"] for given in script.inputs["sufficient"])
    assert second.startswith(str(first))
    assert script.inputs["sufficient"][1]["response"] == "Tarn"
    assert prediction.usage.total.lm_calls == 5


def test_each_follow_up_hangs_below_the_response_that_asked_for_it(words_on: Any) -> None:
    script = Asked(
        sub_queries=["founder of Acme"],
        sufficient=lambda n, _: ENOUGH if n == 2 else go_on("Ada Quill born"),
        answer="Tarn",
    )
    hops = ask(words_on, "par2", script, HopBudget(passages=1)).evidence.hops
    assert [h.role for h in hops] == ["planner", "writer", "sufficiency", "writer"]
    assert [h.parent for h in hops] == [None, 0, 1, 2]
    assert hops[1].note == "missing: the birthplace"


def test_the_chain_alone_starts_from_the_questions_own_retrieval(words_on: Any) -> None:
    script = Asked(sufficient=lambda *_: ENOUGH, answer="Tarn")
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=2))
    assert prediction.evidence.queries == (QUESTION,)
    assert prediction.usage.total.lm_calls == 2


def test_after_the_last_round_the_writer_reads_what_was_found(words_on: Any) -> None:
    queries = ["Ada Quill born", "town on a lake", "lamps"]
    script = Asked(sufficient=lambda n, _: go_on(queries[n - 1]), answer=lambda n, _: f"answer {n}")
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=1, hops=2))
    assert prediction.evidence.queries == (QUESTION, *queries[:2])
    assert len(script.inputs["sufficient"]) == 2
    assert len(script.inputs["answer"]) == 3
    assert "tarn" in script.inputs["answer"][-1]["context"].ids
    assert (prediction.answer, prediction.stop_reason) == ("answer 3", "budget")


@pytest.mark.parametrize(
    "again", [QUESTION, QUESTION.upper().rstrip("?") + "  ", "ada QUILL  born."]
)
def test_a_follow_up_asked_before_stops_the_chain(words_on: Any, again: str) -> None:
    script = Asked(
        sufficient=lambda n, _: go_on("Ada Quill born" if n == 1 else again),
        answer="Tarn",
    )
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=1))
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "repeated_query")
    assert len(prediction.evidence.queries) == 2


def test_a_follow_up_that_finds_nothing_new_stops_the_chain(words_on: Any) -> None:
    script = Asked(sufficient=lambda *_: go_on("Acme founder Ada"), answer="Tarn")
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=4))
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "no_new_passages")
    assert len(script.inputs["answer"]) == 1


@pytest.mark.parametrize("nothing", [None, "", " ? ", "null"])
def test_an_empty_follow_up_ends_the_chain_with_its_answer(words_on: Any, nothing: Any) -> None:
    script = Asked(sufficient=lambda *_: go_on(nothing), answer="Tarn")
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=1))
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "answered")
    assert len(prediction.evidence.queries) == 1


def test_a_controller_that_fails_leaves_the_response_and_says_so(words_on: Any) -> None:
    script = Asked(sufficient=lambda *_: None, answer="Tarn")
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=1))
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "answered")
    assert prediction.evidence.errors == 1


def test_a_writer_that_finds_nothing_is_an_abstention(words_on: Any) -> None:
    for hops in (0, 1):
        script = Asked(sufficient=lambda *_: go_on("Ada Quill born"), answer="")
        prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=1, hops=hops))
        assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")


def test_a_last_call_that_fails_leaves_the_latest_response(words_on: Any) -> None:
    script = Asked(
        sufficient=lambda *_: go_on("Ada Quill born"),
        answer=lambda n, _: "Tarn" if n == 1 else None,
    )
    prediction = ask(words_on, "iterative_chain", script, HopBudget(passages=1, hops=1))
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "budget")


def test_a_cut_spares_the_anchor_and_what_was_asked_for_last(words_on: Any) -> None:
    queries = ["Tarn town on a lake", "Zeno sells lamps"]
    script = Asked(
        sub_queries=["Acme founded by", "Ada Quill was born"],
        sufficient=lambda n, _: go_on(queries[n - 1]),
        answer="?",
    )
    budget = HopBudget(passages=1, hops=2, context_passages=3)
    ask(words_on, "par2", script, budget)
    assert [given["context"].ids for given in script.inputs["answer"]] == [
        ("ada", "acme"),
        ("ada", "acme", "tarn"),
        ("ada", "acme", "zeno"),
    ]


def test_an_anchor_too_large_leaves_room_for_a_follow_up(words_on: Any) -> None:
    script = Asked(
        sub_queries=["Acme founded by", "Ada Quill was born", "Tarn town on a lake"],
        sufficient=lambda n, _: go_on("Zeno sells lamps"),
        answer="?",
    )
    ask(words_on, "par2", script, HopBudget(passages=1, hops=1, context_passages=2))
    shown = script.inputs["answer"][-1]["context"].ids
    assert len(shown) == 2
    assert shown[-1] == "zeno"


def test_a_summary_stands_in_for_the_passages_and_leaves_out_the_useless(words_on: Any) -> None:
    def notes(n: int, inputs: Mapping[str, Any]) -> list[str]:
        return ["Ada founded it." if i == "acme" else "" for i in inputs["context"].ids]

    script = Asked(sub_queries=["Acme founded"], notes=notes, sufficient=ENOUGH, answer="Ada")
    prediction = ask(words_on, "par2", script, HopBudget(passages=3), summary=True)
    shown = script.inputs["answer"][0]["context"]
    assert shown.ids == ("acme",)
    assert "Ada founded it." in shown
    assert len(prediction.evidence.hops[0].passages) == 3


def test_a_summary_of_another_length_is_not_trusted(words_on: Any) -> None:
    script = Asked(sub_queries=["Acme founded"], notes=["one"], sufficient=ENOUGH, answer="Ada")
    ask(words_on, "par2", script, HopBudget(passages=3), summary=True)
    assert "founded by Ada Quill" in script.inputs["answer"][0]["context"]


def test_roles_that_may_have_their_own_lm(words: Any) -> None:
    roles = {step.role for step in build("par2", words, summary=True).steps.values()}
    assert roles == {"planner", "writer", "sufficiency", "searcher"}


def test_evidence_comes_first_in_the_prompts_of_writer_and_controller(words: Any) -> None:
    program = build("par2", words)
    for step in (program.final, program.controller):
        assert next(iter(step.signature.input_fields)) == "context"


def test_queries_are_made_fit_for_a_search() -> None:
    assert worded(["a b", " A  b? ", "", "?!", 3, "None.", "x" * 900]) == ["a b", "x" * 500]
    assert worded("who") == []


def test_bounds_out_of_range_are_refused() -> None:
    with pytest.raises(BudgetError, match="sub_queries"):
        HopBudget(sub_queries=0)


def oracle_scores(name: str, retriever: Any, questions: list[Question]) -> tuple[float, float]:
    """Share answered rightly, and share of gold passages found."""
    adapter = OracleAdapter(questions)
    program = build(name, retriever, HopBudget(passages=3, context_passages=40))
    right, found = 0, 0.0
    with dspy.context(lm=stand_in("oracle/gold"), adapter=adapter, disable_history=True):
        for question in questions:
            prediction = program(question=question.question)
            right += prediction.answer == question.answer
            pool = {p.id for p in prediction.evidence.passages}
            found += len(pool & set(question.supporting)) / len(question.supporting)
    return right / len(questions), found / len(questions)


def test_at_the_ceiling_par2_beats_single_shot_and_neither_module_alone_beats_it(
    rare_words: Any, chains: Benchmark
) -> None:
    questions = [q for q in chains.questions["dev"] if q.answerable]
    scores = {
        name: oracle_scores(name, rare_words(chains), questions)
        for name in ("single_shot", "coverage_anchor", "iterative_chain", "par2")
    }
    assert scores["par2"] > scores["single_shot"]
    assert scores["par2"] >= scores["coverage_anchor"]
    assert scores["par2"] >= scores["iterative_chain"]
    assert scores["par2"][0] > 0.9


def test_a_question_without_an_answer_is_given_none(rare_words: Any, chains: Benchmark) -> None:
    nulls = [q for split in chains.questions.values() for q in split if not q.answerable]
    assert nulls
    adapter = OracleAdapter(nulls)
    program = build("par2", rare_words(chains))
    with dspy.context(lm=stand_in("oracle/gold"), adapter=adapter, disable_history=True):
        predictions = [program(question=q.question) for q in nulls]
    assert {p.stop_reason for p in predictions} == {"unanswerable"}
