"""Corpora as users have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import CorpusError, Passage, read_corpus
from retrieval.corpus import CorpusHash, unique


def test_a_folder_of_texts_has_relative_ids(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b_note.md").write_text("Second.")
    (tmp_path / "a.txt").write_text("First.")
    (tmp_path / "c.bin").write_bytes(b"\x00")
    (tmp_path / "empty.txt").write_text(" \n")
    skipped: list[str] = []
    found = list(read_corpus(tmp_path, skipped.append))
    assert [(p.id, p.title, p.text) for p in found] == [
        ("a.txt", "a", "First."),
        ("sub/b_note.md", "b note", "Second."),
    ]
    assert len(skipped) == 1
    assert "empty.txt" in skipped[0]


def test_other_columns_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": 7, "title": "T", "text": "x", "page": 3}\n\n')
    (passage,) = read_corpus(path)
    assert passage.id == "7"
    assert passage.metadata == {"page": 3}


def test_a_passage_without_words_is_named_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "1", "text": ""}\n{"id": "2", "text": "x"}\n')
    skipped: list[str] = []
    assert [p.id for p in read_corpus(path, skipped.append)] == ["2"]
    assert "c.jsonl:1" in skipped[0]


def test_a_repeated_id_names_both_places() -> None:
    with pytest.raises(CorpusError, match="passage 3 has the id 'a' that passage 1"):
        list(unique([Passage("a", "", "x"), Passage("b", "", "x"), Passage("a", "", "y")]))


@given(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=8), st.randoms())
def test_the_corpus_hash_knows_no_order(ids: list[str], rng: object) -> None:
    passages = [Passage(i, "t", i * 2) for i in ids]
    shuffled = list(passages)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = CorpusHash(), CorpusHash()
    for passage in passages:
        one.add(passage)
    for passage in shuffled:
        two.add(passage)
    assert one.hex == two.hex
    if passages:
        two.remove(passages[0])
        assert one.hex != two.hex
        two.add(passages[0])
        assert one.hex == two.hex


def test_a_table_s_other_columns_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_bytes(
        b"\xef\xbb\xbfid,title,text,year,note\r\n"
        b'1,Norvale,"Founded by Ada, in\r\nTamsin.",2020,\r\n'
        b"2,,,2021,no words\r\n"
        b"3,,b,2022,\r\n"
    )
    skipped: list[str] = []
    found = list(read_corpus(path, skipped.append))
    assert [(p.id, p.title, p.text, dict(p.metadata)) for p in found] == [
        ("1", "Norvale", "Founded by Ada, in\r\nTamsin.", {"year": "2020"}),
        ("3", "", "b", {"year": "2022"}),
    ]
    assert len(skipped) == 1
    tabs = tmp_path / "c.tsv"
    tabs.write_text("id\ttext\n1\ta, b\n")
    assert [p.text for p in read_corpus(tabs)] == ["a, b"]


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(f"id,text\n1,{'word ' * 60_000}\n")
    (passage,) = read_corpus(path)
    assert len(passage.text) == 300_000
