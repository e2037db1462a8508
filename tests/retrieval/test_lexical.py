"""The BM25 part of an index: without words, and half removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval import IndexFault, Passage, build_index, open_index
from retrieval.index import OpenIndex
from retrieval.manifest import Manifest


def test_texts_without_a_word_are_indexed_and_given_by_id(tmp_path: Path) -> None:
    build_index([Passage("b", "", "?!"), Passage("a", "", "…")], tmp_path / "index", engine="bm25")
    (found,) = open_index(tmp_path / "index").search(["anything"], 2)
    assert [(p.id, p.score) for p in found] == [("a", 0.0), ("b", 0.0)]


@pytest.mark.parametrize("engine", ["bm25", "two-stage"])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_half_removed_part_is_never_searched(tmp_path: Path, engine: str, left: int) -> None:
    passages = [Passage(f"p{i}", "", f"word{i}") for i in range(9)]
    build_index(passages, tmp_path / "index", engine=engine)
    manifest = Manifest.read(tmp_path / "index")
    part = tmp_path / "index" / str(manifest.lexical)
    for file in sorted(part.iterdir())[left:]:
        file.unlink()
    with pytest.raises(FileNotFoundError):
        _ = OpenIndex(tmp_path / "index", manifest).lexical
    with pytest.raises(IndexFault, match="lacks"):
        open_index(tmp_path / "index")
