"""The loaders on real records, where the data folder is there."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import Benchmark, Question, load, load_retrieval_set, statistics
from benchmarks.places import plain

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HOPSMITH_TEST_DATA", ROOT.parent / "shared" / "data"))

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no data folder at {DATA}")


def every(benchmark: Benchmark) -> list[Question]:
    return [q for asked in benchmark.questions.values() for q in asked]


def test_hotpotqa() -> None:
    benchmark = load("hotpotqa", data=DATA / "hotpotqa")
    assert statistics(benchmark).splits == {"train": 200, "dev": 200}
    assert benchmark.faults == ()
    ids = {p.id for p in benchmark.corpus}
    assert len(ids) == len(benchmark.corpus)
    assert all(len(q.supporting) == 2 and set(q.supporting) <= ids for q in every(benchmark))


def test_2wiki_keeps_the_six_records_with_a_sentence_past_the_end() -> None:
    benchmark = load("2wikimultihopqa", data=DATA / "2wikimultihopqa")
    assert statistics(benchmark).splits == {"train": 500, "dev": 164}
    assert len(benchmark.faults) == 6
    assert all("past the end" in fault for fault in benchmark.faults)
    shapes = Counter((q.kind, tuple(h.depends_on for h in q.hops)) for q in every(benchmark))
    assert {shape for kind, shape in shapes if kind in ("bridge", "inference")} == {((), (1,))}
    assert {s for kind, s in shapes if kind == "bridge_comparison"} == {((), (), (1,), (2,))}
    assert not any(needs for kind, shape in shapes if kind == "comparison" for needs in shape)


def test_2wiki_passages_state_their_hops() -> None:
    benchmark = load("2wikimultihopqa", data=DATA / "2wikimultihopqa")
    texts = {p.id: plain(p.text) for p in benchmark.corpus}
    hops = [h for q in every(benchmark) for h in q.hops]
    for question in every(benchmark):
        assert {h.passage for h in question.hops} == set(question.supporting)
    stated = sum(plain(h.answer or "") in texts[h.passage or ""] for h in hops)
    assert stated / len(hops) > 0.99


def test_2wiki_evidences_are_triples_of_the_passages_that_state_them() -> None:
    benchmark = load("2wikimultihopqa", data=DATA / "2wikimultihopqa" / "dev.jsonl")
    passages = {p.id: p for p in benchmark.corpus}
    assert len(benchmark.triples) == len(set(benchmark.triples)) > 400
    stated = [plain(t.object) in plain(passages[t.passage].text) for t in benchmark.triples]
    assert sum(stated) / len(stated) > 0.8


def test_musique() -> None:
    benchmark = load("musique", data=DATA / "musique")
    found = statistics(benchmark)
    assert found.splits == {"train": 120, "dev": 200}
    assert found.kinds["null"] == 9
    for question in every(benchmark):
        assert question.ordered
        assert len(question.hops) == int(question.meta["shape"][0])
        assert "#" not in "".join(h.question or "" for h in question.hops if h.depends_on)
        assert not any(">>" in (h.question or "") for h in question.hops)
        if question.answerable:
            assert all(h.passage is not None for h in question.hops)


def test_musique_relations_are_triples_of_the_passages_that_state_them() -> None:
    benchmark = load("musique", data=DATA / "musique" / "dev.jsonl")
    passages = {p.id: p for p in benchmark.corpus}
    assert len(benchmark.triples) == len(set(benchmark.triples)) > 100
    for told in benchmark.triples:
        assert plain(told.object) in plain(passages[told.passage].text)
        assert not {"#", ">"} & {*told.subject}


@pytest.mark.parametrize(
    ("name", "file", "kinds"),
    [
        ("morehopqa", "morehopqa/sample.jsonl", {"bridge"}),
        ("frames", "frames/sample.jsonl", {"bridge", "temporal"}),
        (
            "multihop-rag",
            "multihop_rag/sample.jsonl",
            {"comparison", "inference", "temporal", "null"},
        ),
    ],
)
def test_samples(name: str, file: str, kinds: set[str]) -> None:
    benchmark = load(name, data=DATA / file)
    asked = benchmark.split("dev")
    assert len(asked) == 20
    assert benchmark.faults == ()
    assert {q.kind for q in asked} == kinds
    assert all(len(q.supporting) >= 2 for q in asked if q.answerable)


def test_the_retrieval_corpus() -> None:
    benchmark = load_retrieval_set(DATA / "2wiki_corpus")
    assert len(benchmark.corpus) == 6119
    assert len(benchmark.split("dev")) == 300
    assert benchmark.faults == ()
    titles = {p.id: p.title for p in benchmark.corpus}
    for question in benchmark.split("dev"):
        assert {titles[i] for i in question.supporting} == set(question.meta["supporting_titles"])
