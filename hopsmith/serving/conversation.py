"""A follow-up and what was said before it, condensed into one question that stands alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

import dspy

from programs import Ledger, Meter, MeteredAdapter, Scope, Step
from programs.scope import entering
from signatures import StandAlone

CALLS = 3
"""LM calls that the meter allows: one and its retry, besides the one that a meter keeps back."""
TURNS = 8
TURN_CHARS = 600
MOST_CHARS = 1000
"""A longer reply is no question: the message itself is asked then."""

_condense = Step(StandAlone, role="condenser", fallback={"question": ""})


def condense(history: Sequence[str], message: str, meter: Meter) -> tuple[str, Ledger]:
    """The question, and what asking for it cost. The role is ``condenser``; a reply without a word
    leaves the message as it is."""
    scope = Scope(message, meter)
    adapter = dspy.settings.adapter or dspy.JSONAdapter()
    with entering(scope, adapter=MeteredAdapter(adapter)):
        reply = _condense(conversation=recent(history), message=message)
    question = " ".join(str(reply.question or "").split())
    usable = re.search(r"\w", question) and len(question) <= MOST_CHARS
    return (question if usable else message), scope.ledger


def recent(history: Sequence[str]) -> list[str]:
    """The latest turns, each cut to a length at which names and answers remain."""
    return [turn if len(turn) <= TURN_CHARS else turn[:TURN_CHARS] + "…" for turn in history][
        -TURNS:
    ]
