"""PDF: pages, headings, running heads, and files that can't be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.documents.document import Unreadable
from retrieval.documents.pdf import read_pdf


def test_pages_bookmarks_and_title_are_kept(pdf: Callable[..., Path]) -> None:
    path = pdf(
        "report.pdf",
        [
            ["A preface.", "1 Growth", "The river firm grew", "in Tamsin."],
            ["It grew on.", "1.1 Lamps", "They sold.", "2 Decline", "It fell."],
            ["The end."],
        ],
        title="Annual Report",
        bookmarks=[(0, 0, "Growth"), (1, 1, "Lamps"), (1, 0, "Decline")],
    )
    document = read_pdf(path)
    assert document.title == "Annual Report"
    assert [(b.page, b.headings, b.text) for b in document.blocks] == [
        (1, (), "A preface."),
        (1, ("Growth",), "The river firm grew in Tamsin."),
        (2, ("Growth",), "It grew on."),
        (2, ("Growth", "Lamps"), "They sold."),
        (2, ("Decline",), "It fell."),
        (3, ("Decline",), "The end."),
    ]


def test_a_heading_that_is_not_found_counts_from_its_page(pdf: Callable[..., Path]) -> None:
    path = pdf("r.pdf", [["one"], ["two"]], bookmarks=[(1, 0, "Elsewhere")])
    assert [(b.page, b.headings) for b in read_pdf(path).blocks] == [
        (1, ()),
        (2, ("Elsewhere",)),
    ]


def test_running_heads_are_left_out_and_hyphens_joined(pdf: Callable[..., Path]) -> None:
    pages = [[f"Text of {c} is exam-", f"ined by {c} and Jean-", f"Luc of {c}."] for c in "abcd"]
    document = read_pdf(pdf("heads.pdf", pages, head="Norvale Annual Report, page"))
    assert [b.text for b in document.blocks] == [
        f"Text of {c} is examined by {c} and Jean- Luc of {c}." for c in "abcd"
    ]
    assert document.title == ""


def test_pages_of_one_like_line_keep_it(pdf: Callable[..., Path]) -> None:
    lines = [f"Certificate {n}: lamp {n} passed in {1930 + n}." for n in range(4)]
    document = read_pdf(pdf("certificates.pdf", [[line] for line in lines]))
    assert [b.text for b in document.blocks] == lines


def test_one_that_opens_without_a_password_is_read(locked: Callable[..., Path]) -> None:
    assert [b.text for b in read_pdf(locked("")).blocks] == ["The vault is in Tamsin."]


def test_one_with_a_password_is_named_as_such(locked: Callable[..., Path]) -> None:
    with pytest.raises(Unreadable, match="encrypted"):
        read_pdf(locked("secret"))


@pytest.mark.parametrize("content", [b"", b"no PDF at all", b"%PDF-1.7\n%%EOF"])
def test_what_is_no_pdf_is_broken(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match="broken PDF"):
        read_pdf(path)


def test_a_scan_is_told_from_a_broken_one(pdf: Callable[..., Path]) -> None:
    with pytest.raises(Unreadable, match="OCR"):
        read_pdf(pdf("scan.pdf", [[], []]))


def test_a_page_that_fails_is_noted(
    pdf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pypdf import PageObject

    plain = PageObject.extract_text

    def fails_on_two(page: Any) -> str:
        text: str = plain(page)
        if "two" in text:
            raise KeyError("/Contents")
        return text

    path = pdf("three.pdf", [["one"], ["two"], ["three"]])
    monkeypatch.setattr(PageObject, "extract_text", fails_on_two)
    document = read_pdf(path)
    assert [(b.page, b.text) for b in document.blocks] == [(1, "one"), (3, "three")]
    assert document.notes == ["page 2 can't be read"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_file_is_read_or_unreadable(
    pdf: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = pdf("good.pdf", [["one river"], ["two rivers"]], bookmarks=[(0, 0, "One")]).read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    length = data.draw(st.integers(0, 60))
    path = tmp_path_factory.getbasetemp() / "damaged.pdf"
    path.write_bytes(good[:at] + data.draw(st.binary(max_size=60)) + good[at + length :])
    said = ""
    try:
        read_pdf(path)
    except Unreadable as fault:
        said = str(fault)
    assert "\n" not in said
