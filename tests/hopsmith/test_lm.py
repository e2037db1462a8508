import copy
import json
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dspy
import pytest
from tenacity import RetryCallState

from hopsmith.endpoint import _may_pass, _wait
from hopsmith.errors import HopsmithError
from hopsmith.lm import configure_cache, lm_identity, make_adapter, make_lm, role_lms
from hopsmith.settings import load_settings
from hopsmith.window import PromptTooLong, check_fits, count_tokens, window
from programs.errors import Cancelled
from programs.faults import StopRun, is_configuration_fault, is_transient
from programs.scope import Meter, Scope, entering
from programs.step import Step


@dataclass
class Endpoint:
    """An OpenAI-compatible server on loopback that answers from a script and keeps what it got."""

    url: str = ""
    text: str = '{"answer": "Oslo", "sure": true, "names": ["Oslo"]}'
    failures: list[tuple[int, str, str | None]] = field(default_factory=list)
    """``(status, message, code)`` of the next replies, before ``text`` is given."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    models: dict[str, Any] = field(default_factory=lambda: {"data": []})
    pair: threading.Barrier | None = None
    """When set, each request waits for another one to be under way."""
    most: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        if self.pair is not None:
            self.pair.wait(timeout=20)

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    state = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, state.models)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(body)
            state.keys.append(self.headers.get("Authorization", ""))
            state.enter()
            failure = state.failures.pop(0) if state.failures else None
            state.leave()
            if failure is None:
                self._send(200, _completion(body["model"], state.text))
            else:
                status, message, code = failure
                self._send(status, {"error": {"message": message, "code": code, "type": "t"}})

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()


def _completion(model: str, text: str) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


@pytest.fixture(autouse=True)
def _no_keys_about(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "HOPSMITH", "REPLICATE", "AZURE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    for name in ("HOPSMITH_LM", "HOPSMITH_API_BASE", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def lm_at(endpoint: Endpoint, name: str = "m", **settings: Any) -> Any:
    settings = {"lm_cache": False, "api_base": endpoint.url, **settings}
    lm = make_lm(load_settings(lm=name, **settings))
    lm.retries = 0
    return lm


class Ask(dspy.Signature):  # type: ignore[misc]
    """Answer the question."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()
    sure: bool = dspy.OutputField()
    names: list[str] = dspy.OutputField()


def test_an_endpoint_is_asked_for_answers_that_fit_the_schema(endpoint: Endpoint) -> None:
    with dspy.context(lm=lm_at(endpoint, "org/model"), adapter=make_adapter(load_settings())):
        reply = dspy.Predict(Ask)(question="Which city?")
    assert (reply.answer, reply.sure, reply.names) == ("Oslo", True, ["Oslo"])
    (body,) = endpoint.asked
    assert body["model"] == "org/model"
    assert body["response_format"]["type"] == "json_schema"
    schema = body["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == {"answer", "sure", "names"}
    assert body["temperature"] == 0
    assert body["max_tokens"] == load_settings().max_tokens


def test_the_prefix_openai_is_not_part_of_an_own_servers_model_name(endpoint: Endpoint) -> None:
    lm_at(endpoint, "openai/qwen")("hi")
    assert endpoint.asked[0]["model"] == "qwen"


def test_a_providers_key_is_never_sent_to_an_own_endpoint(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    lm_at(endpoint)("hi")
    lm_at(endpoint, api_key="own")("hi")
    assert "sk-of-openai" not in endpoint.keys[0]
    assert endpoint.keys[1] == "Bearer own"


def test_a_name_may_carry_its_endpoint(endpoint: Endpoint) -> None:
    settings = load_settings(role_lm={"judge": f"big@{endpoint.url}"}, lm_cache=False)
    role_lms(settings)["judge"]("hi")
    make_lm(settings, role="judge")("hi")
    assert [body["model"] for body in endpoint.asked] == ["big", "big"]


def test_rollouts_have_seeds_of_their_own_that_repeat(endpoint: Endpoint) -> None:
    lm = lm_at(endpoint, seed=3)
    lm("hi")
    for rollout in (1, 2, 1):
        lm.copy(rollout_id=rollout, temperature=1.0)("hi")
    plain, first, second, again = (body.get("seed") for body in endpoint.asked)
    assert plain == 3
    assert first == again
    assert len({plain, first, second}) == 3


def test_several_completions_at_once_are_not_all_the_same_draw(endpoint: Endpoint) -> None:
    lm_at(endpoint)("hi", n=2, temperature=1.0)
    assert [body.get("seed") for body in endpoint.asked] == [None, None]


def test_all_lms_of_an_endpoint_share_its_slots(endpoint: Endpoint) -> None:
    endpoint.pair = threading.Barrier(2)
    lms = [lm_at(endpoint, name, in_flight=2) for name in ("a", "b")]
    lms += [lms[0].copy(temperature=0.5), copy.deepcopy(lms[1])]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: lms[i % 4](f"hi {i}"), range(8)))
    assert endpoint.most == 2


def test_an_endpoint_lm_survives_pickling(endpoint: Endpoint) -> None:
    assert pickle.loads(pickle.dumps(lm_at(endpoint)))("hi") == [endpoint.text]


def test_asynchronous_calls_take_slots_too(endpoint: Endpoint) -> None:
    import asyncio

    endpoint.pair = threading.Barrier(2)
    lm = lm_at(endpoint, in_flight=2)

    async def many() -> None:
        await asyncio.gather(*(lm.acall(f"hi {i}") for i in range(6)))

    asyncio.run(many())
    assert endpoint.most == 2
    assert len(endpoint.asked) == 6


def test_identity_has_no_key_and_no_address(endpoint: Endpoint) -> None:
    identity = lm_identity(
        lm_at(endpoint, api_key="sk-planted", seed=5, max_tokens=77, reasoning_effort="low")
    )
    assert identity == {
        "name": "hopsmith-endpoint/m",
        "temperature": 0.0,
        "max_tokens": 77,
        "reasoning_effort": "low",
        "seed": 5,
    }


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/gpt-4.1-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
        ("replicate/some-model", "REPLICATE_API_KEY"),
    ],
)
def test_without_a_key_one_line_names_the_variable_and_the_local_lm(
    name: str, variable: str
) -> None:
    with pytest.raises(HopsmithError) as raised:
        make_lm(load_settings(lm=name))
    assert variable in str(raised.value)
    assert "--lm local" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "mend"),
    [
        ({"lm": "gpt-4.1"}, "PROVIDER/MODEL"),
        ({"lm": "nosuch/model"}, "no such provider"),
        ({"lm": "m", "api_base": "localhost:8000"}, "http://"),
        ({"lm": "m", "api_base": "https://lm.example.org/v1"}, "HOPSMITH_API_KEY"),
    ],
)
def test_a_name_that_can_not_be_served_is_refused_with_its_mend(
    settings: dict[str, str], mend: str
) -> None:
    with pytest.raises(HopsmithError, match=mend):
        make_lm(load_settings(**settings))


def test_a_reasoning_model_gets_the_parameters_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    lm = make_lm(load_settings(lm="openai/gpt-5-mini"))
    assert lm.kwargs["temperature"] == 1.0
    assert lm.kwargs["max_completion_tokens"] >= 16_000
    assert "seed" not in lm.kwargs


def test_the_chat_adapter_has_no_hidden_second_call(endpoint: Endpoint) -> None:
    endpoint.text = "no fields at all"
    adapter = make_adapter(load_settings(adapter="chat"))
    with (
        dspy.context(lm=lm_at(endpoint), adapter=adapter),
        pytest.raises(dspy.utils.exceptions.AdapterParseError),
    ):
        dspy.Predict(Ask)(question="Which city?")
    assert len(endpoint.asked) == 1


STOPS = [
    (401, "Incorrect API key", "invalid_api_key", "key"),
    (403, "not allowed", None, "key"),
    (404, "The model `m` does not exist", "model_not_found", "--lm"),
    (404, "Not Found", None, "/v1"),
    (429, "You exceeded your quota", "insufficient_quota", "credit"),
    (400, "response_format json_schema is not supported", None, "--adapter chat"),
]


@pytest.mark.parametrize(("status", "message", "code", "mend"), STOPS)
def test_a_configuration_fault_stops_the_run_with_its_mend(
    status: int, message: str, code: str | None, mend: str, endpoint: Endpoint
) -> None:
    endpoint.failures = [(status, message, code)]
    step = Step(Ask, "resolver", fallback={"answer": "", "sure": False, "names": []})
    with (
        dspy.context(lm=lm_at(endpoint), adapter=make_adapter(load_settings())),
        pytest.raises(StopRun, match=mend) as raised,
    ):
        step(question="Which city?")
    assert "\n" not in str(raised.value)
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [(429, "slow down", "rate_limit_exceeded"), (500, "boom", None), (503, "loading", None)],
)
def test_a_passing_fault_is_transient_and_stops_nothing(
    status: int, message: str, code: str | None, endpoint: Endpoint
) -> None:
    endpoint.failures = [(status, message, code)]
    with pytest.raises(dspy.utils.exceptions.LMError) as raised:
        lm_at(endpoint)("hi")
    assert is_transient(raised.value)
    assert is_configuration_fault(raised.value) is None


def test_a_passing_fault_is_tried_again(endpoint: Endpoint) -> None:
    endpoint.failures = [(429, "slow down", "rate_limit_exceeded"), (503, "loading", None)]
    lm = lm_at(endpoint)
    lm.retries = 3
    assert lm("hi") == [endpoint.text]
    assert len(endpoint.asked) == 3


def test_waits_grow_obey_the_endpoint_and_never_coincide() -> None:
    def waits(attempt: int, **said: Any) -> list[float]:
        fault = dspy.utils.exceptions.LMRateLimitError("slow down", model="m", **said)
        state = RetryCallState(None, None, (), {})
        state.attempt_number = attempt
        state.set_exception((type(fault), fault, None))
        return [_wait(state) for _ in range(50)]

    for attempt, least in ((1, 1), (2, 2), (3, 4)):
        found = waits(attempt)
        assert least <= min(found) < max(found) <= least + 1
    told = waits(1, retry_after=20)
    assert 20 <= min(told) < max(told) <= 21


def test_no_wait_goes_beyond_the_deadline_of_the_question(endpoint: Endpoint) -> None:
    endpoint.failures = [(429, "slow down", "rate_limit_exceeded")] * 2
    lm = lm_at(endpoint)
    lm.retries = 3
    soon = Scope("q", Meter(5, deadline=time.monotonic() + 0))
    with entering(soon), pytest.raises(dspy.utils.exceptions.LMRateLimitError):
        lm("hi")
    assert len(endpoint.asked) == 1
    later = Scope("q", Meter(5, deadline=time.monotonic() + 60))
    with entering(later):
        assert lm("hi") == [endpoint.text]


def test_nobody_waits_for_an_asker_who_hung_up(endpoint: Endpoint) -> None:
    endpoint.failures = [(429, "slow down", "rate_limit_exceeded")]
    lm = lm_at(endpoint)
    lm.retries = 3
    left = Scope("q", Meter(5))
    left.meter.cancelled.set()
    with entering(left), pytest.raises(Cancelled):
        lm("hi")
    assert len(endpoint.asked) == 1


def test_an_endpoint_that_wants_an_hour_is_not_waited_for() -> None:
    fault = dspy.utils.exceptions.LMRateLimitError("slow down", model="m", retry_after=3600)
    assert not _may_pass(fault)


def test_an_endpoint_that_is_not_there_stops_the_run() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lm = make_lm(load_settings(lm="m", api_base=f"http://127.0.0.1:{port}/v1", lm_cache=False))
    lm.retries = 0
    with pytest.raises(dspy.utils.exceptions.LMError) as raised:
        lm("hi")
    assert "--api-base" in (is_configuration_fault(raised.value) or "")
    assert not is_transient(raised.value)


@pytest.mark.parametrize(
    "fault", [ValueError("x"), KeyboardInterrupt(), TimeoutError(), ConnectionRefusedError()]
)
def test_faults_that_are_not_the_lms_are_neither(fault: BaseException) -> None:
    assert is_configuration_fault(fault) is None
    assert not is_transient(fault)


def test_a_prompt_that_can_not_fit_is_never_sent(endpoint: Endpoint) -> None:
    endpoint.models = {"data": [{"id": "m", "max_model_len": 1000}]}
    lm = lm_at(endpoint)
    assert window(lm) == 1000
    with pytest.raises(PromptTooLong, match="window of 1,000") as raised:
        lm("word " * 5000)
    assert endpoint.asked == []
    assert isinstance(raised.value, dspy.ContextWindowExceededError)
    assert is_configuration_fault(raised.value) is None
    check_fits(lm, [{"role": "user", "content": [{"type": "text", "text": "short"}]}])


def test_a_window_that_nobody_tells_refuses_nothing(endpoint: Endpoint) -> None:
    lm = lm_at(endpoint)
    assert window(lm) is None
    assert lm("word " * 5000) == [endpoint.text]


def test_a_known_models_window_comes_from_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert window(make_lm(load_settings(lm="openai/gpt-4.1-mini"))) == 1_047_576


def test_tokens_are_estimated_on_the_long_side(endpoint: Endpoint) -> None:
    lm = lm_at(endpoint)
    assert count_tokens(lm, "") == 0
    assert count_tokens(lm, "The quick brown fox jumps over the lazy dog.") >= 10
    assert count_tokens(lm, "東京は日本の首都です") >= 7


def test_answers_are_cached_in_the_folder_named(endpoint: Endpoint, tmp_path: Path) -> None:
    before = dspy.cache
    try:
        configure_cache(tmp_path / "answers")
        lm = lm_at(endpoint, lm_cache=True)
        assert lm("hi") == lm("hi") == [endpoint.text]
        assert len(endpoint.asked) == 1
        configure_cache(tmp_path / "answers")
        lm("hi")
        assert len(endpoint.asked) == 1
        configure_cache(None, on=False)
        lm("hi")
        assert len(endpoint.asked) == 2
    finally:
        dspy.cache = before
