"""Encoding, windows, MaxSim and the codecs, beside their references."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import Benchmark
from retrieval import IndexFault, Passage, build_index, open_index
from retrieval.codec import SUMMED, Float16, ProductQuantised, open_codec
from retrieval.encoder import Encoder, encoder
from retrieval.engines import ENGINES
from retrieval.segment import content

FACT = "The Quorvan tulip is grown in glasshouses by Aldis Merk."
QUERY = "Who grows the Quorvan tulip?"


@pytest.fixture(scope="module")
def coder() -> Encoder:
    return encoder()


@pytest.fixture(scope="module")
def long_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short passages, and one of 10,000 words of which one sentence answers ``QUERY``."""
    rng = random.Random(0)
    words = ["rain", "wind", "field", "stone", "bread", "door", "lamp", "winter", "cart", "road"]
    filler = [rng.choice(words) for _ in range(10_000)]
    filler[6_000:6_000] = FACT.split()
    short = [Passage(f"s{i}", f"Note {i}", f"A note on {w}.") for i, w in enumerate(words)]
    folder = tmp_path_factory.mktemp("long") / "index"
    build_index([*short, Passage("long", "Almanac", " ".join(filler))], folder)
    return folder


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "plaid"])
def test_a_passage_of_ten_thousand_words_is_one_passage(long_index: Path, engine: str) -> None:
    retriever = open_index(long_index, engine=engine)
    found = retriever.search([QUERY], 50)[0]
    assert sorted(p.id for p in found) == sorted({p.id for p in found})
    assert len(found) == len(retriever) == 11
    assert len(next(p for p in found if p.id == "long").text.split()) > 10_000
    if engine != "dense":
        assert found[0].id == "long"


def test_windows_cover_a_text_overlap_and_fit(coder: Encoder) -> None:
    words = [f"word{i}" for i in range(900)]
    (windows,) = coder.windows([" ".join(words)])
    assert len(windows) > 2
    assert {w for window in windows for w in window.split()} >= set(words)
    for left, right in pairwise(windows):
        assert set(left.split()) & set(right.split())
    lengths = [len(v) for v in coder.passages(windows)]
    assert max(lengths) <= coder.spec.doc_maxlen
    assert coder.windows(["short", ""]) == [["short"], [""]]


def test_a_query_of_two_thousand_words_is_its_beginning(coder: Encoder) -> None:
    long = " ".join(f"river{i} museum" for i in range(1_000))
    (vectors,) = coder.queries([long])
    assert len(vectors) <= 512
    assert np.isfinite(vectors).all()
    (again,) = coder.queries([long + " and more"])
    np.testing.assert_allclose(vectors, again, atol=1e-5)


def test_vectors_have_unit_length_whatever_the_text(coder: Encoder) -> None:
    texts = ["a river", "!!!", "", "漢字かな", "e\u0301\u200b\x00", "🦀🦀", "x" * 5_000]
    for vectors in coder.passages(texts):
        assert vectors.dtype == np.float16
        assert len(vectors) >= 1
        np.testing.assert_allclose(np.linalg.norm(vectors.astype("f"), axis=1), 1, atol=2e-3)


def test_a_text_s_vectors_do_not_depend_on_its_batch(coder: Encoder, world: Benchmark) -> None:
    texts = [p.text for p in world.corpus[:5]]
    together = coder.passages([*texts, "long " * 150])
    for text, vectors in zip(texts, together, strict=False):
        np.testing.assert_allclose(coder.passages([text])[0], vectors, atol=5e-3)
    coder.forget_queries()
    batch = coder.queries(["a river", "Which museum in the city is the oldest of all?"])
    coder.forget_queries()
    np.testing.assert_allclose(coder.queries(["a river"])[0], batch[0], atol=1e-5)


@pytest.mark.parametrize("count", [1, 7])
def test_maxsim_is_colbert_ai_s_own(small_index: Path, count: int) -> None:
    torch = pytest.importorskip("torch")
    from retrieval.encoder import kept_start_method

    with kept_start_method():
        from colbert.infra import ColBERTConfig
        from colbert.modeling.colbert import colbert_score
    index = open_index(small_index, engine="exact").index
    queries = index.encoder.queries([f"{QUERY} {'more ' * i}" for i in range(count)])
    rows: list[Any] = [index.segments[0].vectors([w])[0] for w in range(len(index.windows))]
    longest = max(len(r) for r in rows)
    padded = np.zeros((len(rows), longest, rows[0].shape[1]), np.float32)
    mask = np.zeros((len(rows), longest, 1), bool)
    for i, row in enumerate(rows):
        padded[i, : len(row)], mask[i, : len(row)] = row, True
    ours = index.maxsim_all(queries)
    some = np.array([0, 3, 17])
    for query, scores in zip(queries, ours, strict=True):
        theirs = colbert_score(
            torch.from_numpy(query)[None],
            torch.from_numpy(padded),
            torch.from_numpy(mask),
            config=ColBERTConfig(),
        ).numpy()
        np.testing.assert_allclose(scores * len(query), theirs, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(index.maxsim(query, some), scores[some], atol=1e-5)


def unit(rows: int, seed: int, dim: int = 384) -> Any:
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_float16_keeps_vectors_to_its_precision(tmp_path: Path) -> None:
    codec = open_codec("float16", tmp_path, 384)
    vectors = unit(20, 0)
    assert isinstance(codec, Float16)
    decoded = codec.decode(codec.encode(vectors))
    assert decoded.dtype == np.float32
    np.testing.assert_allclose(decoded, vectors, atol=2e-4)


def test_quantised_vectors_are_64_bytes_a_token_and_near_what_they_were(
    coder: Encoder, world: Benchmark, tmp_path: Path
) -> None:
    tokens = np.concatenate(coder.passages([p.text for p in world.corpus])).astype(np.float32)
    codec = ProductQuantised.train(tokens)
    codes = codec.encode(tokens)
    assert (codes.dtype, codes.shape) == (np.uint8, (len(tokens), 64))
    decoded = codec.decode(codes)
    similarity = (decoded * tokens).sum(1) / np.linalg.norm(decoded, axis=1)
    assert similarity.mean() > 0.9
    codec.save(tmp_path)
    reopened = open_codec("pq", tmp_path, 384)
    np.testing.assert_array_equal(reopened.encode(tokens), codes)
    np.testing.assert_array_equal(reopened.decode(codes), decoded)


def test_a_quantiser_of_few_vectors_is_the_same_each_time() -> None:
    vectors = unit(40, 1)
    one, two = (ProductQuantised.train(vectors) for _ in range(2))
    np.testing.assert_array_equal(one.centroids, two.centroids)
    np.testing.assert_allclose(one.decode(one.encode(vectors)), vectors, atol=0.05)


@pytest.mark.parametrize(
    ("dim", "codes"), [(1, 1), (24, 24), (96, 48), (100, 50), (127, 64), (128, 64), (768, 64)]
)
def test_a_quantiser_takes_any_number_of_dimensions(dim: int, codes: int, tmp_path: Path) -> None:
    vectors = unit(300, 2, dim)
    codec = ProductQuantised.train(vectors)
    stored = codec.encode(vectors)
    assert stored.shape == (300, codes) == (300, codec.width)
    codec.save(tmp_path)
    decoded = open_codec("pq", tmp_path, dim).decode(stored)
    assert decoded.shape == vectors.shape
    assert (decoded * vectors).sum(1).mean() > 0.9


def test_codes_are_faiss_own() -> None:
    vectors = unit(2_500, 3, 100)
    codec = ProductQuantised.train(vectors)
    assert (codec.encode(vectors) == codec._pq.compute_codes(vectors)).mean() > 0.999
    assert codec.encode(vectors[:0]).shape == (0, 50)


def test_a_quantised_build_encodes_each_window_once(
    world: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    documents = Encoder._documents

    def counted(self: Encoder, texts: list[str]) -> Any:
        encoded.extend(texts)
        return documents(self, texts)

    monkeypatch.setattr(Encoder, "_documents", counted)
    monkeypatch.setattr("retrieval.build.PQ_PASSAGES", 10)
    corpus = [*world.corpus, Passage("long", "Almanac", "a river runs " * 300)]
    build_index(corpus, tmp_path / "index", vectors="pq")
    index = open_index(tmp_path / "index").index
    assert len(encoded) == len(index.windows) > len(corpus)
    stored = index.segments[0].vectors(range(len(index.windows)))[0]
    texts = [w for ws in index.encoder.windows([content(p) for p in corpus]) for w in ws]
    fresh = np.concatenate(index.encoder.passages(texts)).astype(np.float32)
    assert (stored * fresh).sum(1).mean() > 0.8


def test_vectors_kept_in_an_unknown_way_are_refused(world: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(IndexFault, match="newer version"):
        open_codec("int3", tmp_path, 384)
    with pytest.raises(IndexFault, match="float16 or pq"):
        build_index(world.corpus, tmp_path / "index", vectors="int3")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("engine", ["exact", "two-stage"])
def test_vectors_read_anew_and_vectors_kept_in_memory_rank_alike(
    small_index: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = open_index(small_index, engine=engine)
    monkeypatch.setattr("retrieval.index.KEPT_BYTES", 0)
    streamed = open_index(small_index, engine=engine)
    assert (kept.index.small, streamed.index.small) == (True, False)
    for queries in ([QUERY], [QUERY, "a river", "Which museum is the oldest?"]):
        for _ in range(2):
            left, right = kept.search(queries, 9), streamed.search(queries, 9)
            assert [[p.id for p in f] for f in left] == [[p.id for p in f] for f in right]


@pytest.mark.parametrize("dim", [384, 96, 70])
@pytest.mark.parametrize("kind", [Float16, ProductQuantised])
def test_products_are_those_of_the_decoded_vectors(kind: Any, dim: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((300, dim)).astype(np.float32)
    codec = Float16(dim) if kind is Float16 else ProductQuantised.train(vectors)
    stored = codec.encode(vectors)
    for count in (1, SUMMED, SUMMED + 1):
        tokens = rng.standard_normal((count, dim)).astype(np.float32)
        wanted = tokens @ codec.decode(stored).T
        np.testing.assert_allclose(codec.products(tokens, stored), wanted, rtol=1e-4, atol=1e-4)
