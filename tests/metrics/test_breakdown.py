"""Groups of questions."""

import pytest

from metrics import GoldStep, Record, breakdown, grouped, metric


def asked(hops: int, kind: str = "bridge", right: bool = True) -> Record:
    return Record(
        id="q",
        question="?",
        answer="a" if right else "b",
        answers=("a",),
        kind=kind,
        gold=tuple(GoldStep(f"p{i}") for i in range(hops)),
        supporting=("p0", "p0", "p1")[: hops + 1],
    )


def test_hop_counts_come_in_numeric_order() -> None:
    assert list(grouped([asked(n) for n in (10, 2, 4, 2)])) == ["2", "4", "10"]


def test_supporting_counts_distinct_passages() -> None:
    assert list(grouped([asked(1), asked(2)], "supporting")) == ["1", "2"]


def test_a_question_without_a_kind_is_its_own_group() -> None:
    assert list(grouped([asked(1, ""), asked(1, "bridge")], "kind")) == ["bridge", "unknown"]


def test_each_group_has_its_own_value_and_n() -> None:
    found = breakdown([asked(2), asked(2, right=False), asked(3)], [metric("em")])
    assert (found["2"]["em"].value, found["2"]["em"].n) == (0.5, 2)
    assert (found["3"]["em"].value, found["3"]["em"].n) == (1.0, 1)


def test_an_unknown_grouping_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="hops, supporting, kind"):
        grouped([], "length")  # type: ignore[arg-type]
