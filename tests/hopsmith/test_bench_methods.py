"""bench methods: the critical path of calls, and the command."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from benchmarks import synthetic
from benchmarks.lookup import LookupRetriever
from hopsmith.bench_methods import Call, bench_methods, critical_path
from hopsmith.cli import app, guarded
from programs import ProgramError
from signatures.walker import Edges


def call(step: str, start: float, end: float, asked: str = "", said: Any = "") -> Call:
    return Call(step, start, end, {"question": asked}, {"answer": said})


def test_calls_of_different_steps_wait_for_each_other() -> None:
    calls = [call("plan", 0, 1), call("read", 1, 2), call("write", 2.5, 3.5)]
    assert critical_path(calls) == (3.0, 3)


def test_calls_of_one_step_that_tell_each_other_nothing_are_independent() -> None:
    one_by_one = [call("plan", 0, 1), call("read", 1, 2, "who", "Ada"), call("read", 2, 3, "where")]
    at_once = [call("plan", 0, 1), call("read", 1, 2, "who", "Ada"), call("read", 1, 2, "where")]
    assert critical_path(one_by_one) == critical_path(at_once) == (2.0, 2)


def test_a_call_that_was_told_an_answer_waits_for_it() -> None:
    calls = [call("read", 0, 1, "who", "Ada Quill"), call("read", 1, 2, "where was Ada Quill born")]
    assert critical_path(calls) == (2.0, 2)
    listed = [call("read", 0, 1, "who", ["Ada Quill"]), call("read", 1, 2, "Ada Quill")]
    assert critical_path(listed) == (2.0, 2)


def test_a_call_that_was_told_a_chosen_edge_waits_for_it() -> None:
    edges = Edges(["Aurora | made by | Vale", "Aurora | released | 1999"])
    first = Call("walker", 0, 1, {"edges": edges, "facts": []}, {"follow": [1], "answer": None})
    for facts, path in ((edges.lines[:1], (2.0, 2)), (edges.lines[1:], (1.0, 1))):
        later = Call("walker", 1, 2, {"edges": "", "facts": list(facts)}, {"follow": []})
        assert critical_path([first, later]) == path


def test_without_calls_there_is_no_path() -> None:
    assert critical_path([]) == (0.0, 0)


@pytest.mark.parametrize(
    ("method", "calls", "steps"),
    [
        ("single_shot", 1, 1),
        ("decompose", 6, 4),
        ("agentic", 5, 5),
        ("coverage_anchor", 2, 2),
        ("hiq_static", 7, 5),
        ("hiq_independent", 7, 4),
    ],
)
def test_what_depends_on_what_in_each_method(method: str, calls: int, steps: int) -> None:
    report = bench_methods([method], latency=0.001, repeats=1)
    (times,) = report.methods
    assert (times.lm_calls, times.steps) == (calls, steps)
    assert times.critical_path >= 0.001 * steps
    assert times.wall >= times.critical_path


def test_independent_reads_run_at_once() -> None:
    (times,) = bench_methods(["hiq_independent"], latency=0.05, repeats=1).methods
    assert times.wall < 0.05 * times.lm_calls


def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    before, sys.argv = sys.argv, ["hopsmith", "bench", "methods", "--json", "--repeats", "1"]
    sys.argv += ["--latency", "0.001", "--methods", "single_shot,graph"]
    try:
        assert guarded(app) == 0
    finally:
        sys.argv = before
    report = json.loads(capsys.readouterr().out)
    assert [m["method"] for m in report["methods"]] == ["single_shot", "graph"]
    assert not report["left_out"]
    assert report["predict_ms"] > 0
    assert report["parallel_ms"] > 0


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ProgramError, match="no method 'nope'; there are"):
        bench_methods(["nope"])


def test_the_lookup_finds_what_a_sub_question_asks_for_and_nothing_for_the_question() -> None:
    world = synthetic(40, 200, seed=0, kinds=("bridge_comparison",))
    question = world.questions["dev"][0]
    retriever = LookupRetriever(question, world.corpus)
    first = question.hops[0]
    found, whole = retriever.search([str(first.question), question.question], 5)
    assert found[0].id == first.passage
    assert not {p.id for p in whole} & set(question.supporting)
