"""Feedback: each predictor hears what its own reply did to the chain."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.question import GoldHop, Question
from optimize.feedback import Call, HopFeedback, told
from optimize.objective import Objective
from programs import Evidence, build
from retrieval import Passage
from signatures import Context

FOUNDED = Passage("p1", "Norvale", "Norvale was founded by Ada Quill.")
BORN = Passage("p2", "Ada Quill", "Ada Quill was born in Tamsin.")
OTHER = Passage("p3", "Other", "Something else.")
QUESTION = Question.of(
    id="q",
    question="Where was the founder of Norvale born?",
    answer="Tamsin",
    supporting=("p1", "p2"),
    hops=(
        GoldHop("p1", "Who founded Norvale?", "Ada Quill"),
        GoldHop("p2", "Where was {answer_1} born?", "Tamsin"),
    ),
)


def shown(*passages: Passage) -> Context:
    return Context(tuple(p.text for p in passages), tuple(p.id for p in passages))


def call(
    outputs: dict[str, Any],
    *,
    found: tuple[Passage, ...] = (FOUNDED, BORN),
    query: str = "Where was Ada Quill born?",
    **inputs: Any,
) -> Call:
    evidence = Evidence()
    evidence.add(role="", query=query, passages=found)
    return Call(QUESTION, evidence, "Tamsin", 1.0, inputs, outputs)


CASES = [
    ("planner", call({}, found=(FOUNDED,)), "“Where was Ada Quill born?” (answer: Tamsin)"),
    ("planner", call({}), "Each fact that is needed was found"),
    (
        "resolver",
        call({"answer": None}, question="Where was Ada Quill born?", context=shown(BORN)),
        "You gave no answer, but the passage that states it was in front of you",
    ),
    (
        "resolver",
        call({"answer": None}, question="Where was Ada Quill born?", context=shown(OTHER)),
        "Giving no answer was right",
    ),
    (
        "resolver",
        call({"answer": "Rome"}, question="Where was Ada Quill born?", context=shown(OTHER)),
        "without support",
    ),
    (
        "resolver",
        call({"answer": "Rome"}, question="Where was Ada Quill born?", context=shown(BORN)),
        "right is 'Tamsin', and the passage that states it was in front of you",
    ),
    (
        "sufficiency",
        call({"sufficient": True, "follow_up": None}, context=shown(FOUNDED)),
        "You stopped, but nothing in front of you answers “Where was Ada Quill born?”",
    ),
    (
        "sufficiency",
        call({"sufficient": False, "follow_up": "x"}, context=shown(FOUNDED, BORN)),
        "You went on although the passages in front of you held all",
    ),
    (
        "controller",
        call({"done": False, "next_query": "Where was Ada Quill born?"}, context=shown(FOUNDED)),
        "found a passage that is needed",
    ),
    ("expander", call({"needs": ["a", "b"]}, found=(FOUNDED,)), "left out, or did not lead to"),
    ("expander", call({"needs": []}, found=(FOUNDED,)), "it takes 2 look-ups"),
    (
        "verifier",
        call({"covers": True}, found=(FOUNDED,), needs=["a", "b"]),
        "You let ['a', 'b'] pass",
    ),
    ("verifier", call({"covers": False}, needs=["a", "b"]), "You found fault with"),
    ("writer", call({"answer": "Rome"}, context=shown(FOUNDED, BORN)), "is wrong although"),
    ("writer", call({"answer": "Rome"}, context=shown(FOUNDED)), "part of the evidence missing"),
    ("rewriter", call({"rewritten": "When?"}, found=(FOUNDED,)), "does not ask for"),
    ("asker", call({"follow_up": None}, found=(FOUNDED,)), "nothing was ever found for"),
]


@pytest.mark.parametrize(("role", "made", "expected"), CASES)
def test_a_role_hears_what_its_reply_did(role: str, made: Call, expected: str) -> None:
    assert expected in told(role, made)


def test_every_role_of_every_method_has_its_words(words: Any) -> None:
    from optimize.feedback import WRITERS
    from programs import methods

    quiet = {"searcher", "extractor", "reranker", "sub", "walker"}
    for name in methods():
        try:
            program = build(name, words)
        except Exception:  # a method that needs a part besides
            continue
        roles = {getattr(p, "role", None) for p in program.predictors()}
        assert roles - {None} - quiet <= set(WRITERS), name


def test_a_reply_that_did_not_parse_is_said(words: Any) -> None:
    import dspy

    program = build("single_shot", words)
    evidence = Evidence()
    evidence.add(role="", query="x", passages=(FOUNDED, BORN))
    prediction = dspy.Prediction(
        answer="Rome",
        evidence=evidence,
        stop_reason="answered",
        error=None,
        usage=_no_usage(),
    )
    inputs = {"context": shown(FOUNDED, BORN), "format_problem": "no field answer"}
    feedback = HopFeedback.of(program, Objective())(
        QUESTION, prediction, None, "final", [(program.final, inputs, {"answer": "Rome"})]
    )
    assert "could not be used (no field answer)" in feedback.feedback
    assert "right is 'Tamsin'" in feedback.feedback
    assert 0 < feedback.score < 1


def _no_usage() -> Any:
    from programs import Ledger

    return Ledger()
