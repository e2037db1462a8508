"""The LM as a reranker: its order, its faults, and what it costs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, build, fingerprint
from programs.reranking import TOKENS, LMReranker
from retrieval import BaseRetriever, Passage
from retrieval.rerank import Reranked
from signatures.rendering import tokens

Order = Callable[[Mapping[str, Any]], Any]


def asked(order: Order) -> Any:
    def script(signature: type[dspy.Signature], inputs: Mapping[str, Any]) -> Any:
        if "order" in signature.output_fields:
            found = order(inputs)
            return None if found is None else {"order": found}
        return dict.fromkeys(signature.output_fields, "")

    return dspy.context(lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script))


def backwards(inputs: Mapping[str, Any]) -> list[int]:
    return list(range(len(inputs["context"].ids), 0, -1))


@pytest.fixture
def reranked(words: BaseRetriever) -> Reranked:
    return Reranked(words, LMReranker(), 6)


def ids(results: list[list[Passage]]) -> list[list[str]]:
    return [[p.id for p in found] for found in results]


QUERIES = ["Who founded the company?", "a museum in a city"]


def test_the_reply_s_order_is_taken(reranked: Reranked) -> None:
    plain = ids(reranked.base.search(QUERIES, 9))
    with asked(backwards):
        found = ids(reranked.search(QUERIES, 9))
    assert found == [one[5::-1] + one[6:] for one in plain]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [([3, 3, 99, 0, -1], [2, 0, 1, 3, 4, 5]), ([], [0, 1, 2, 3, 4, 5]), (None, [0, 1, 2, 3, 4, 5])],
)
def test_a_reply_that_is_none_keeps_the_order_given(
    reranked: Reranked, reply: Any, expected: list[int]
) -> None:
    (plain,) = ids(reranked.base.search(QUERIES[:1], 6))
    with asked(lambda _: reply):
        (found,) = ids(reranked.search(QUERIES[:1], 6))
    assert found == [plain[i] for i in expected]


def test_every_candidate_is_shown_shortened(world: Benchmark) -> None:
    long = [Passage(str(i), "T", f"{i} " + "word " * 5000) for i in range(6)]
    seen: list[Any] = []

    def look(inputs: Mapping[str, Any]) -> list[int]:
        seen.append(inputs["context"])
        return [1]

    with asked(look):
        LMReranker().order(["a query"], [long])
    assert seen[0].ids == ("0", "1", "2", "3", "4", "5")
    assert tokens(seen[0]) <= 6 * (TOKENS + 8)


def test_its_calls_are_the_question_s(reranked: Reranked) -> None:
    program = build("single_shot", reranked, HopBudget(passages=3))
    with asked(backwards):
        prediction = program(question="Who founded the company?")
    assert prediction.usage.by_role["reranker"].lm_calls == 1
    assert prediction.usage.total.lm_calls == 2


def test_without_a_call_left_the_order_stays(reranked: Reranked) -> None:
    plain = ids(reranked.base.search(["Who founded the company?"], 3))
    program = build("single_shot", reranked, HopBudget(passages=3, lm_calls=1))
    with asked(backwards):
        prediction = program(question="Who founded the company?")
    assert [p.id for p in prediction.evidence.passages] == plain[0]
    assert prediction.usage.total.lm_calls == 1


def test_optimizers_do_not_see_it(reranked: Reranked) -> None:
    program = build("single_shot", reranked)
    assert "rerank" not in str([name for name, _ in program.named_predictors()])
    trace: list[Any] = []
    with asked(backwards), dspy.context(trace=trace):
        program(question="Who founded the company?")
    assert {tuple(step[0].signature.output_fields) for step in trace} == {("answer",)}


def test_it_enters_the_fingerprint(reranked: Reranked, words: BaseRetriever) -> None:
    with asked(backwards):
        marks = {
            fingerprint(build("single_shot", r))
            for r in (words, reranked, Reranked(words, LMReranker(), 7))
        }
    assert len(marks) == 3


def test_a_copy_is_the_same_and_a_pickle_asks_alike(reranked: Reranked) -> None:
    assert copy.deepcopy(reranked) is reranked
    again = pickle.loads(pickle.dumps(LMReranker(50)))
    assert again.identity == LMReranker(50).identity != LMReranker().identity


def test_the_oracle_puts_gold_first(world: Benchmark, words: BaseRetriever) -> None:
    question = next(q for q in world.questions["train"] if len(q.supporting) > 1)
    reranked = Reranked(words, LMReranker(), len(world.corpus))
    program = build("single_shot", reranked, HopBudget(passages=len(question.supporting)))
    adapter = OracleAdapter(world.questions["train"])
    with dspy.context(lm=stand_in("oracle/gold"), adapter=adapter):
        prediction = program(question=question.question)
    assert {p.id for p in prediction.evidence.passages} == set(question.supporting)
    assert prediction.answer == question.answer
