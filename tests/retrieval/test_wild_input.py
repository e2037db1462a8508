"""Corpora and queries at the edge of what is sensible give the right result or one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval import CorpusError, Passage, QueryError, build_index, open_index
from retrieval.engines import ENGINES

MANY = 50_000
SAME = "Annual Report"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50,000 passages of one title, and but for one of them of one text."""
    folder = tmp_path_factory.mktemp("many") / "index"
    texts = (f"{'Quorvan tulips' if i == 31_234 else 'Lamps'} were sold." for i in range(MANY))
    corpus = [Passage(f"p{i:05}", SAME, text, metadata={"page": i}) for i, text in enumerate(texts)]
    build_index(corpus, folder, engine="bm25")
    return folder


def test_fifty_thousand_passages_of_one_title_are_ordered_by_id(many: Path) -> None:
    retriever = open_index(many)
    (found,) = retriever.search([SAME], 20)
    assert [p.id for p in found[:3]] == ["p00000", "p00001", "p00002"]
    assert len({p.id for p in found}) == 20
    assert retriever.search(["Quorvan"], 1)[0][0].id == "p31234"


def test_a_filter_of_a_few_among_very_many_fills_k(many: Path) -> None:
    narrow = open_index(many).where("page>=49990")
    (found,) = narrow.search([SAME], 5)
    assert [p.id for p in found] == [f"p{i}" for i in range(49_990, 49_995)]


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "plaid"])
def test_a_query_of_two_thousand_words_and_none_at_all(small_index: Path, engine: str) -> None:
    retriever = open_index(small_index, engine=engine)
    (found,) = retriever.search(["river museum " * 1000], 3)
    assert len(found) == 3
    for query, k, mend in (("", 3, "at least one word"), ("river", 0, "from 1 to 1000")):
        with pytest.raises(QueryError, match=mend):
            retriever.search([query], k)


def test_a_passage_without_a_word_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="passage 2 \\('b'\\) has no words"):
        build_index([Passage("a", "", "x"), Passage("b", " ", "\n")], tmp_path / "i", engine="bm25")
