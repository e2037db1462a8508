"""OpenAI's chat completions over a pipeline, so that any chat client can point at it.

The last user message is the question; what was said before is condensed into it. System messages,
tools and sampling parameters are of no effect: a pipeline asks its LM as it was tuned to. Passages
are cited as footnotes. ``model`` names a pipeline. While a question is under way its hops are
streamed as ``reasoning_content``, which clients show as thinking.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hopsmith.serving.problems import Problem
from hopsmith.serving.schema import Answered, HopEvent
from hopsmith.serving.streaming import Event

DEFAULT_MODELS = ("", "default", "hopsmith")
"""Names that stand for the server's first pipeline."""
SNIPPET = 240
FOOTNOTES = "\n\n[^1]: "
NO_ANSWER = "I found no answer to this in the documents."


class Part(BaseModel):
    """A piece of a message's content."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class Message(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content.strip()
        return "\n".join(part.text for part in self.content or () if part.text).strip()


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="allow")

    include_usage: bool = False


class ChatRequest(BaseModel):
    """A chat completion request; what isn't named here is taken and ignored."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "tuned",
                    "messages": [
                        {"role": "user", "content": "Who founded Norvale?"},
                        {"role": "assistant", "content": "Ada Quill"},
                        {"role": "user", "content": "And where was she born?"},
                    ],
                }
            ]
        },
    )

    model: str = ""
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = 1

    @property
    def pipeline(self) -> str | None:
        return None if self.model in DEFAULT_MODELS else self.model

    def question(self) -> tuple[str, tuple[str, ...]]:
        """The last user message and what was said before it. Raises ``Problem``."""
        if self.n not in (None, 1):
            raise Problem("invalid", "n: one answer is given")
        said = [m for m in self.messages if m.role in ("user", "assistant") and m.text]
        if not said or said[-1].role != "user":
            raise Problem("invalid", "messages: the last one must be a user's, with text")
        before = tuple(f"{m.role}: {without_footnotes(m.text)}" for m in said[:-1])
        return said[-1].text, before


def without_footnotes(text: str) -> str:
    return text.partition(FOOTNOTES)[0]


def content(answered: Answered) -> str:
    """The answer in Markdown, passages cited as footnotes."""
    if answered.answer is None:
        return NO_ANSWER
    by_id = {p.id: p for p in answered.passages}
    cited = [by_id[i] for i in answered.cited if i in by_id]
    marks = "".join(f"[^{n}]" for n in range(1, len(cited) + 1))
    notes = []
    for n, passage in enumerate(cited, 1):
        text = " ".join(passage.text.split())
        snippet = text if len(text) <= SNIPPET else f"{text[:SNIPPET].rstrip()}…"
        notes.append(f"[^{n}]: {passage.name or passage.id}: {snippet}")
    lead = f"{answered.answer} {marks}" if marks else answered.answer
    return "\n\n".join([lead, "\n".join(notes)]) if notes else lead


def usage(answered: Answered) -> dict[str, int]:
    def total(name: str) -> int:
        return sum(int(account.get(name) or 0) for account in answered.usage.values())

    prompt, completion = total("prompt_tokens"), total("completion_tokens")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def completion(answered: Answered) -> dict[str, Any]:
    """The whole response; ``hopsmith`` holds the answer with its hops."""
    message = {"role": "assistant", "content": content(answered)}
    return {
        "id": f"chatcmpl-{answered.id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answered.pipeline.name,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": usage(answered),
        "hopsmith": answered.model_dump(),
    }


class Thinking:
    """What a client is shown while a question is under way: each search once, each answer once."""

    def __init__(self) -> None:
        self._searched: set[tuple[int, int]] = set()
        self._answered: set[tuple[int, int]] = set()

    def of(self, event: HopEvent) -> str:
        key, hop, told = (event.program, event.hop.id), event.hop, ""
        if key not in self._searched:
            self._searched.add(key)
            told += f"Looking up: {hop.refined}\n"
        if hop.answer and key not in self._answered:
            self._answered.add(key)
            told += f"Found: {hop.answer} ({hop.refined})\n"
        return told


async def chunks(
    request: ChatRequest,
    model: str,
    first: Event | None,
    rest: AsyncGenerator[Event | None, None],
) -> AsyncIterator[str]:
    """The body of a streamed completion."""
    created = int(time.time())
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": created}
    thinking = Thinking()
    with_usage = request.stream_options is not None and request.stream_options.include_usage

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        body = {**head, "model": model, "choices": [choice], **more}
        if with_usage:
            body["usage"] = None
        return data(body)

    async def every() -> AsyncIterator[Event | None]:
        yield first
        async for event in rest:
            yield event

    async with contextlib.aclosing(rest):
        async for event in every():
            if event is None:
                yield ": waiting\n\n"
                continue
            name, value = event
            if name == "start":
                head["id"] = f"chatcmpl-{value['id']}"
                yield chunk({"role": "assistant", "content": ""})
            elif name == "hop":
                told = thinking.of(value)
                if told:
                    yield chunk({"reasoning_content": told})
            elif name == "answer":
                yield chunk({"content": content(value)})
                yield chunk({}, "stop", hopsmith=value.model_dump())
                if with_usage:
                    yield data({**head, "model": model, "choices": [], "usage": usage(value)})
            elif name == "error":
                yield data(value.for_openai())
        yield "data: [DONE]\n\n"


def data(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def models(names: list[str]) -> dict[str, Any]:
    """Pipelines as OpenAI lists models."""
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 0, "owned_by": "hopsmith"} for name in names
        ],
    }
