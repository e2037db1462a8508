"""Whether a prompt fits: context windows, token counts, and the refusal before anything is sent."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Sequence
from functools import lru_cache
from http.client import HTTPException
from typing import Any

from dspy.clients.base_lm import BaseLM
from dspy.utils.exceptions import ContextWindowExceededError

from hopsmith.errors import HopsmithError

BYTES_PER_TOKEN = 3.2
"""Fewer than in English prose (4 to 5), so that plans err on the long side."""
SURE = (2.0, 5.0)
"""Bytes per token: text is hardly ever denser than the first, and never thinner than the second
over a whole prompt."""
PER_MESSAGE = 10
"""Tokens that a chat template adds to a message, at most."""


class PromptTooLong(HopsmithError, ContextWindowExceededError):
    """A prompt that doesn't fit the LM's window together with its reply. Nothing was sent.

    Also one of DSPy's own, so that ``dspy.ReAct`` shortens its history and goes on. It fails one
    step, not the run.
    """

    stops_run = False

    def __init__(self, message: str, *, model: str | None = None) -> None:
        ContextWindowExceededError.__init__(self, model=model, message=message)


def window(lm: BaseLM) -> int | None:
    """Context window in tokens, prompt and reply together; None when nobody says."""
    told = getattr(lm, "window", None)
    if told:
        return int(told)
    endpoint = getattr(lm, "endpoint", None)
    name = lm.model.partition("/")[2] or lm.model
    if endpoint and "://" in endpoint:
        return _told_by(endpoint, name, lm.kwargs.get("api_key"))
    return _catalogued(lm.model)


@lru_cache(maxsize=64)
def _told_by(endpoint: str, name: str, key: str | None) -> int | None:
    """What the server's list of models says (vLLM: ``max_model_len``, llama.cpp: ``n_ctx``)."""
    request = urllib.request.Request(
        f"{endpoint}/models", headers={"Authorization": f"Bearer {key or 'none'}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=3) as reply:
            listed = json.load(reply)["data"]
        entry = next((m for m in listed if m.get("id") == name), None)
        size = entry and (entry.get("max_model_len") or (entry.get("meta") or {}).get("n_ctx"))
        return int(size) if size else None
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None


@lru_cache(maxsize=64)
def _catalogued(model: str) -> int | None:
    """From the model catalogue that DSPy carries."""
    from dspy.clients.model_metadata import model_info

    provider, slash, name = model.partition("/")
    if not slash:
        return None
    size = model_info(provider, name).get("max_input_tokens")
    return int(size) if size else None


def estimate_tokens(text: str) -> int:
    """Tokens of a text for planning: on the long side, without asking anyone."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def count_tokens(lm: BaseLM, text: str) -> int:
    """Tokens of a text: exact for the local LM, else ``estimate_tokens``."""
    from hopsmith.local_lm import running

    server = running(getattr(lm, "endpoint", None) or "")
    return server.count_tokens(text) if server else estimate_tokens(text)


def check_fits(lm: BaseLM, messages: Sequence[dict[str, Any]]) -> None:
    """Raise ``PromptTooLong`` when the prompt and its longest reply surely exceed the window.

    Exact for the local LM. Of other LMs the tokenizer is unknown: what is only probably too long
    is left to the endpoint to refuse.
    """
    size = window(lm)
    if size is None:
        return
    text = "\n".join(_text(m) for m in messages)
    length = len(text.encode("utf-8", "replace"))
    reply = int(lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens") or 0)
    room = size - reply - PER_MESSAGE * len(messages)
    if length / SURE[0] <= room:
        return
    from hopsmith.local_lm import running

    server = running(getattr(lm, "endpoint", None) or "")
    tokens = server.count_tokens(text) if server else int(length / SURE[1])
    if tokens > room:
        raise PromptTooLong(
            f"a prompt of {tokens:,} tokens and a reply of up to {reply:,} don't fit the LM's "
            f"window of {size:,}: lower --budget context_tokens or the demos' number, or use an "
            "LM with a larger window",
            model=lm.model,
        )


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
