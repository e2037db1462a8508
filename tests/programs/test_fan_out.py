"""fan_out: independent work at once, and what is kept when one of it fails."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from programs.fan_out import WIDTH, fan_out


def tasks(*values: Any) -> list[Any]:
    def task(value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return [lambda value=value: task(value) for value in values]


@pytest.mark.parametrize("width", [1, 4])
def test_results_are_in_order_and_each_is_kept_by_its_place(width: int) -> None:
    kept: dict[int, Any] = {}
    with dspy.context(**{WIDTH: width}):
        assert fan_out(tasks("a", "b", "c"), keep=kept.__setitem__) == ["a", "b", "c"]
    assert kept == {0: "a", 1: "b", 2: "c"}
    assert fan_out([], keep=kept.__setitem__) == []


@pytest.mark.parametrize(("width", "wanted"), [(1, {0: "a"}), (4, {0: "a", 2: "c"})])
def test_what_was_done_before_a_failure_is_kept(width: int, wanted: dict[int, str]) -> None:
    kept: dict[int, Any] = {}
    with dspy.context(**{WIDTH: width}), pytest.raises(ValueError, match="first"):
        fan_out(tasks("a", ValueError("first"), "c"), keep=kept.__setitem__)
    assert kept == wanted
