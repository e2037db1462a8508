"""Plans are data: what a planner writes is checked before anything is done with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_REFERENCE = re.compile(r"\{\s*answer[_ ]?(\d+)\s*\}|(?<![\w#])#(\d+)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One sub-question; ``needs`` are the positions (0-based) of the answers it waits for."""

    text: str
    needs: tuple[int, ...] = ()

    def filled(self, answers: Mapping[int, str | None]) -> str:
        """The sub-question with answers in place of references. A reference whose answer is
        missing becomes the words "the answer to" and its sub-question's number."""

        def put(match: re.Match[str]) -> str:
            place = int(match.group(1) or match.group(2)) - 1
            return answers.get(place) or f"the answer to sub-question {place + 1}"

        return _REFERENCE.sub(put, self.text)


def parse_plan(sub_questions: object, limit: int) -> tuple[tuple[PlanStep, ...], str | None]:
    """``(steps, None)``, or ``((), fault)`` where the fault says what to mend.

    A plan is a list of one to ``limit`` sub-questions, each a text with a word in it, no two
    alike, references (``{answer_1}``, or ``#1``) to earlier sub-questions only: thus acyclic.
    """
    if not isinstance(sub_questions, (list, tuple)) or not sub_questions:
        return (), "the plan must be a list of at least one sub-question"
    if len(sub_questions) > limit:
        return (), f"the plan has {len(sub_questions)} sub-questions; at most {limit} are allowed"
    steps: list[PlanStep] = []
    seen: set[str] = set()
    for i, text in enumerate(sub_questions):
        if not isinstance(text, str) or not re.search(r"\w", _REFERENCE.sub("", text)):
            return (), f"sub-question {i + 1} is not a question in words: {text!r}"
        needs = tuple(sorted({int(m[1] or m[2]) - 1 for m in _REFERENCE.finditer(text)}))
        if any(need >= i or need < 0 for need in needs):
            return (), (
                f"sub-question {i + 1} refers to the answer of sub-question "
                f"{max(needs) + 1}, which does not come before it"
            )
        key = " ".join(text.casefold().split())
        if key in seen:
            return (), f"sub-question {i + 1} repeats an earlier one"
        seen.add(key)
        steps.append(PlanStep(" ".join(text.split()), needs))
    return tuple(steps), None


def waves(steps: Sequence[PlanStep]) -> list[list[int]]:
    """Positions in dependency order: all of a wave can be searched and asked at once."""
    level: list[int] = []
    for step in steps:
        level.append(1 + max((level[n] for n in step.needs), default=-1))
    return [[i for i, at in enumerate(level) if at == wave] for wave in range(max(level) + 1)]
