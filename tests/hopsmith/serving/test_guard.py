"""Who may ask: tokens, loopback, and what never leaves."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from hopsmith.errors import HopsmithError
from hopsmith.serving.server import check_host
from retrieval import Passage
from retrieval.wire import is_loopback


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_beyond_loopback_needs_a_token() -> None:
    check_host("127.0.0.1", None)
    check_host("::1", None)
    check_host("0.0.0.0", "secret")
    with pytest.raises(HopsmithError, match="HOPSMITH_TOKEN"):
        check_host("0.0.0.0", None)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize("sent", [{}, bearer("wrong"), {"Authorization": "Basic secret"}])
@pytest.mark.parametrize("path", ["/v1/answer", "/v1/chat/completions", "/v1/feedback"])
def test_a_token_is_asked_for(serve: Any, path: str, sent: dict[str, str]) -> None:
    reply = serve(token="secret").client.post(path, json={"question": "Who?"}, headers=sent)
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert reply.json()["type"] == "urn:hopsmith:unauthorized"


def test_with_the_token_it_answers_and_the_page_and_health_need_none(serve: Any) -> None:
    client = serve(token="secret").client
    asked = client.post("/v1/answer", json={"question": "Who?"}, headers=bearer("secret"))
    assert asked.status_code == 200
    assert [client.get(path).status_code for path in ("/", "/healthz", "/readyz")] == [200] * 3
    assert client.get("/metrics").status_code == 401


def test_without_a_token_no_name_that_resolves_here_is_answered(serve: Any) -> None:
    client = serve().client
    ask = {"question": "Who?"}
    for host in ("evil.example", "evil.example:8080"):
        reply = client.post("/v1/answer", json=ask, headers={"Host": host})
        assert reply.status_code == 403
        assert "HOPSMITH_TOKEN" in reply.json()["detail"]
    assert client.post("/v1/answer", json=ask, headers={"Host": "localhost"}).status_code == 200
    assert client.post("/v1/answer", json=ask, headers={"Host": "[::1]:80"}).status_code == 200


def test_another_sites_form_can_not_ask(serve: Any) -> None:
    reply = serve().client.post(
        "/v1/answer", content='{"question": "Who?"}', headers={"Content-Type": "text/plain"}
    )
    assert reply.status_code == 422
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("failing", [False, True])
def test_no_question_and_no_passage_is_logged(
    serve: Any,
    words: Any,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    failing: bool,
) -> None:
    planted = Passage("p", "zebra-title", "zebra-text about the founder")

    def script(signature: Any, inputs: Any) -> Any:
        if failing:
            raise KeyError(f"zebra-fault {inputs}")
        return {"answer": "zebra-answer"}

    caplog.set_level(logging.DEBUG)
    live = serve(script, retriever=type(words)([planted]), methods={"main": "single_shot"})
    reply = live.ask("zebra-question about the founder?")
    assert reply.status_code == (502 if failing else 200)
    told = capfd.readouterr()
    ours = "".join(r.getMessage() for r in caplog.records if not r.name.startswith("httpcore"))
    assert "zebra" not in ours + told.out + told.err
    assert "zebra" not in live.client.get("/metrics").text
    assert list(Path().iterdir()) == []


def test_questions_are_logged_when_asked_for(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hopsmith.serving")
    serve(log_questions=True).ask("Where was zebra born?")
    assert "Where was zebra born?" in caplog.text
    assert "Tamsin" in caplog.text


def test_a_failure_of_ours_tells_where_and_not_what(
    serve: Any, words: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(type(words)):  # type: ignore[misc]
        def _search(self, *_: Any) -> Any:
            raise ZeroDivisionError("zebra-secret")

    reply = serve(retriever=Broken([])).ask()
    assert reply.status_code == 500
    assert reply.json()["instance"] in caplog.text
    assert "ZeroDivisionError at test_guard.py" in caplog.text
    assert "zebra" not in caplog.text + reply.text
