"""Advice: what a run's caps say."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from benchmarks import Question
from benchmarks.scripted import ScriptedAdapter, stand_in
from metrics import Record, Usage, metric, summarise
from optimize.advice import advice
from optimize.evaluate import answer
from optimize.rows import record
from programs import HopBudget, build


def records(*stops: str, calls: int = 3) -> list[Record]:
    return [
        Record(str(n), "q", "a", at_cap=stop == "budget", usage=Usage(lm_calls=calls))
        for n, stop in enumerate(stops)
    ]


def said(words: Any, stops: list[Record], method: str = "agentic", **budget: int) -> str:
    lines = advice(build(method, words, HopBudget(**budget)), stops)
    assert len(lines) <= 1
    return lines[0] if lines else ""


def test_the_share_at_a_cap_is_a_metric() -> None:
    asked = records("budget", "answered", "unanswerable", "error")
    assert metric("at_cap").better == "down"
    assert summarise(asked)["at_cap"].value == 0.25


@pytest.mark.parametrize(
    ("hops", "wanted"),
    [
        (1, "hops=1 (2 retrievals with the first): try --budget hops=3 to 5"),
        (4, "try --budget hops=5, and no more; what needs more hops"),
        (5, "the guide caps at 4 to 6: what needs more hops"),
        (9, "build a graph (hopsmith graph)"),
    ],
)
def test_a_hop_cap_that_is_hit_is_raised_up_to_six_and_then_is_the_corpuss_fault(
    hops: int, wanted: str, words: Any
) -> None:
    line = said(words, records("budget", "budget", "answered"), hops=hops)
    assert line.startswith("67% of the questions ended at a cap, all at hops=")
    assert wanted in line


def test_few_capped_questions_are_not_spoken_of(words: Any) -> None:
    assert said(words, records("budget", *["answered"] * 10)) == ""
    assert said(words, records(*["answered"] * 3)) == ""
    assert said(words, []) == ""


def test_what_the_run_names_is_what_is_spoken_of(words: Any) -> None:
    def capped(*caps: str) -> list[Record]:
        return [Record(str(n), "q", "a", at_cap=True, cap=cap) for n, cap in enumerate(caps)]

    assert "all at context_passages=15: see with" in said(words, capped("context_passages=15"))
    most = said(words, capped("hops=3", "hops=3", "deadline"), method="router")
    assert "2 of 3 at hops=3 (4 retrievals with the first): try --budget hops=5" in most


def test_a_cap_on_calls_is_told_from_one_on_hops(words: Any) -> None:
    line = said(words, records("budget", calls=7), lm_calls=8)
    assert "lm_calls=8: raise it (--budget lm_calls=16)" in line


def test_a_method_without_hops_is_not_told_to_raise_them(words: Any) -> None:
    line = said(words, records("budget"), method="decompose")
    assert "hops=" not in line
    assert "hopsmith show" in line


def test_a_cap_without_an_answer_counts_too(words: Any) -> None:
    asked = Question.of(id="1", question="Who is the mayor of Tamsin?", answer="x")
    never = ScriptedAdapter(lambda s, _: dict.fromkeys(s.output_fields, "") | {"next_query": "a b"})
    with dspy.context(lm=stand_in("scripted/lm"), adapter=never):
        row = answer(build("agentic", words, HopBudget(hops=0)), asked, "mark")
    assert row.stop_reason == "unanswerable"
    assert record(asked, row, "squad").at_cap
