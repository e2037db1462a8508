"""OpenAI's chat API, asked by OpenAI's own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from hopsmith.serving.chat import without_footnotes
from hopsmith.serving.conversation import recent
from hopsmith.serving.limits import Limits

ASK = [{"role": "user", "content": "Where was its founder born?"}]


@pytest.fixture
def client_of() -> Iterator[Any]:
    made: list[openai.OpenAI] = []

    def client(live: Any, key: str = "none") -> openai.OpenAI:
        made.append(openai.OpenAI(base_url=f"{live.url}/v1", api_key=key, max_retries=0))
        return made[-1]

    yield client
    for one in made:
        one.close()


def test_the_official_client_gets_an_answer_with_footnotes(serve: Any, client_of: Any) -> None:
    client = client_of(serve(token="secret"), "secret")
    told = client.chat.completions.create(model="main", messages=ASK)
    text = told.choices[0].message.content
    answer, _, notes = text.partition("\n\n")
    assert answer.startswith("Tamsin [^1]")
    assert notes.startswith("[^1]: ")
    assert without_footnotes(text) == answer
    assert told.choices[0].finish_reason == "stop"
    assert told.usage.total_tokens == told.usage.prompt_tokens + told.usage.completion_tokens
    assert told.hopsmith["stop_reason"] == "answered"
    assert len(told.hopsmith["hops"]) == 2


def test_the_official_client_streams_hops_as_thinking(serve: Any, client_of: Any) -> None:
    stream = client_of(serve()).chat.completions.create(
        model="main", messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    assert deltas[0].role == "assistant"
    thinking = "".join(getattr(d, "reasoning_content", None) or "" for d in deltas)
    assert thinking.splitlines() == [
        "Looking up: Who founded it?",
        "Found: Ada Quill (Who founded it?)",
        "Looking up: Where is Ada Quill?",
        "Found: Tamsin (Where is Ada Quill?)",
    ]
    text = "".join(d.content or "" for d in deltas)
    assert text.startswith("Tamsin [^1]")
    finishes = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert finishes[-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert len({c.id for c in chunks}) == 1


def test_a_follow_up_is_condensed_with_what_was_said(serve: Any, client_of: Any) -> None:
    live = serve(methods={"main": "single_shot"})
    talk = [
        {"role": "system", "content": "Answer in verse."},
        {"role": "user", "content": "Who founded Norvale?"},
        {"role": "assistant", "content": "Ada Quill [^1]\n\n[^1]: Norvale: It was founded by …"},
        {"role": "user", "content": [{"type": "text", "text": "And where was she born?"}]},
    ]
    told = client_of(live).chat.completions.create(model="hopsmith", messages=talk)
    (hop,) = told.hopsmith["hops"]
    assert hop["query"] == "And where was she born? (of user: Who founded Norvale?)"
    assert told.hopsmith["usage"]["condenser"]["lm_calls"] == 1


def test_a_follow_up_that_can_not_be_condensed_is_asked_as_it_is(
    serve: Any, client_of: Any
) -> None:
    def script(signature: Any, inputs: Any) -> Any:
        return None if "conversation" in signature.input_fields else {"answer": "Tamsin"}

    talk = [
        *ASK,
        {"role": "assistant", "content": "In Tamsin"},
        {"role": "user", "content": "Why?"},
    ]
    live = serve(script, methods={"main": "single_shot"})
    told = client_of(live).chat.completions.create(model="main", messages=talk)
    assert told.hopsmith["hops"][0]["query"] == "Why?"


def test_a_first_question_is_not_condensed(serve: Any, client_of: Any) -> None:
    told = client_of(serve()).chat.completions.create(model="main", messages=ASK)
    assert "condenser" not in told.hopsmith["usage"]


def test_no_answer_is_said_in_words(serve: Any, client_of: Any) -> None:
    live = serve(lambda *_: {"answer": ""}, methods={"main": "single_shot"})
    told = client_of(live).chat.completions.create(model="main", messages=ASK)
    assert told.choices[0].message.content.startswith("I found no answer")


@pytest.mark.parametrize(
    ("messages", "model", "error", "says"),
    [
        (ASK, "gpt-9", openai.NotFoundError, "no pipeline 'gpt-9'; there are main"),
        ([], "main", openai.UnprocessableEntityError, "messages"),
        ([{"role": "assistant", "content": "Hi"}], "main", openai.UnprocessableEntityError, "user"),
        ([{"role": "wizard", "content": "Hi"}], "main", openai.UnprocessableEntityError, "role"),
    ],
)
def test_failures_reach_the_official_client_as_its_own_errors(
    serve: Any, client_of: Any, messages: Any, model: str, error: Any, says: str
) -> None:
    client = client_of(serve())
    with pytest.raises(error, match=says):
        client.chat.completions.create(model=model, messages=messages)


def test_a_wrong_key_and_a_full_server_are_its_own_errors_too(serve: Any, client_of: Any) -> None:
    live = serve(token="secret", limits=Limits(concurrency=1, queue=0))
    with pytest.raises(openai.AuthenticationError, match="Bearer"):
        client_of(live, "wrong").chat.completions.create(model="main", messages=ASK)
    live.service.desk.admission.running = 1
    with pytest.raises(openai.RateLimitError, match="try again"):
        client_of(live, "secret").chat.completions.create(model="main", messages=ASK)


def test_a_failure_while_streaming_is_raised_by_the_client(serve: Any, client_of: Any) -> None:
    def script(signature: Any, inputs: Any) -> Any:
        if "sub_questions" in signature.output_fields:
            return {"kind": "bridge", "sub_questions": ["Who founded it?"]}
        return None

    stream = client_of(serve(script)).chat.completions.create(
        model="main", messages=ASK, stream=True
    )
    with pytest.raises(openai.APIError, match="fields asked for"):
        list(stream)


def test_models_are_the_pipelines(serve: Any, client_of: Any) -> None:
    live = serve(methods={"main": "decompose", "plain": "single_shot"})
    assert [m.id for m in client_of(live).models.list()] == ["main", "plain"]


def test_only_the_latest_turns_are_kept_each_within_bounds() -> None:
    turns = [f"user: {i} " + "x" * 2000 for i in range(30)]
    kept = recent(turns)
    assert len(kept) == 8
    assert kept[-1].startswith("user: 29")
    assert all(len(turn) < 700 for turn in kept)
