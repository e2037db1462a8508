"""``--rerank``: on the command line, in the settings, and in an export."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

import hopsmith
from benchmarks import Benchmark
from benchmarks.scripted import ScriptedAdapter, stand_in
from hopsmith.cli import app, guarded
from hopsmith.errors import HopsmithError
from hopsmith.reranking import reranked, reranked_as
from optimize.errors import ExportError
from optimize.export import export
from programs import build
from retrieval import BaseRetriever, IndexFault, open_index


@pytest.fixture(scope="module")
def model(
    world: Benchmark,
    make_cross_encoder: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    words = " ".join(p.text for p in world.corpus).lower().split()
    return make_cross_encoder(tmp_path_factory.mktemp("model") / "tiny", words)


@pytest.fixture
def plain(small_index: Path) -> BaseRetriever:
    return open_index(small_index, engine="bm25")


def ids(retriever: BaseRetriever) -> list[str]:
    return [p.id for p in retriever.search(["a museum in a city"], 9)[0]]


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    before = sys.argv
    sys.argv = ["hopsmith", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    "asked", ["", "magic", "lm:x", "none:x", "cross-encoder", "cross-encoder:"]
)
def test_what_is_no_reranker_is_refused(plain: BaseRetriever, asked: str) -> None:
    with pytest.raises(HopsmithError, match="none, lm and cross-encoder:NAME"):
        reranked(plain, asked)


def test_none_is_the_retriever_itself(plain: BaseRetriever) -> None:
    assert reranked(plain, "none") is plain
    assert reranked_as(plain, None) is plain


def test_search_reranks_by_a_flag_and_by_the_environment(
    small_index: Path,
    plain: BaseRetriever,
    model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = ids(reranked(plain, f"cross-encoder:{model}", 5))
    words = ["search", "a museum in a city", "--index", small_index, "--engine", "bm25", "--json"]
    flags = ["--rerank", f"cross-encoder:{model}", "--rerank-candidates", 5]
    _, told, _ = run(capsys, *words, "--k", 9, *flags)
    assert [p["id"] for p in json.loads(told)["results"][0]] == expected != ids(plain)
    monkeypatch.setenv("HOPSMITH_RERANK", f"cross-encoder:{model}")
    monkeypatch.setenv("HOPSMITH_RERANK_CANDIDATES", "5")
    _, told, _ = run(capsys, *words, "--k", 9)
    assert [p["id"] for p in json.loads(told)["results"][0]] == expected


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["--rerank", "magic"], "none, lm and cross-encoder:NAME"),
        (["--rerank", "cross-encoder:no/such"], "can't be fetched from the hub"),
        (["--rerank", "lm", "--rerank-candidates", 1], "--rerank-candidates"),
    ],
)
def test_a_fault_is_one_line(
    words: list[Any], mend: str, small_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "search", "river", "--index", small_index, *words)
    assert (code, out) == (2, "")
    assert mend in next(line for line in err.splitlines() if line.startswith("hopsmith: "))


def exported(retriever: BaseRetriever, folder: Path) -> Path:
    adapter = ScriptedAdapter(lambda signature, _: dict.fromkeys(signature.output_fields, ""))
    with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter):
        return export(build("single_shot", retriever), folder, mlflow_model=False)


@pytest.mark.parametrize("kind", ["lm", "cross-encoder"])
def test_an_export_reranks_as_it_was_measured(
    kind: str, plain: BaseRetriever, model: Path, small_index: Path, tmp_path: Path
) -> None:
    asked = "lm" if kind == "lm" else f"cross-encoder:{model}"
    measured = reranked(plain, asked, 5)
    folder = exported(measured, tmp_path / "export")
    assert str(model) not in (folder / "pipeline.json").read_text()
    loaded = hopsmith.load(folder, small_index, stand_in("scripted/lm"))
    assert loaded.program.retriever.identity == measured.identity  # type: ignore[attr-defined]
    loaded = hopsmith.load(folder, lm=stand_in("scripted/lm"), retriever=plain)
    assert loaded.program.retriever.identity == measured.identity  # type: ignore[attr-defined]
    with pytest.raises(ExportError, match="rerank"):
        hopsmith.load(folder, lm=stand_in("scripted/lm"), retriever=reranked(plain, asked, 6))


@pytest.mark.usefixtures("own_cache")
def test_a_cross_encoder_that_is_gone_is_asked_for(
    plain: BaseRetriever, make_cross_encoder: Callable[..., Path], tmp_path: Path
) -> None:
    other = make_cross_encoder(tmp_path / "gone", ["a"])
    identity = reranked(plain, f"cross-encoder:{other}").identity["rerank"]
    other.rename(tmp_path / "moved")
    with pytest.raises(IndexFault, match="--rerank cross-encoder:FOLDER"):
        reranked_as(plain, identity)
    found = reranked_as(plain, identity, f"cross-encoder:{tmp_path / 'moved'}")
    assert found.identity["rerank"] == identity
