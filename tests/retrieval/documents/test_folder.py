"""Folders of documents, indexed and brought up to date."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hopsmith.cli import app, guarded
from retrieval import (
    CorpusError,
    Passage,
    add_passages,
    build_index,
    open_index,
    read_corpus,
)
from retrieval.documents import Cut, DocumentCorpus
from retrieval.manifest import Manifest

RIVERS = " ".join(f"River number {i} flows to the sea." for i in range(40))


@pytest.fixture
def folder(tmp_path: Path, pdf: Callable[..., Path], locked: Callable[..., Path]) -> Path:
    """A PDF, a note and a page that can be read; three files that can't; others besides."""
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    pdf("report.pdf", [["Ada founded Norvale."], ["It makes lamps."]], "Report", folder=folder)
    locked("secret", folder=folder)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 cut off")
    (folder / "latin.txt").write_bytes("Über den Fluß".encode("latin-1"))
    (folder / "sub" / "my_note.md").write_text(f"# Notes\n\nA preface.\n\n## Rivers\n\n{RIVERS}\n")
    (folder / "page.html").write_text("<title>Lamps</title><p>Red lamps cost seven.")
    (folder / "slides.pptx").write_bytes(b"x")
    (folder / ".hidden" / "secret.txt").write_text("hidden")
    (folder / "~$report.docx").write_bytes(b"x")
    return folder


def corpus(folder: Path, words: int = 100) -> DocumentCorpus:
    found = read_corpus(folder, cut=Cut(words, 0))
    assert isinstance(found, DocumentCorpus)
    return found


def test_passages_have_stable_ids_titles_and_places(folder: Path) -> None:
    found = corpus(folder)
    passages = {p.id: p for p in found}
    assert list(passages) == [
        "page.html",
        "report.pdf",
        "sub/my_note.md",
        "sub/my_note.md#2",
        "sub/my_note.md#3",
        "sub/my_note.md#4",
    ]
    report, rivers = passages["report.pdf"], passages["sub/my_note.md#2"]
    assert report.cited == "Report (report.pdf, pp. 1–2)"
    assert report.text == "Ada founded Norvale.\nIt makes lamps."
    assert rivers.title == "Notes: Rivers"
    assert rivers.metadata == {"source": "sub/my_note.md", "heading": "Rivers"}
    assert [p.id for p in found] == list(passages)


def test_what_can_t_be_read_is_named_and_counted(folder: Path) -> None:
    said: list[str] = []
    found = DocumentCorpus(folder, warn=said.append)
    list(found)
    assert [s.source for s in found.skipped] == ["broken.pdf", "latin.txt", "locked.pdf"]
    assert [line.split()[0] for line in said] == [s.source for s in found.skipped]
    assert found.others == {".pptx": 1}


def test_a_folder_with_nothing_readable_is_an_error_that_names_files(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    with pytest.raises(CorpusError, match="holds no document"):
        build_index(corpus(tmp_path / "docs"), tmp_path / "index", engine="bm25")
    (tmp_path / "docs" / "broken.pdf").write_bytes(b"x")
    with pytest.raises(CorpusError, match=r"no document .* can be read: broken\.pdf is a broken"):
        build_index(corpus(tmp_path / "docs"), tmp_path / "index", engine="bm25")
    assert not (tmp_path / "index").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_no_utf8_is_skipped(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/caf\xe9.txt", "w") as file:
        file.write("text")
    found = corpus(folder)
    list(found)
    assert any("no UTF-8: rename" in s.why for s in found.skipped)


def test_one_document_is_a_corpus(folder: Path) -> None:
    assert [p.id for p in read_corpus(folder / "report.pdf")] == ["report.pdf"]


def test_links_are_followed_and_a_folder_is_read_once(tmp_path: Path) -> None:
    docs, far = tmp_path / "docs", tmp_path / "far"
    for place in (docs / "own", far / "deep"):
        place.mkdir(parents=True)
        (place / "a.txt").write_text("A river.")
    (docs / "alias").symlink_to(docs / "own")
    (docs / "own" / "up").symlink_to(docs)
    (docs / "there").symlink_to(far)
    (far / "deep" / "back").symlink_to(far)
    (docs / "their.txt").symlink_to(far / "deep" / "a.txt")
    assert [p.id for p in corpus(docs)] == ["own/a.txt", "their.txt", "there/deep/a.txt"]


def test_folders_and_links_that_cant_be_opened_are_named_and_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "far").symlink_to(folder / "sub" / "secret")
    (folder / "sub" / "secret").mkdir()
    scandir = os.scandir

    def guarded_scandir(path: str) -> object:
        if Path(path).resolve().name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", guarded_scandir)
        found = corpus(folder)
        list(found)
    skipped = {s.source: s.why for s in found.skipped}
    assert skipped["sub/secret"] == skipped["far"] == "can't be opened (Permission denied)"
    assert skipped["gone"] == "can't be opened (No such file or directory)"


def state(index: Path) -> dict[str, str]:
    opened = open_index(index).index
    return {p.id: p.text for p in opened.passages()}


def test_a_changed_document_replaces_its_pieces_alone(folder: Path, tmp_path: Path) -> None:
    index, at_once = tmp_path / "index", tmp_path / "at-once"
    build_index(corpus(folder), index, engine="bm25")
    note = folder / "sub" / "my_note.md"
    note.write_text("# Notes\n\nA preface.\n\n## Rivers\n\nThe Quorvan is a river.\n")
    (folder / "new.txt").write_text("A new text.")
    (folder / "page.html").unlink()
    report = add_passages(index, corpus(folder))
    assert (report.changed, report.removed) == (2, 3)
    now = state(index)
    assert now["sub/my_note.md#2"] == "The Quorvan is a river."
    assert set(now) == {"page.html", "report.pdf", "sub/my_note.md", "sub/my_note.md#2", "new.txt"}
    (folder / "page.html").write_text("<title>Lamps</title><p>Red lamps cost seven.")
    build_index(corpus(folder), at_once, engine="bm25")
    assert open_index(index).corpus_hash == open_index(at_once).corpus_hash
    for query in ("quorvan river", "lamps"):
        left, right = (open_index(f).search([query], 9)[0] for f in (index, at_once))
        assert [p.id for p in left] == [p.id for p in right]


def test_an_unchanged_folder_changes_nothing(folder: Path, tmp_path: Path) -> None:
    build_index(corpus(folder), tmp_path / "index", engine="bm25")
    before = Manifest.read(tmp_path / "index")
    report = add_passages(tmp_path / "index", corpus(folder))
    assert (report.changed, report.removed) == (0, 0)
    assert Manifest.read(tmp_path / "index") == before


def test_a_document_that_became_unreadable_keeps_what_was_read(
    folder: Path, tmp_path: Path
) -> None:
    build_index(corpus(folder), tmp_path / "index", engine="bm25")
    before = state(tmp_path / "index")
    (folder / "report.pdf").write_bytes(b"broken now")
    add_passages(tmp_path / "index", corpus(folder))
    assert state(tmp_path / "index") == before


def test_moved_pieces_of_a_document_are_not_taken_for_each_other(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\n\nx one\n\n# B\n\ny two\n\n# C\n\nx one\n")
    build_index(corpus(docs), tmp_path / "index", engine="bm25")
    (docs / "a.md").write_text("# B\n\ny two\n\n# C\n\nx one\n")
    add_passages(tmp_path / "index", corpus(docs))
    assert state(tmp_path / "index") == {p.id: p.text for p in corpus(docs)}


def test_an_id_of_another_source_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    build_index([Passage("report.pdf", "", "another")], tmp_path / "index", engine="bm25")
    with pytest.raises(CorpusError, match=r"report\.pdf would get the id"):
        add_passages(tmp_path / "index", corpus(folder))
    assert state(tmp_path / "index") == {"report.pdf": "another"}


def hopsmith(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    before = sys.argv
    sys.argv = ["hopsmith", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


def test_index_says_what_it_skipped_and_add_cuts_as_before(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "index"
    words = ["index", folder, "--out", index, "--engine", "bm25", "--passage-words", 50, "--json"]
    code, out, err = hopsmith(capsys, *words)
    told = json.loads(out)
    assert (code, told["skipped"], told["other_files"]) == (0, 3, 1)
    assert told["skipped_files"][2]["source"] == "locked.pdf"
    assert "encrypted" in told["skipped_files"][2]["why"]
    assert "locked.pdf is encrypted" in err
    assert Manifest.read(index).cut == {"words": 50, "overlap": 20}
    code, out, _ = hopsmith(capsys, "add", index, folder, "--json")
    again = json.loads(out)
    assert (code, again["changed"], again["removed"]) == (0, 0, 0)
    assert again["passages"] == told["passages"]


def test_a_document_is_deleted_by_its_source(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "index"
    build_index(corpus(folder), index, engine="bm25")
    words = ["delete", index, "page.html", "--where", "source=sub/my_note.md", "--json"]
    code, out, _ = hopsmith(capsys, *words)
    assert (code, json.loads(out)["changed"]) == (0, 5)
    assert set(state(index)) == {"report.pdf"}
    for more, mend in (([], "--where"), (["--where", "a=1"], "column")):
        code, _, err = hopsmith(capsys, "delete", index, *more)
        assert (code, mend in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["docs", "--passage-words", 3], "10 to 10,000 words, not 3"),
        (["docs", "--passage-words", 40, "--overlap", 30], "half of a passage"),
        (["c.jsonl", "--passage-words", 40], "for documents alone"),
        (["docs/broken.pdf"], "broken.pdf is a broken PDF"),
    ],
)
def test_a_fault_is_one_line(
    words: list[object],
    mend: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": "1", "text": "x"}\n')
    code, out, err = hopsmith(capsys, "index", *words, "--out", tmp_path / "index")
    assert (code, out) == (2, "")
    assert mend in next(line for line in err.splitlines() if line.startswith("hopsmith: "))
    assert not (tmp_path / "index").exists()
