"""``hopsmith methods``: what can be given to each method, in lines that break between words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from programs import build, methods, registry
from tests.hopsmith.test_cli import one_line, run


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    code, out, _ = run(capsys, "methods", "--json")
    assert code == 0
    return {row["name"]: row for row in json.loads(out)["methods"]}


def test_methods_lists_knobs_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys)
    assert "passages" in rows["decompose"]["knobs"]
    assert all(row["source"] and row["roles"] for row in rows.values())


def test_methods_lists_what_can_be_given_to_each(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys)
    assert rows["decompose"]["arguments"] == [
        {"name": "synthesis", "required": False, "default": "facts"}
    ]
    assert rows["decompose"]["roles"] == ["planner", "resolver", "synthesizer", "writer"]
    assert rows["react"]["roles"] == ["actor", "writer"]
    graphs = {name: row["graph"] for name, row in rows.items() if row["graph"]}
    assert graphs == {"graph": "needed", "router": "used", "proprag": "needed"}
    assert [name for name, row in rows.items() if row["gold"]] == ["golden"]


@pytest.mark.parametrize("width", [80, 120])
def test_no_word_is_cut(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import rich.console

    from hopsmith import show

    monkeypatch.setattr(show, "out", rich.console.Console(width=width, soft_wrap=True))
    _, out, _ = run(capsys, "methods")
    assert max(map(len, out.splitlines())) <= width
    shown = {word.strip(",;:") for word in out.split()}
    for name, row in told(capsys).items():
        assert f"\n{name} " in f"\n{out}"
        given = [f"{a['name']}=" for a in row["arguments"]]
        assert {*row["knobs"], *row["roles"], *row["parts"]} <= shown
        assert all(any(word.startswith(start) for word in shown) for start in given)
        assert set(re.findall(r"[\w-]{9,}", row["summary"])) <= shown


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint("mine", "programs.single_shot:SingleShot", registry.ENTRY_POINTS),
        EntryPoint("bad", "no_such_module:Method", registry.ENTRY_POINTS),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    for cached in (registry._points, registry._loaded):
        cached.cache_clear()
    yield
    for cached in (registry._points, registry._loaded):
        cached.cache_clear()


@pytest.mark.usefixtures("plug_ins")
def test_a_method_of_an_installed_package_is_listed_and_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = told(capsys)
    assert list(rows)[-1] == "mine"
    assert all(row["summary"] and row["source"] for row in rows.values())
    assert type(build("mine", None)).__name__ == "SingleShot"  # type: ignore[arg-type]
    assert "bad" not in methods()


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_that_can_not_be_loaded_is_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "methods")
    assert code == 0
    assert "single_shot" in out
    assert "method bad of an unnamed package (no_such_module:Method) can't" in one_line(err)
    code, out, err = run(capsys, "ask", "q", "--method", "bad")
    assert (code, out) == (2, "")
    assert "No module named 'no_such_module'): mend or uninstall" in one_line(err)
