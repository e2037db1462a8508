"""What is wrong with a corpus is said with its place, and nothing else is raised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import CorpusError, Passage, build_index, read_corpus

GOOD = b'{"id": "1", "text": "a river"}\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id": "2", "text": "caf\xe9"}', "no UTF-8"),
        (b'{"id": "2", "text": ', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'["2", "x"]', "no JSON object"),
        (b'{"text": "x"}', "lacks.*id"),
        (b'{"id": "2", "title": "x"}', "lacks.*text"),
        (b'{"id": "", "text": "x"}', "id must be"),
        (b'{"id": true, "text": "x"}', "id must be"),
        (b'{"id": 2.5, "text": "x"}', "id must be"),
        (b'{"id": "2", "text": ["x"]}', "text must be a string"),
        (b'{"id": "2", "text": "x", "title": 7}', "title must be a string"),
        (b'{"id": "2", "text": "\\ud800"}', "surrogate"),
        (b'{"id": "2", "text": "x", "by": ["\\ud800"]}', "'by' holds half a surrogate"),
        (b'{"id": "2", "text": "x", "\\ud800": 1}', "holds half a surrogate"),
        (b'{"id": "2", "text": "x", "share": NaN}', "'share' holds NaN or an infinite"),
        (b'{"id": "2", "text": "x", "at": {"share": 1e999}}', "'at' holds NaN or an infinite"),
    ],
)
def test_a_fault_names_file_and_line(tmp_path: Path, line: bytes, said: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(GOOD + b"\n" + line + b"\n")
    with pytest.raises(CorpusError, match=rf"corpus\.jsonl:3\b.*{said}"):
        list(read_corpus(path))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (b"id,title\n1,x\n", r":2 lacks \['text'\]"),
        (b"id,text\n1,a,b\n", ":2 has not as many cells"),
        (b"id,text\n1\n", ":2 has not as many cells"),
        (b'id,text\n1,"a\n', "is no CSV"),
        (b"id,text\n1,caf\xe9\n", "is no UTF-8"),
        (b"id,text\n,x\n", ":2: id must be"),
    ],
)
def test_a_fault_of_a_table_names_file_and_line(tmp_path: Path, table: bytes, said: str) -> None:
    path = tmp_path / "corpus.csv"
    path.write_bytes(table)
    with pytest.raises(CorpusError, match=rf"corpus\.csv.*{said}" if said[0] != ":" else said):
        list(read_corpus(path))


@pytest.mark.parametrize(
    ("passage", "said"),
    [
        (Passage("p\ud800", "", "a river"), "id holds"),
        (Passage("p", "\udfff", "a river"), "title holds"),
        (Passage("p", "", "a river \ud83d"), "text holds"),
    ],
)
def test_half_a_surrogate_pair_names_the_passage_and_the_mend(
    passage: Passage, said: str, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match=rf"passage 2 \('p.*{said} half .*write it whole"):
        build_index([Passage("1", "", "a river"), passage], tmp_path / "index", engine="bm25")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(("value", "said"), [("\ud800", "half a"), ([float("inf")], "NaN or")])
def test_metadata_that_cant_be_written_names_the_passage(
    value: object, said: str, tmp_path: Path
) -> None:
    passage = Passage("p", "", "a river", metadata={"by": value})
    with pytest.raises(CorpusError, match=rf"passage 2 \('p'\): 'by' holds {said}"):
        build_index([Passage("1", "", "a river"), passage], tmp_path / "index", engine="bm25")
    assert not (tmp_path / "index").exists()


def test_a_file_of_a_folder_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("Über den Fluß".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"latin\.txt is no UTF-8"):
        list(read_corpus(tmp_path))
    (tmp_path / "good.txt").write_text("A river.")
    said: list[str] = []
    assert [p.id for p in read_corpus(tmp_path, said.append)] == ["good.txt"]
    assert len(said) == 1
    assert "latin.txt is no UTF-8" in said[0]


def test_no_corpus_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no corpus at"):
        list(read_corpus(tmp_path / "missing.jsonl"))


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n"))
    assert [(p.id, p.text) for p in read_corpus(path)] == [("1", "a river")]


def test_a_repeated_id_leaves_no_index(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(GOOD + b'{"id": 2, "text": "x"}\n' + GOOD)
    with pytest.raises(CorpusError, match="'1'"):
        build_index(read_corpus(path), tmp_path / "index", engine="bm25")
    assert [p.name for p in tmp_path.iterdir()] == ["corpus.jsonl"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"id": "1", "text": " \\n"}\n'])
def test_an_empty_corpus_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match="empty"):
        build_index(read_corpus(path), tmp_path / "index", engine="bm25")
    assert [p.name for p in tmp_path.iterdir()] == ["corpus.jsonl"]


@given(st.binary(max_size=200))
def test_any_bytes_give_passages_or_one_line_of_fault(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "wild.jsonl"
    path.write_bytes(content)
    said = ""
    try:
        assert all(isinstance(p, Passage) for p in read_corpus(path))
    except CorpusError as fault:
        said = str(fault)
    assert "\n" not in said


@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.text(min_size=1), "text": st.text().filter(str.strip), "page": st.integers()}
        )
    )
)
def test_what_is_written_as_json_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [{"id": p.id, "text": p.text, **p.metadata} for p in read_corpus(path)]
    assert found == rows
