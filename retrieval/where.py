"""Conditions on a passage's metadata, such as ``year>=2020`` or ``source=report.pdf``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from retrieval.errors import QueryError
from retrieval.passage import Passage

OPERATORS = ("!=", ">=", "<=", "=", ">", "<")
_CONDITION = re.compile(r"\s*([^=!<>]+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d{1,4000}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a metadata column with a value.

    ``=`` and ``!=`` compare as text, or as numbers where the column holds a number; the others as
    numbers where both sides are numbers, else as text (dates written ``2024-05-01`` compare as
    they should), and never a number with a word. A list meets a condition when one of its items
    does. A passage without the column meets ``!=`` alone. ``id`` and ``title`` count as columns.
    """

    column: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read ``COLUMN=VALUE``; raises ``QueryError`` naming the form."""
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise QueryError(
                f"the filter {text!r} is not COLUMN=VALUE; instead of = there may be "
                f"{', '.join(o for o in OPERATORS if o != '=')}"
            )
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.column}{self.operator}{self.value}"

    def holds(self, columns: Mapping[str, Any]) -> bool:
        """Whether a passage with these columns meets it."""
        if self.operator == "!=":
            return not Condition(self.column, "=", self.value).holds(columns)
        there = columns.get(self.column)
        return any(self._one(item) for item in (there if isinstance(there, list) else [there]))

    def _one(self, item: Any) -> bool:
        if item is None:
            return False
        text = str(item).lower() if isinstance(item, bool) else str(item)
        left = number_of(text) if isinstance(item, (str, int, float)) else None
        right = number_of(self.value)
        if self.operator == "=":
            typed = not isinstance(item, str)
            return text == self.value or (typed and left is not None and left == right)
        if (left is None) != (right is None):
            return False
        if left is None or right is None:
            return _ordered(text, self.value, self.operator)
        return _ordered(left, right, self.operator)


def number_of(text: str) -> int | float | None:
    """What a text says when it is a number. Whole numbers stay exact, however large."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def _ordered(left: Any, right: Any, operator: str) -> bool:
    return bool(
        (operator in (">", ">=") and left > right)
        or (operator in ("<", "<=") and left < right)
        or (operator in (">=", "<=") and left == right)
    )


def conditions_of(wanted: Iterable[str | Condition]) -> tuple[Condition, ...]:
    """Conditions as they are, or read. Raises ``QueryError`` when there is none."""
    found = tuple(w if isinstance(w, Condition) else Condition.parse(w) for w in wanted)
    if not found:
        raise QueryError("where() takes at least one condition, such as 'year>=2020'")
    return found


def columns_of(passage: Passage) -> dict[str, Any]:
    """What conditions may name of a passage."""
    return {"id": passage.id, "title": passage.title, **passage.metadata}
