"""decompose: plans, waves and candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, build
from programs.decompose import Decompose

QUESTION = "In which city did the founder of Orla Press who was a painter live?"
CHAIN = ["Who founded Orla Press?", "Where did {answer_1} live?"]


class Script:
    """A plan, and the resolver's answers by question; "joined" from facts."""

    def __init__(self, plan: Sequence[str], found: Mapping[str, Sequence[str]]) -> None:
        self.plan, self.found = list(plan), found
        self.facts: list[list[str]] = []
        self.limits: list[int] = []

    def __call__(
        self, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if "kind" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": self.plan}
        if "facts" in inputs:
            self.facts.append(inputs["facts"])
            return {"answer": "joined"}
        answers = list(self.found.get(inputs["question"], ()))
        if "answers" in signature.output_fields:
            self.limits.append(inputs["limit"])
            return {"answers": answers}
        return {"answer": answers[0] if answers else None}


FOUND = {
    "Who founded Orla Press?": ["Ida Moor", "Ben Tamm", "ida moor", "null", "Cy Ulm"],
    "Where did Ida Moor live?": ["Bonn"],
    "Where did Ben Tamm live?": ["Graz", "Linz"],
}


def ask(program: Decompose, adapter: Any, question: str = QUESTION) -> Any:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
        return program(question=question)


def run(words: Any, script: Script, candidates: int = 1) -> Any:
    return ask(Decompose(words, HopBudget(candidates=candidates)), ScriptedAdapter(script))


class Batches:
    """A retriever that keeps its batches."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.batches: list[list[str]] = []

    def search(self, queries: Sequence[str], k: int, pool: int | None = None) -> Any:
        self.batches.append(list(queries))
        return self.inner.search(queries, k, pool=pool)


def test_one_candidate_is_one_chain(words: Any) -> None:
    script = Script(CHAIN, FOUND)
    prediction = run(words, script)
    assert words.queries == ["Who founded Orla Press?", "Where did Ida Moor live?"]
    assert script.limits == []
    assert all(not h.candidates for h in prediction.evidence.hops)


def test_each_candidate_is_searched_in_one_batch_below_the_hop_that_found_it(words: Any) -> None:
    script, batches = Script(CHAIN, FOUND), Batches(words)
    prediction = run(batches, script, candidates=2)
    assert batches.batches == [
        ["Who founded Orla Press?"],
        ["Where did Ida Moor live?", "Where did Ben Tamm live?"],
    ]
    hops = prediction.evidence.hops
    assert [(h.parent, h.answer, h.candidates) for h in hops] == [
        (None, "Ida Moor", ("Ben Tamm",)),
        (0, "Bonn", ()),
        (0, "Graz", ("Linz",)),
    ]
    assert set(script.limits) == {2}


def test_the_synthesizer_sees_which_candidate_led_where(words: Any) -> None:
    script = Script(CHAIN, FOUND)
    assert run(words, script, candidates=3).answer == "joined"
    assert script.facts == [
        [
            "Who founded Orla Press? → Ida Moor or Ben Tamm or Cy Ulm",
            "Where did Ida Moor live? → Bonn",
            "Where did Ben Tamm live? → Graz or Linz",
        ]
    ]


def test_several_answers_to_a_single_sub_question_are_synthesized(words: Any) -> None:
    single = Script(["Who founded Orla Press?"], FOUND)
    assert run(words, single, candidates=2).answer == "joined"
    assert run(words, single).answer == "Ida Moor"


def test_the_breadth_does_not_multiply(words: Any) -> None:
    plan = [*CHAIN, "When did {answer_1} come to {answer_2}?", "What happened in {answer_3}?"]
    many = {q: ["A", "B", "C"] for q in plan}
    for who in "ABC":
        many[f"Where did {who} live?"] = ["X", "Y", "Z"]
        for where in "XYZ":
            many[f"When did {who} come to {where}?"] = ["1", "2", "3"]
    prediction = run(words, Script(plan, many), candidates=3)
    assert len(prediction.evidence.hops) == 1 + 3 + 3 + 3


def test_sub_questions_that_become_equal_are_searched_once(words: Any) -> None:
    plan = ["Who founded A?", "Who founded B?", "Where did {answer_1} live?"]
    plan += ["Where did {answer_2} live?", "How far is {answer_3} from {answer_4}?"]
    same = {"Who founded A?": ["Ida"], "Who founded B?": ["Ida"], "Where did Ida live?": ["Bonn"]}
    run(words, Script(plan, same))
    assert words.queries == [
        "Who founded A?",
        "Who founded B?",
        "Where did Ida live?",
        "How far is Bonn from Bonn?",
    ]


def test_candidates_cost_the_oracle_nothing(chains: Benchmark, rare_words: Any) -> None:
    asked = chains.questions["dev"]
    retriever = rare_words(chains)
    for question in asked:
        one, three = (
            ask(Decompose(retriever, HopBudget(candidates=n)), OracleAdapter([question]), q)
            for n, q in ((1, question.question), (3, question.question))
        )
        assert not three.evidence.errors
        assert (one.answer, one.evidence.queries) == (three.answer, three.evidence.queries)


def test_a_writer_that_fails_without_any_answer_is_a_failure_and_no_abstention(words: Any) -> None:
    from benchmarks.scripted import ScriptedAdapter, stand_in

    def script(signature: Any, inputs: Any) -> Any:
        if "sub_questions" in signature.output_fields:
            return {"kind": "single", "sub_questions": ["Who founded it?"]}
        return None if "Combine what" in signature.instructions else {"answer": None}

    with dspy.context(lm=stand_in("scripted/x"), adapter=ScriptedAdapter(script)):
        prediction = build("decompose", words)(question="Who founded Norvale?")
    assert prediction.stop_reason == "error"
    assert prediction.error


def test_what_was_found_before_the_calls_ran_out_is_kept(words: Any) -> None:
    plan = ["Who painted Blue Harbour?", "Who founded Orla Press?", "Where is Tamsin?"]
    script = Script(plan, {q: [f"answer of {q}"] for q in [*plan, QUESTION]})
    program = Decompose(words, HopBudget(lm_calls=4))
    with dspy.context(lm=stand_in("scripted/lm"), adapter=ScriptedAdapter(script)):
        prediction = program(question=QUESTION)
    assert prediction.stop_reason == "budget"
    answers = [hop.answer for hop in prediction.evidence.hops]
    assert answers == [f"answer of {plan[0]}", f"answer of {plan[1]}", None]
