"""Documents made with the libraries that make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

MakePdf = Callable[..., Path]


@pytest.fixture(scope="session")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> MakePdf:
    """``pdf(name, pages, title, bookmarks, head)``: each page is its lines; a bookmark is (page
    from 0, level from 0, title); ``head`` stands on each page with the page's number."""

    def make(
        name: str,
        pages: Sequence[Sequence[str]],
        title: str = "",
        bookmarks: Sequence[tuple[int, int, str]] = (),
        head: str = "",
        folder: Path | None = None,
    ) -> Path:
        from reportlab.pdfgen.canvas import Canvas

        path = (folder or tmp_path_factory.mktemp("pdf")) / name
        canvas = Canvas(str(path), invariant=True)
        canvas.setTitle(title or "untitled")
        for number, lines in enumerate(pages):
            if head:
                canvas.drawString(72, 800, f"{head} {number + 1}")
            for row, line in enumerate(lines):
                canvas.drawString(72, 760 - 14 * row, line)
            for page, level, text in bookmarks:
                if page == number:
                    canvas.bookmarkPage(text)
                    canvas.addOutlineEntry(text, text, level)
            canvas.showPage()
        canvas.save()
        return path

    return make


@pytest.fixture(scope="session")
def locked(pdf: MakePdf, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``locked(user_password)``: an encrypted PDF of one page."""

    def make(password: str, folder: Path | None = None) -> Path:
        import pypdf

        path = (folder or tmp_path_factory.mktemp("locked")) / "locked.pdf"
        writer: Any = pypdf.PdfWriter(clone_from=pdf("open.pdf", [["The vault is in Tamsin."]]))
        writer.encrypt(password, "owner", algorithm="AES-256")
        writer.write(path)
        return path

    return make
