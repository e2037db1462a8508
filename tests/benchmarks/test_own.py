"""Own questions, corpora on disk, subsets and statistics."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import (
    Benchmark,
    BenchmarkError,
    GoldHop,
    MappedCorpus,
    Question,
    load,
    open_corpus,
    question_from_json,
    question_to_json,
    questions_hash,
    statistics,
    subset,
    synthetic,
)
from retrieval import CorpusError, Passage, read_corpus

WORDS = st.text(min_size=1, max_size=12).filter(str.strip)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    answerable = draw(st.booleans())
    hops: list[GoldHop] = []
    for n in range(draw(st.integers(0, 4))):
        sub = draw(st.none() | WORDS.filter(lambda w: "{" not in w))
        if sub is not None and n and draw(st.booleans()):
            sub += f" {{answer_{draw(st.integers(1, n))}}}"
        sentences = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
        hops.append(GoldHop(draw(st.none() | WORDS), sub, draw(st.none() | WORDS), sentences))
    told = [h.passage for h in hops if h.passage is not None]
    return Question.of(
        id=draw(WORDS),
        question=draw(WORDS).strip(),
        answer=draw(WORDS) if answerable else None,
        answers=draw(st.lists(WORDS, max_size=3)) if answerable else (),
        supporting=told,
        hops=hops,
        kind=draw(st.sampled_from(["bridge", "comparison", "null"])),
        answerable=answerable,
        meta=draw(st.dictionaries(WORDS, st.integers() | WORDS, max_size=2)),
    )


@given(questions())
def test_a_question_survives_json(question: Question) -> None:
    again = question_from_json(json.loads(json.dumps(question_to_json(question))))
    assert dict(again) == dict(question)
    assert again.inputs().keys() == ["question"]


def test_a_bad_question_names_its_place() -> None:
    with pytest.raises(BenchmarkError, match=r"review 3: question: Field required"):
        question_from_json({"answer": "x"}, "review 3")


def lines(path: Path, *rows: Any) -> Path:
    text = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows)
    path.write_text(text, encoding="utf-8")
    return path


def test_own_questions_keep_the_ids_of_their_corpus(tmp_path: Path) -> None:
    corpus = lines(
        tmp_path / "corpus.jsonl",
        {"id": "a", "title": "A", "text": "One."},
        {"id": 2, "text": "Two."},
    )
    data = lines(
        tmp_path / "q.jsonl",
        {"question": "Which?", "answer": "One", "supporting": ["a", 2]},
        {"id": "n", "question": "Why?", "answerable": False},
        {"question": "Left out?", "answer": "x", "status": "rejected"},
        {
            "question": "What next?",
            "answers": ["Two", "2"],
            "hops": [
                {"passage": "a", "question": "First?", "answer": "One"},
                {"passage": "2", "question": "After {answer_1}?", "answer": "Two"},
            ],
        },
    )
    benchmark = load("own", data=data, corpus=corpus)
    first, unanswerable, chain = benchmark.split("dev")
    assert (first.id, first.supporting, first.kind) == ("dev-1", ("a", "2"), "bridge")
    assert (unanswerable.id, unanswerable.kind, unanswerable.answers) == ("n", "null", ())
    assert (chain.id, chain.answers, chain.supporting) == ("dev-4", ("Two", "2"), ("a", "2"))
    assert chain.ordered
    assert [p.id for p in benchmark.corpus] == ["a", "2"]
    assert benchmark.faults == ()


def test_gold_that_the_corpus_lacks_is_named(tmp_path: Path) -> None:
    corpus = lines(tmp_path / "corpus.jsonl", {"id": "a", "text": "One."})
    data = lines(tmp_path / "q.jsonl", {"question": "W?", "answer": "x", "supporting": ["z"]})
    (fault,) = load("own", data=data, corpus=corpus).faults
    assert "dev dev-1: supporting passage 'z' is not in the corpus" in fault


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"question": ', r"q\.jsonl:2 is no JSON"),
        ("[1]", r"q\.jsonl:2 is no JSON object"),
        ({"answer": "x"}, r"q\.jsonl:2: question: Field required"),
        ({"question": "  ", "answer": "x"}, r"q\.jsonl:2: the question is empty"),
        ({"question": "Q?"}, r"q\.jsonl:2: an answerable question needs an answer"),
        ({"question": "Q?", "answer": " "}, r"q\.jsonl:2: an answerable question needs an answer"),
        ({"question": "Q?", "answer": "x", "supporting": "a"}, r"q\.jsonl:2: supporting: "),
        ({"question": "Q?", "answer": "x", "hops": [{"page": "a"}]}, r"q\.jsonl:2: hops\.0\.page"),
        (
            {"question": "Q?", "answer": "x", "hops": [{"question": "{answer_1}?"}]},
            r"q\.jsonl:2: hop 1 refers to an answer that no earlier hop gives",
        ),
        ({"id": "one", "question": "Q?", "answer": "x"}, r"q\.jsonl:2: id 'one' stands at .*:1"),
    ],
)
def test_a_bad_line_names_file_and_line(tmp_path: Path, bad: Any, message: str) -> None:
    data = lines(tmp_path / "q.jsonl", {"id": "one", "question": "Q?", "answer": "x"}, bad)
    with pytest.raises(BenchmarkError, match=message) as fault:
        load("own", data=data)
    assert "\n" not in str(fault.value)


def test_a_line_that_is_no_utf8_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(b'{"question": "Q?", "answer": "x"}\n{"question": "\xff?"}\n')
    with pytest.raises(BenchmarkError, match=r"q\.jsonl:2 is no UTF-8"):
        load("own", data=path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "own"}, "need a file"),
        ({"name": "nothing"}, "no benchmark 'nothing'; there are synthetic, hotpotqa"),
        ({"name": "hotpotqa:3"}, "no benchmark"),
        ({"name": "synthetic:x"}, "is not synthetic"),
        ({"name": "synthetic:1,2,3"}, "is not synthetic"),
        ({"name": "synthetic:2,50"}, "at least 3 questions"),
        ({"name": "synthetic", "split": "final"}, "no split 'final'"),
        ({"name": "synthetic", "data": Path("gone.jsonl")}, "makes its own"),
        ({"name": "own", "data": Path("gone.jsonl")}, "no file of questions at gone.jsonl"),
        ({"name": "own", "data": Path(__file__).parent}, "holds no train, dev or test"),
    ],
)
def test_what_cannot_be_loaded_says_why(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchmarkError, match=message):
        load(**arguments)


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    data = lines(tmp_path / "q.jsonl", {"question": "Q?", "answer": "x"})
    with pytest.raises(BenchmarkError, match="no corpus at"):
        load("own", data=data, corpus=tmp_path / "gone")


def test_synthetic_by_name_has_the_sizes_asked_for() -> None:
    benchmark = load("synthetic:30,80", seed=3)
    assert statistics(benchmark).queries == 30
    assert len(benchmark.corpus) == 80
    assert list(benchmark.corpus) == list(synthetic(30, 80, 3).corpus)


def test_a_mapped_corpus_is_the_file_read_at_once(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "corpus.jsonl",
        {"id": "a", "title": "Ä", "text": "Øne."},
        "",
        {"id": "b", "title": "B", "text": " \n"},
        {"id": 3, "text": "Three.", "meta": {"text": ""}},
    )
    mapped = open_corpus(path)
    assert isinstance(mapped, MappedCorpus)
    assert list(mapped) == list(read_corpus(path)) == list(mapped)
    assert [mapped[0].id, mapped[-1].id, len(mapped)] == ["a", "3", 2]
    assert mapped[0:2] == list(mapped)
    assert mapped[1].metadata == {"meta": {"text": ""}}
    with pytest.raises(IndexError):
        mapped[2]


def test_documents_and_tables_are_corpora(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nOne river.\n")
    (tmp_path / "c.csv").write_text("id,text,year\n1,Two rivers.,2020\n")
    assert [p.id for p in open_corpus(tmp_path / "docs")] == ["a.md"]
    assert [p.title for p in open_corpus(tmp_path / "docs" / "a.md")] == ["A"]
    assert [p.metadata for p in open_corpus(tmp_path / "c.csv")] == [{"year": "2020"}]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(WORDS, st.text(max_size=20)), max_size=20))
def test_mapped_and_read_agree_on_wild_text(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("wild") / "corpus.jsonl"
    lines(path, *({"id": str(n), "title": a, "text": b} for n, (a, b) in enumerate(rows)))
    mapped = MappedCorpus(path)
    assert list(mapped) == list(read_corpus(path))
    assert [mapped[n] for n in range(len(mapped))] == list(mapped)


@pytest.mark.parametrize("bad", ["{", "[1]", '{"id": "x"}', '{"id": true, "text": "y"}'])
def test_a_bad_passage_names_file_and_line(tmp_path: Path, bad: str) -> None:
    path = lines(tmp_path / "corpus.jsonl", {"id": "a", "text": "One."}, bad)
    with pytest.raises(CorpusError, match=r"corpus\.jsonl:2"):
        list(open_corpus(path))


def of_kinds(counts: dict[str, int]) -> list[Question]:
    return [
        Question.of(id=f"{kind}{n}", question=f"{kind} {n}?", answer="x", kind=kind)
        for kind, many in counts.items()
        for n in range(many)
    ]


def test_a_subset_keeps_the_proportions_of_its_strata() -> None:
    every = of_kinds({"bridge": 60, "comparison": 30, "single": 10})
    for seed in range(5):
        chosen = subset(every, 20, seed)
        assert Counter(q.kind for q in chosen) == {"bridge": 12, "comparison": 6, "single": 2}
        assert [q.id for q in chosen] == [q.id for q in every if q in chosen]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 99))
def test_a_larger_subset_holds_the_smaller_one(one: int, other: int, seed: int) -> None:
    every = of_kinds({"bridge": 17, "comparison": 9, "single": 4})
    small, large = sorted((one, other))
    assert len(subset(every, small, seed)) == min(small, 30)
    assert {q.id for q in subset(every, small, seed)} <= {q.id for q in subset(every, large, seed)}


def test_a_subset_depends_on_seed_alone() -> None:
    every = of_kinds({"bridge": 40, "comparison": 20})
    assert [q.id for q in subset(every, 9, 1)] == [q.id for q in subset(every, 9, 1)]
    assert {q.id for q in subset(every, 9, 1)} == {q.id for q in subset(every[::-1], 9, 1)}
    assert {q.id for q in subset(every, 9, 1)} != {q.id for q in subset(every, 9, 2)}
    assert subset(every, None) == every


def test_the_hash_names_a_set_of_questions() -> None:
    every = of_kinds({"bridge": 5, "single": 5})
    assert questions_hash(every) == questions_hash(every[::-1])
    assert questions_hash(every) != questions_hash(every[1:])
    changed = [*every[1:], every[0].copy(answer="y", answers=("y",)).with_inputs("question")]
    assert questions_hash(every) != questions_hash(changed)


def test_statistics_count_queries_documents_and_words() -> None:
    asked = of_kinds({"bridge": 2, "single": 1})
    corpus = [Passage("a", "A", "one two three"), Passage("b", "B", "four")]
    found = statistics(Benchmark("own", {"train": asked[:1], "dev": asked[1:]}, corpus))
    assert (found.queries, found.docs, found.average_words) == (3, 2, 2.0)
    assert (found.splits, found.kinds) == ({"train": 1, "dev": 2}, {"bridge": 2, "single": 1})
    assert json.loads(json.dumps(found.to_json()))["hops"] == {"0": 3}
    assert statistics(Benchmark("empty", {}, [])).average_words == 0
