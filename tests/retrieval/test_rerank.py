"""Reranked retrievers keep the contract, and cross-encoders score what they are given."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import Benchmark
from retrieval import BaseRetriever, IndexFault, Passage, QueryError, Retriever, open_index
from retrieval.cross_encoder import CrossEncoder, cross_encoder, cross_encoder_of
from retrieval.rerank import Reranked, whole

QUERIES = ["Who founded the company?", "a museum in a city", "river", "The Last", "zzz qqq"]
DEPTH = 8


@pytest.fixture(scope="module")
def model(
    world: Benchmark,
    make_cross_encoder: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    words = " ".join(f"{p.title} {p.text}" for p in world.corpus).lower().split()
    return make_cross_encoder(tmp_path_factory.mktemp("ce") / "tiny", words)


class Longest:
    """A reranker that needs no model: long texts first."""

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"kind": "longest"}

    def order(
        self, queries: Sequence[str], found: Sequence[Sequence[Passage]]
    ) -> list[Sequence[int]]:
        return [sorted(range(len(f)), key=lambda i: (-len(f[i].text), f[i].id)) for f in found]


@pytest.fixture(scope="module", params=["longest", "cross-encoder"])
def retriever(request: pytest.FixtureRequest, small_index: Path, model: Path) -> BaseRetriever:
    base = open_index(small_index, engine="bm25")
    return Reranked(
        base, Longest() if request.param == "longest" else cross_encoder(str(model)), DEPTH
    )


def ids(results: list[list[Passage]]) -> list[list[str]]:
    return [[p.id for p in found] for found in results]


def test_the_first_candidates_change_their_order_alone(retriever: Reranked) -> None:
    plain = ids(retriever.base.search(QUERIES, 20))
    found = retriever.search(QUERIES, 20)
    for before, after in zip(plain, ids(found), strict=True):
        assert sorted(before[:DEPTH]) == sorted(after[:DEPTH])
        assert before[DEPTH:] == after[DEPTH:]
    assert ids(found) != plain
    for one in found:
        assert [p.rank for p in one] == list(range(1, 21))


def test_scores_stay_those_of_the_retriever(retriever: Reranked) -> None:
    plain = [{p.id: p.score for p in one} for one in retriever.base.search(QUERIES, 20)]
    for scores, found in zip(plain, retriever.search(QUERIES, 20), strict=True):
        assert {p.id: p.score for p in found} == scores


def test_it_keeps_the_contract(retriever: Reranked, world: Benchmark) -> None:
    assert isinstance(retriever, Retriever)
    expected = ids(retriever.search(QUERIES, 12))
    assert [ids(retriever.search([q], 12))[0] for q in reversed(QUERIES)] == expected[::-1]
    assert ids(retriever.search(QUERIES, 3)) == [found[:3] for found in expected]
    assert [len(f) for f in retriever.search(QUERIES, 900, pool=1)] == [len(world.corpus)] * 5
    assert copy.deepcopy({"r": [retriever]})["r"][0] is retriever
    again = pickle.loads(pickle.dumps(retriever))
    assert ids(again.search(QUERIES, 12)) == expected
    assert again.identity == retriever.identity
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda q: retriever.search([q], 12)[0], QUERIES * 3))
    assert ids(found) == expected * 3
    with pytest.raises(QueryError):
        retriever.search(["?"], 5)
    with pytest.raises(QueryError):
        retriever.search(["river"], 0)


def test_identity_names_the_reranker_and_no_path(retriever: Reranked) -> None:
    identity = retriever.identity
    assert identity["engine"] == "bm25"
    assert identity["rerank"]["candidates"] == DEPTH
    assert "/" not in str(identity)
    assert retriever.corpus_hash == retriever.base.corpus_hash


def test_filters_come_before(retriever: Reranked, world: Benchmark) -> None:
    title = world.corpus[3].title
    found = retriever.where(f"title={title}").search(["river"], 5)[0]
    assert {p.title for p in found} == {title}


@pytest.mark.parametrize("candidates", [0, 1, 201])
def test_candidates_out_of_bounds_are_refused(small_index: Path, candidates: int) -> None:
    with pytest.raises(QueryError, match="2 to 200"):
        Reranked(open_index(small_index, engine="bm25"), Longest(), candidates)


def test_an_order_is_made_whole() -> None:
    assert whole([2, 2, 9, -1, 0], 4) == [2, 0, 1, 3]
    assert whole([], 2) == [0, 1]


@pytest.mark.parametrize("labels", [1, 2])
def test_scores_are_the_model_s_own(
    labels: int, tmp_path: Path, make_cross_encoder: Callable[..., Path]
) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    texts = ["a river flows", "the museum", "who founded the old museum by a river"]
    folder = make_cross_encoder(tmp_path / "m", " ".join(texts).split(), labels)
    found = cross_encoder(str(folder)).scores("who founded", texts)
    plain = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text, score in zip(texts, found, strict=True):
        with torch.no_grad():
            logits = plain(**tokenizer("who founded", text, return_tensors="pt")).logits[0]
        expected = logits[0] if labels == 1 else logits[1] - logits[0]
        assert score == pytest.approx(float(expected), abs=1e-4)


def test_a_long_passage_is_scored_by_its_best_window(model: Path, world: Benchmark) -> None:
    coder = cross_encoder(str(model))
    words = " ".join(p.text for p in world.corpus).split()
    long = " ".join(words[:600])
    whole_score, *parts = coder.scores(
        "river", [long, *(" ".join(words[i : i + 20]) for i in range(0, 40, 20))]
    )
    assert np.isfinite(whole_score)
    assert whole_score >= coder.scores("river", [" ".join(words[:20])]).min() - 10
    assert len(parts) == 2
    assert np.isfinite(coder.scores("museum river " * 1000, [long, "short"])).all()


def test_equal_scores_are_ordered_by_id(model: Path) -> None:
    same = [Passage(i, "", "the same river") for i in ("c", "a", "b")]
    assert cross_encoder(str(model)).order(["river"], [same]) == [[1, 2, 0]]


@pytest.mark.usefixtures("own_cache")
def test_one_that_was_seen_is_found_by_its_weights(
    model: Path, tmp_path: Path, make_cross_encoder: Callable[..., Path]
) -> None:
    identity = cross_encoder(str(model)).identity
    again = cross_encoder_of(identity)
    assert (again.folder, again.identity) == (model.resolve(), identity)
    other = make_cross_encoder(tmp_path / "other", ["a", "b"])
    with pytest.raises(IndexFault, match="other weights"):
        cross_encoder_of(identity, str(other))


def test_what_is_no_cross_encoder_is_one_line(
    tmp_path: Path, make_cross_encoder: Callable[..., Path]
) -> None:
    with pytest.raises(IndexFault, match=r"holds no model\.safetensors"):
        cross_encoder(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(IndexFault, match="no cross-encoder"):
        cross_encoder(str(tmp_path)).scores("a", ["b"])
    wide = make_cross_encoder(tmp_path / "wide", ["a"], labels=3)
    with pytest.raises(IndexFault, match="3 classes"):
        CrossEncoder("wide", wide).scores("a", ["b"])
