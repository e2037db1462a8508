"""The tree of a question as a page that stands alone."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scripted import ScriptedAdapter, stand_in
from hopsmith import session as sessions
from hopsmith.cli import app, guarded
from hopsmith.tree_html import tree_html
from optimize.rows import HopRow
from retrieval import Passage

VOID = {"meta", "br", "input"}


class Page(HTMLParser):
    """What a browser would see: text by the tags around it, and whether tags are nested well."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    @property
    def text(self) -> str:
        return " ".join(data for path, data in self.texts if "style" not in path)


def hop(id: int, parent: int | None = None, **more: Any) -> HopRow:
    usual = {"role": "resolver", "query": f"q{id}", "refined": f"q{id}", "status": "resolved"}
    return HopRow(id=id, parent=parent, **{**usual, **more})


def page(
    *hops: HopRow, question: str = "Q?", answer: str | None = "A", **passages: Passage
) -> Page:
    return Page(tree_html(question, hops, passages, answer, "answered"))


def test_shows_queries_passages_answers_reasons_and_repairs() -> None:
    told = page(
        hop(0, note="split, repaired (lost a date): a | b", passages=["p", "gone"]),
        hop(1, 0, query="that one?", refined="Ada?", answer="Tarn", candidates=["Orl"]),
        hop(2, 0, status="not_decomposable", error="the reply did not parse"),
        p=Passage("p", "A title", "The text."),
    ).text
    for words in (
        *("Q?", "split, repaired (lost a date): a | b", "A title", "The text.", "gone", "Ada?"),
        *("asked as: that one?", "Tarn", "or: Orl", "not decomposable", "did not parse"),
    ):
        assert words in told


def test_each_hop_is_nested_in_the_one_that_led_to_it() -> None:
    depths = {
        data.split()[0]: path.count("ul")
        for path, data in page(hop(0), hop(1, 0), hop(2, 1), hop(3, 0), hop(4)).texts
        if path[-1:] == ("summary",) and data.startswith("q")
    }
    assert depths == {"q0": 1, "q1": 2, "q2": 3, "q3": 2, "q4": 1}


def test_stands_alone() -> None:
    seen = page(hop(0), p=Passage("p", "t", "x"))
    assert not {"script", "link", "img", "iframe"} & set(seen.tags)
    assert not {"src", "href", "onclick"} & {name for name, _ in seen.attributes}


def test_no_answer_is_said() -> None:
    assert "no answer" in page(answer=None).text


@given(st.text(), st.text(), st.text())
def test_no_text_becomes_markup(query: str, text: str, note: str) -> None:
    bare = page(hop(0, passages=["p"], note="n"), p=Passage("p", "t", "x"))
    bad = f"</p><script>{query}</script><img src=x onerror=alert(1)>"
    wild = page(
        hop(0, query=bad, refined=bad, answer=None, passages=["p"], note=f"n{note}"),
        question=bad,
        p=Passage("p", f"t{bad}", text + bad),
    )
    assert wild.tags == bare.tags
    assert "alert(1)" in wild.text


@pytest.mark.parametrize("hops", [0, 120])
def test_any_depth(hops: int) -> None:
    chain = [hop(i, i - 1 if i else None) for i in range(hops)]
    assert page(*chain).tags.count("li") == hops


def test_ask_writes_it(
    small_index: Path, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "make_lm", lambda _: stand_in("scripted/lm"))
    adapter = ScriptedAdapter(lambda *_: {"answer": "forty-two"})
    monkeypatch.setattr(sessions, "make_adapter", lambda _: adapter)
    words = ["hopsmith", "ask", "How <many>?", "--method", "hiq", "--index", str(small_index)]
    target = tmp_path / "tree.html"
    monkeypatch.setattr(sys, "argv", [*words, "--html", str(target), "--json"])
    assert guarded(app) == 0
    assert '"answer": "forty-two"' in capsys.readouterr().out
    told = Page(target.read_text(encoding="utf-8")).text
    assert "How <many>?" in told
    assert "forty-two" in told
    monkeypatch.setattr(sys, "argv", [*words, "--html", str(tmp_path / "no" / "tree.html")])
    assert guarded(app) == 2
    assert "--html" in capsys.readouterr().err
