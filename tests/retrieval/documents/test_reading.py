"""Text, Markdown and DOCX."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.documents import Unreadable, read_document


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_markdown_is_read_without_its_marks(tmp_path: Path) -> None:
    source = (
        '---\r\ntitle: "A note"\r\ntags: [x]\r\n---\r\nIntro *text*.\r\n\r\n# One\r\n\r\n'
        "Body [link](http://x).\r\n\r\n## Two\r\n\r\n- a\r\n- b\r\n\r\n"
        "| h | i |\r\n|---|---|\r\n| 1 | 2 |\r\n"
    )
    document = read_document(write(tmp_path / "note.md", source))
    assert document.title == "A note"
    assert [(b.headings, b.text) for b in document.blocks] == [
        ((), "Intro text."),
        (("One",), "Body link."),
        (("One", "Two"), "a"),
        (("One", "Two"), "b"),
        (("One", "Two"), "h | i"),
        (("One", "Two"), "1 | 2"),
    ]


def test_a_docx_has_its_title_headings_lists_and_tables(tmp_path: Path) -> None:
    import docx

    made = docx.Document()
    made.add_heading("The Norvale Guide", 0)
    made.add_paragraph("An introduction.")
    made.add_heading("Lamps", 1)
    made.add_paragraph("Made of glass.", style="List Bullet")
    made.add_heading("Prices", 2)
    table = made.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Red", "7"
    made.save(str(tmp_path / "guide.docx"))
    document = read_document(tmp_path / "guide.docx")
    assert document.title == "The Norvale Guide"
    assert [(b.headings, b.text) for b in document.blocks] == [
        ((), "An introduction."),
        (("Lamps",), "Made of glass."),
        (("Lamps", "Prices"), "Red | 7"),
    ]


def test_text_is_read_by_paragraphs_in_utf_8_and_in_utf_16_that_says_so(tmp_path: Path) -> None:
    for name, encoding in (("a.txt", "utf-8"), ("b.txt", "utf-8-sig"), ("c.txt", "utf-16")):
        document = read_document(write(tmp_path / name, "Über\n\n \nFluß\x00.\n".encode(encoding)))
        assert [b.text for b in document.blocks] == ["Über", "Fluß."]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.txt", "Fluß".encode("latin-1"), "no UTF-8"),
        ("a.md", b"\xff\x00", "no UTF-8"),
        ("a.txt", b" \n\x00", "has no words"),
        ("a.md", b"---\ntitle: x\n---\n", "has no words"),
        ("a.html", b"<nav>Home</nav>", "has no words"),
        ("a.docx", b"PK no archive", "no .docx file"),
        ("a.docx", bytes.fromhex("d0cf11e0a1b11ae1"), "encrypted"),
        ("a.docx", b"", "no .docx file"),
    ],
)
def test_what_can_t_be_read_says_why(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=why):
        read_document(write(tmp_path / name, content))


def test_an_archive_that_is_no_docx_is_broken(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(Unreadable, match="broken"):
        read_document(tmp_path / "a.docx")
