"""/v1/answer and its neighbours: what they answer, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from hopsmith.serving.pipelines import MethodSource
from hopsmith.serving.problems import MEDIA_TYPE
from programs import build


def test_answers_with_hops_citations_usage_and_fingerprint(serve: Any) -> None:
    told = serve().ask().raise_for_status().json()
    assert told["answer"] == "Tamsin"
    assert told["stop_reason"] == "answered"
    assert [h["refined"] for h in told["hops"]] == ["Who founded it?", "Where is Ada Quill?"]
    found = {p["id"] for p in told["passages"]}
    assert {i for hop in told["hops"] for i in hop["passages"]} == found
    assert told["cited"]
    assert {p["id"] for p in told["passages"] if p["cited"]} == set(told["cited"])
    assert told["usage"]["planner"]["lm_calls"] == 1
    assert len(told["pipeline"]["fingerprint"]) == 64
    assert told["pipeline"]["name"] == "main"


def test_budget_caps_lower_and_never_raise(serve: Any) -> None:
    live = serve()
    few = live.ask(budget={"passages": 1}).json()
    assert all(len(hop["passages"]) == 1 for hop in few["hops"])
    tuned = live.service.catalogue.get(None).program.budget.passages
    many = live.ask(budget={"passages": 200}).json()
    assert all(len(hop["passages"]) == tuned for hop in many["hops"])
    one = live.ask(budget={"lm_calls": 1}).json()
    assert sum(account["lm_calls"] for account in one["usage"].values()) == 1
    assert one["stop_reason"] == "budget"


def test_each_pipeline_by_name(serve: Any) -> None:
    live = serve(methods={"main": "decompose", "plain": "single_shot"})
    names = [p["name"] for p in live.client.get("/v1/pipelines").json()["pipelines"]]
    assert names == ["main", "plain"]
    assert len(live.ask(pipeline="plain").json()["hops"]) == 1
    missing = live.ask(pipeline="other")
    assert missing.status_code == 404
    assert "main, plain" in missing.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "kind", "detail"),
    [
        (b"{", 400, "malformed", "no JSON"),
        (b"{}", 422, "invalid", "question"),
        (b'{"question": ""}', 422, "invalid", "question"),
        (b'{"question": "?!"}', 422, "invalid", "no word"),
        (b'{"question": "a", "budget": {"k": 3}}', 422, "invalid", "budget.k"),
        (b'{"question": "a", "budget": {"passages": 0}}', 422, "invalid", "budget.passages"),
        (b'{"question": "a", "seconds": -1}', 422, "invalid", "seconds"),
        (b'{"question": "a", "colour": 1}', 422, "invalid", "colour"),
        (b'{"question": "\\ud800 a"}', 422, "invalid", "unicode"),
        (json.dumps({"question": "long " * 900}).encode(), 422, "invalid", "characters"),
        (json.dumps({"question": "x" * 300_000}).encode(), 413, "too-large", "bytes"),
    ],
)
def test_bad_requests_are_problem_details(
    serve: Any, body: bytes, status: int, kind: str, detail: str
) -> None:
    reply = serve().client.post(
        "/v1/answer", content=body, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == status
    assert reply.headers["content-type"] == MEDIA_TYPE
    told = reply.json()
    assert told["type"] == f"urn:hopsmith:{kind}"
    assert told["status"] == status
    assert told["title"]
    assert detail in told["detail"]


def test_a_body_of_no_declared_length_is_bounded_too(serve: Any) -> None:
    def pieces() -> Any:
        for _ in range(40):
            yield b" " * 10_000

    reply = serve().client.post(
        "/v1/answer", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == 413
    assert reply.json()["type"] == "urn:hopsmith:too-large"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/v1/answer", 405)]
)
def test_other_addresses_are_problems_too(serve: Any, method: str, path: str, status: int) -> None:
    reply = serve().client.request(method, path)
    assert reply.status_code == status
    assert reply.json()["status"] == status
    assert reply.headers["content-type"] == MEDIA_TYPE


def test_healthz_readyz_and_metrics(serve: Any) -> None:
    live = serve()
    assert live.client.get("/healthz").json() == {"status": "ok"}
    ready = live.client.get("/readyz")
    assert ready.status_code == 200
    assert set(ready.json()["parts"].values()) == {"ok"}
    live.ask()
    text = live.client.get("/metrics").text
    for line in (
        'hopsmith_requests_total{endpoint="/v1/answer",status="200"} 1.0',
        'hopsmith_stop_reasons_total{pipeline="main",reason="answered"} 1.0',
        'hopsmith_hops_sum{pipeline="main"} 2.0',
        'hopsmith_lm_calls_total{role="resolver"} 2.0',
        'hopsmith_stage_seconds_count{role="",stage="retrieval"} 2.0',
        'hopsmith_stage_seconds_count{role="planner",stage="lm"} 1.0',
        'hopsmith_stage_seconds_count{role="",stage="queue"} 1.0',
        "hopsmith_in_flight 0.0",
    ):
        assert line in text, line
    assert "founder" not in text


def test_openapi_has_examples_for_every_request_and_names_the_problems(serve: Any) -> None:
    spec = serve().client.get("/openapi.json").json()
    schemas = spec["components"]["schemas"]
    for path, item in spec["paths"].items():
        body = item.get("post", {}).get("requestBody")
        if body is None:
            continue
        name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert schemas[name]["examples"], path
    assert schemas["Answered"]["examples"]
    answers = spec["paths"]["/v1/answer"]["post"]["responses"]
    assert MEDIA_TYPE in answers["429"]["content"]
    assert "event: hop" in str(spec["paths"]["/v1/answer/stream"]["post"]["responses"]["200"])


def test_the_answer_equals_what_the_program_gives(
    world: Benchmark, words: Any, serve: Any, scripted_context: dict[str, Any]
) -> None:
    every = [q for questions in world.questions.values() for q in questions]
    context = {**scripted_context, "adapter": OracleAdapter(every)}
    live = serve(sources=[MethodSource("main", "decompose", lambda: context)])
    for question in world.questions["dev"][:5]:
        with dspy.context(**context):
            expected = build("decompose", words)(question=question.question)
        told = live.ask(question.question).json()
        assert (told["answer"], told["stop_reason"]) == (expected.answer, expected.stop_reason)
        assert [p["id"] for p in told["passages"]] == [p.id for p in expected.evidence.ranked()]
