"""Demonstrations: bounded by tokens, and never quoting what dev or test is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from programs import MultiHopProgram
from programs.state import own_predictors
from signatures import Context, tokens

QUOTE = 60
"""Characters by which a passage is known in text: code that an LM wrote prints its own."""
LEAST = 20
"""A shorter passage's text says too little to be known by."""


def tidy(program: MultiHopProgram, *, hidden: Mapping[str, str], max_tokens: int) -> None:
    """Bound every predictor's demonstrations, in place, parts included.

    Passages whose ids are in ``hidden`` (those that support dev and test questions, with their
    texts) are taken out of the contexts that demonstrations quote; one whose context or answer is
    gone with them is dropped, and so is one that has such a text in another field. Then
    demonstrations are kept, in order, while they fit in ``max_tokens`` (estimated) per predictor.
    """
    for predictor in own_predictors(program).values():
        kept: list[Any] = []
        left = max_tokens
        for demo in predictor.demos:
            clean = _without(demo, hidden)
            cost = None if clean is None else demo_tokens(clean)
            if clean is not None and cost is not None and cost <= left:
                kept.append(clean)
                left -= cost
        predictor.demos = kept
    for part in program.parts.values():
        tidy(part, hidden=hidden, max_tokens=max_tokens)


def demo_tokens(demo: Any) -> int:
    """Estimated tokens of a demonstration in a prompt."""
    return sum(tokens(f"{name}: {value}") for name, value in demo.items())


def _without(demo: Any, hidden: Mapping[str, str]) -> dspy.Example | None:
    fields = dict(demo.items())
    for name, value in fields.items():
        if not isinstance(value, Context) or not value.ids:
            if _quotes(str(value), hidden):
                return None
            continue
        fields[name] = clean = value.without(hidden)
        if not clean.ids:
            return None
        answer = fields.get("answer")
        if isinstance(answer, str) and answer in value and answer not in clean:
            return None
    return dspy.Example(**fields)


def _quotes(text: str, hidden: Mapping[str, str]) -> bool:
    return any(len(t) >= LEAST and t[:QUOTE] in text for t in hidden.values())
