"""Conditions on metadata, and metadata through every change of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import (
    Passage,
    QueryError,
    add_passages,
    build_index,
    compact,
    delete_passages,
    open_index,
)
from retrieval.where import Condition


@pytest.mark.parametrize(
    ("text", "columns", "met"),
    [
        ("year=2020", {"year": 2020}, True),
        ("year=2020", {"year": "2020"}, True),
        ("year=2020.0", {"year": 2020}, True),
        ("code=7", {"code": "007"}, False),
        ("year>=2020", {"year": "2019"}, False),
        ("year>999", {"year": "2019"}, True),
        ("year < 2020", {"year": "unknown"}, False),
        ("date>=2024-05-01", {"date": "2024-11-30"}, True),
        ("date<2024-05-01", {"date": "2024-11-30"}, False),
        ("tags=red", {"tags": ["blue", "red"]}, True),
        ("tags!=red", {"tags": ["blue", "red"]}, False),
        ("lang!=en", {}, True),
        ("lang=en", {}, False),
        ("lang>a", {"lang": None}, False),
        ("draft=true", {"draft": True}, True),
        ("draft=1", {"draft": True}, False),
        ("formula=a=b", {"formula": "a=b"}, True),
        ("name=", {"name": ""}, True),
        ("big=1234567890123456705", {"big": 1234567890123456705}, True),
        ("big=1234567890123456705", {"big": 1234567890123456704}, False),
        ("big>1234567890123456705", {"big": 1234567890123456706}, True),
        ("big<=1e18", {"big": 1000000000000000001}, False),
        ("big>1", {"big": "9" * 5000}, True),
    ],
)
def test_a_condition(text: str, columns: dict[str, Any], met: bool) -> None:
    condition = Condition.parse(text)
    assert condition.holds(columns) is met
    assert Condition.parse(str(condition)) == condition


@pytest.mark.parametrize("text", ["", "year", "=2020", ">3", "!="])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="COLUMN=VALUE"):
        Condition.parse(text)


@given(st.text(), st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3))
def test_any_text_is_read_or_refused(text: str, columns: dict[str, Any]) -> None:
    try:
        condition = Condition.parse(text)
    except QueryError:
        return
    assert condition.holds(columns) in (True, False)


@given(st.integers(1 << 53), st.integers(-1, 1), st.sampled_from(["=", "<", ">=", "!="]))
def test_whole_numbers_compare_exactly(left: int, more: int, operator: str) -> None:
    right = left + more
    expected = {"=": left == right, "<": left < right, ">=": left >= right, "!=": left != right}
    assert Condition("n", operator, str(right)).holds({"n": left}) is expected[operator]


@given(st.integers(-5, 5) | st.floats(-5, 5), st.integers(-5, 5))
def test_the_comparisons_of_numbers_agree(left: float, right: int) -> None:
    def met(operator: str) -> bool:
        return Condition("n", operator, str(right)).holds({"n": left})

    assert met(">=") == (met(">") or met("="))
    assert met("<=") == (met("<") or met("="))
    assert [met("<"), met("="), met(">")].count(True) == 1
    assert met("!=") != met("=")


def test_metadata_outlives_every_change(tmp_path: Path) -> None:
    folder = tmp_path / "index"

    def note(name: str, **metadata: Any) -> Passage:
        return Passage(name, "", f"A note on {name}.", metadata=metadata)

    def found() -> dict[str, dict[str, Any]]:
        hits = open_index(folder).where("year>=2001").search(["a note"], 9)[0]
        return {p.id: dict(p.metadata) for p in hits}

    build_index([note("a", year=2000), note("b", year=2001, by=["x"])], folder, engine="bm25")
    add_passages(folder, [note("c", year=2002), note("d")])
    expected = {"b": {"year": 2001, "by": ["x"]}, "c": {"year": 2002}}
    assert found() == expected
    delete_passages(folder, ["a"])
    compact(folder)
    assert found() == expected


def test_a_view_stays_as_it_was_when_the_index_changes(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    notes = [Passage(str(i), "", f"note {i}", metadata={"even": i % 2 == 0}) for i in range(6)]
    build_index(notes, folder, engine="bm25")
    view = open_index(folder).where("even=true")
    delete_passages(folder, ["0"])
    compact(folder)
    assert {p.id for p in view.search(["note"], 9)[0]} == {"0", "2", "4"}


def test_a_passage_is_cited_with_source_and_page() -> None:
    assert Passage("7", "", "x").cited == "7"
    assert Passage("7", "Norvale", "x").cited == "Norvale"
    cited = Passage("7", "Norvale", "x", metadata={"source": "a/b.pdf", "page": 3}).cited
    assert cited == "Norvale (a/b.pdf, p. 3)"
