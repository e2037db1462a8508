"""/v1/answer/stream: each hop as it happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.scripted import ScriptedAdapter, stand_in
from hopsmith.serving.limits import Limits
from hopsmith.serving.pipelines import MethodSource
from programs.step import ROLE_LMS


def events(reply: Any) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in reply.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def stream(live: Any, question: str = "Where was its founder born?", **more: Any) -> Any:
    return live.client.stream("POST", "/v1/answer/stream", json={"question": question, **more})


def test_hops_come_while_the_question_is_under_way(serve: Any) -> None:
    gate = threading.Event()

    def script(signature: Any, inputs: Any) -> Any:
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who founded it?", "Where is {answer_1}?"]}
        if "founded" in inputs["question"]:
            return {"answer": "Ada Quill"}
        assert gate.wait(20)
        return {"answer": "Tamsin"}

    with stream(serve(script)) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        told = events(reply)
        seen = [next(told)]
        while seen[-1] != ("asking", {"role": "resolver"}) or len(seen) < 7:
            seen.append(next(told))
        gate.set()
        rest = list(told)
    assert [name for name, _ in seen] == [
        *("start", "asking", "hop", "asking", "hop", "hop", "asking")
    ]
    hops = [data for name, data in seen if name == "hop"]
    assert [(h["hop"]["id"], h["hop"]["answer"]) for h in hops] == [
        (0, None),
        (0, "Ada Quill"),
        (1, None),
    ]
    assert hops[2]["hop"]["refined"] == "Where is Ada Quill?"
    assert hops[0]["passages"]
    assert hops[0]["hop"]["passages"] == [p["id"] for p in hops[0]["passages"]]
    assert hops[1]["passages"] == []
    assert rest[-1][0] == "answer"
    assert rest[-1][1]["id"] == seen[0][1]["id"]


def test_the_last_event_is_what_the_plain_answer_gives(serve: Any) -> None:
    live = serve()
    with stream(live) as reply:
        name, streamed = list(events(reply))[-1]
    plain = live.ask().json()
    own = ("id", "seconds", "usage")
    assert name == "answer"
    assert {k: v for k, v in streamed.items() if k not in own} == {
        k: v for k, v in plain.items() if k not in own
    }


def test_hops_of_programs_inside_are_told_apart(serve: Any) -> None:
    with stream(serve(methods={"main": "hiq"})) as reply:
        told = list(events(reply))
    assert {data["program"] for name, data in told if name == "hop"} == {0}


def test_a_question_that_is_not_taken_is_refused_with_its_status(serve: Any) -> None:
    live = serve(limits=Limits(concurrency=1, queue=0))
    live.service.desk.admission.running = 1
    with stream(live) as reply:
        assert reply.status_code == 429
        assert "Retry-After" in reply.headers
    with stream(live, "") as reply:
        assert reply.status_code == 422


def test_a_failure_under_way_is_an_event(serve: Any) -> None:
    def script(signature: Any, inputs: Any) -> Any:
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who founded it?"]}
        return None

    with stream(serve(script)) as reply:
        assert reply.status_code == 200
        name, problem = list(events(reply))[-1]
    assert name == "error"
    assert problem["type"] == "urn:hopsmith:lm-unusable"
    assert problem["hops"][0]["status"] == "error"


def test_a_client_that_goes_ends_the_question_at_the_next_call(serve: Any) -> None:
    gate, arrived, calls = threading.Event(), threading.Event(), []

    def script(signature: Any, inputs: Any) -> Any:
        calls.append(1)
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who founded it?", "Where is {answer_1}?"]}
        arrived.set()
        assert gate.wait(20)
        return {"answer": "Ada Quill"}

    live = serve(script)
    with stream(live) as reply:
        told = events(reply)
        assert next(told)[0] == "start"
        assert arrived.wait(10)
        (asked,) = live.service.desk.under_way
    assert asked.cancel.wait(10)
    gate.set()
    assert live.ask(seconds=20).status_code == 200
    assert len(calls) == 2 + 4


def test_a_long_silence_is_filled_with_comments(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hopsmith.serving import streaming

    monkeypatch.setattr(streaming, "PULSE", 0.02)
    context = {
        "lm": stand_in("scripted/lm"),
        "adapter": ScriptedAdapter(lambda *_: {"answer": "a"}, latency=0.3),
        "disable_history": True,
        ROLE_LMS: {},
    }
    live = serve(sources=[MethodSource("main", "single_shot", lambda: context)])
    with stream(live) as reply:
        assert ": waiting" in reply.read().decode()


def test_passages_can_not_forge_events(serve: Any, words: Any) -> None:
    from retrieval import Passage

    forged = "x\n\nevent: answer\ndata: {}\n\n\r\revent: answer"
    live = serve(retriever=type(words)([Passage("p", "founder", forged)]))
    with stream(live) as reply:
        told = list(events(reply))
    assert [name for name, _ in told].count("answer") == 1
    assert told[-1][1]["passages"][0]["text"] == forged
