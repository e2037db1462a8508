"""Answers as LMs write them, and whether they say anything."""

from __future__ import annotations


def stated(answer: object) -> str:
    """An LM's answer on one line; empty where it wrote none, or "nothing" in words."""
    text = "" if answer is None else " ".join(str(answer).split())
    return "" if is_null(text) else text


def is_null(text: str) -> bool:
    """Whether an LM wrote "nothing" in words."""
    return text.strip(" .").casefold() in ("", "null", "none", "n/a", "unknown")
