"""HTML as it is found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.documents.document import Unreadable
from retrieval.documents.html import read_html


def blocks(source: str | bytes) -> list[tuple[tuple[str, ...], str]]:
    return [(b.headings, b.text) for b in read_html(source).blocks]


def test_a_page_is_its_main_part_below_its_headings() -> None:
    page = """
    <html><head><title>Norvale | Site</title><style>p { color: red }</style></head><body>
    <nav>Home</nav><main><h1>Norvale <em>Ltd</em></h1>
    <p>Founded by<br>Ada <b>Quill</b>.<!-- not said --><p>Second <script>bad()</script> one
    <ul><li>first<li>second <ul><li>inner</ul></ul>
    <h2>Prices</h2><table><tr><th>Lamp<th>Price<tr><td>red<td>7</table>
    <h4>Deep</h4><pre>a = 1\nb = 2</pre><h2>Later</h2><div>bare <div>text</div></div></main>
    <footer>imprint</footer></body></html>"""
    document = read_html(page)
    assert document.title == "Norvale Ltd"
    assert blocks(page) == [
        ((), "Founded by\nAda Quill."),
        ((), "Second one"),
        ((), "first"),
        ((), "second"),
        ((), "inner"),
        (("Prices",), "Lamp | Price"),
        (("Prices",), "red | 7"),
        (("Prices", "Deep"), "a = 1\nb = 2"),
        (("Later",), "bare"),
        (("Later",), "text"),
    ]


def test_without_one_h1_the_page_s_title_is_the_title() -> None:
    document = read_html("<title>Both</title><h1>A</h1><p>x<h1>B</h1><p>y")
    assert document.title == "Both"
    assert [b.headings for b in document.blocks] == [("A",), ("B",)]


def test_a_table_that_lays_out_the_page_is_no_row() -> None:
    assert blocks("<table><tr><td><h2>News</h2><p>today</td><td>side</td></tr></table>") == [
        (("News",), "today"),
        (("News",), "side"),
    ]


def test_headings_that_nothing_stands_under_are_kept() -> None:
    assert blocks("<h2>Alone</h2><h2>Next</h2><p>x</p><h3>Last</h3>") == [
        ((), "Alone"),
        (("Next",), "x"),
        (("Next",), "Last"),
    ]


@pytest.mark.parametrize(
    "page",
    [
        b'<meta charset="iso-8859-1"><p>Fl\xfcsse</p>',
        "<p>Flüsse</p>".encode("utf-16"),
        '<meta charset="utf-8"><p>Flüsse</p>'.encode(),
    ],
)
def test_a_page_is_decoded_as_it_says(page: bytes) -> None:
    assert [text for _, text in blocks(page)] == ["Flüsse"]


@settings(deadline=None)
@given(st.text() | st.binary())
def test_anything_is_a_page(source: str | bytes) -> None:
    try:
        document = read_html(source)
    except Unreadable:
        return
    for block in document.blocks:
        assert block.text == block.text.strip() != ""
        block.text.encode()


def test_a_page_nested_a_thousand_deep_is_read_or_said() -> None:
    said = ""
    try:
        said = "".join(b.text for b in read_html("<div>" * 50_000 + "deep").blocks)
    except Unreadable as fault:
        said = str(fault)
    assert said in ("deep", "", "is nested too deeply")
