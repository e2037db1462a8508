"""Passages of a document: their length, their borders, and that nothing is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import CorpusError
from retrieval.documents import Block, Cut
from retrieval.documents.cutting import TAIL, cut_blocks, words_in

SENTENCES = [f"Sentence number {i} tells of river {i}." for i in range(40)]
LONG = " ".join(SENTENCES)


def texts(blocks: list[Block], words: int, overlap: int = 0) -> list[str]:
    return [piece.text for piece in cut_blocks(blocks, Cut(words, overlap))]


def test_a_short_document_is_one_piece_as_it_is() -> None:
    blocks = [Block("First paragraph."), Block("- a\n- b")]
    assert texts(blocks, 100) == ["First paragraph.\n- a\n- b"]


def test_pieces_are_whole_sentences_and_no_longer_than_asked() -> None:
    pieces = texts([Block(LONG)], 35)
    assert " ".join(pieces) == LONG
    for piece in pieces[:-1]:
        assert words_in(piece) == 35
    assert all(piece.startswith("Sentence") and piece.endswith(".") for piece in pieces)


def test_the_overlap_repeats_whole_sentences() -> None:
    pieces = texts([Block(LONG)], 35, 15)
    for before, after in pairwise(pieces):
        shared = [s for s in SENTENCES if s in before and s in after]
        assert len(shared) == 2
        assert before.endswith(" ".join(shared))
        assert after.startswith(" ".join(shared))


def test_a_short_rest_goes_to_the_piece_before() -> None:
    pieces = texts([Block(" ".join(SENTENCES[:11]))], 35)
    assert [words_in(p) for p in pieces] == [35, 42]


def test_headings_part_and_pages_are_told() -> None:
    blocks = [
        Block("One.", ("A",), 1),
        Block("It goes", ("A",), 1),
        Block("on. Then ends.", ("A",), 3),
        Block("Two.", ("A", "B"), 3),
    ]
    found = list(cut_blocks(blocks, Cut(50)))
    assert [(p.text, p.headings, p.page, p.last_page) for p in found] == [
        ("One.\nIt goes on. Then ends.", ("A",), 1, 3),
        ("Two.", ("A", "B"), 3, 3),
    ]


def test_what_has_no_sentences_is_cut_between_words() -> None:
    assert [words_in(p) for p in texts([Block("word " * 95)], 30)] == [30, 30, 35]


def test_scripts_without_blanks_are_cut_by_letters_at_their_stops() -> None:
    pieces = texts([Block("你好世界。" * 20)], 20)
    assert pieces == ["你好世界。" * 5] * 4
    assert [words_in(p) for p in texts([Block("漢" * 50)], 20)] == [20, 20, 10]


def test_a_text_that_grows_keeps_its_earlier_pieces() -> None:
    before, after = texts([Block(LONG)], 35), texts([Block(LONG + " One more river. " * 30)], 35)
    assert after[: len(before) - 1] == before[:-1]


words = st.text(alphabet="aB漢. \n!", max_size=300)


@given(st.lists(words, max_size=5), st.integers(10, 40), st.integers(0, 5))
def test_no_word_is_lost_and_no_piece_too_long(parts: list[str], most: int, overlap: int) -> None:
    blocks = [Block(part) for part in parts if part.strip()]
    cut = Cut(most, overlap)
    pieces = [piece.text for piece in cut_blocks(blocks, cut)]
    kept, given_ = "".join("".join(pieces).split()), "".join("".join(parts).split())
    assert len(kept) >= len(given_)
    if not overlap:
        assert kept == given_
    for piece in pieces:
        assert words_in(piece) <= (1 + TAIL) * most
        assert piece.strip()


@pytest.mark.parametrize(("words", "overlap"), [(0, 0), (9, 0), (10_001, 0), (100, -1), (100, 51)])
def test_lengths_out_of_bounds_are_refused(words: int, overlap: int) -> None:
    with pytest.raises(CorpusError, match=r"words"):
        Cut(words, overlap)
