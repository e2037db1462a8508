"""An export that walks a graph asks for the graph that it was measured with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from benchmarks import Benchmark
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import stand_in
from hopsmith.loading import load
from optimize.errors import ExportError
from optimize.export import PipelineFile, export
from programs import build
from programs.knowledge import Knowledge
from programs.knowledge.given import Given, write_given
from programs.knowledge.store import GraphStore, beside
from retrieval import build_index, open_index


@pytest.fixture
def index(world: Benchmark, tmp_path: Path) -> Path:
    build_index(world.corpus, tmp_path / "index", engine="bm25")
    return tmp_path / "index"


def graph_beside(index: Path, world: Benchmark) -> GraphStore:
    store = GraphStore(str(beside(index)), create=True)
    store.sync(world.corpus, open_index(index).corpus_hash)
    write_given(store, [Given(triple) for triple in world.triples])
    return store


def exported(name: str, index: Path, knowledge: Knowledge | None, folder: Path) -> Path:
    with dspy.context(lm=stand_in("scripted/lm"), adapter=dspy.JSONAdapter()):
        program = build(name, open_index(index), knowledge=knowledge)
        return export(program, folder, mlflow_model=False)


@pytest.mark.parametrize("name", ["graph", "router", "proprag"])
def test_it_answers_as_it_was_measured_over_the_graph_beside_its_index(
    name: str, index: Path, world: Benchmark, tmp_path: Path
) -> None:
    folder = exported(name, index, Knowledge(graph_beside(index, world)), tmp_path / "export")
    asked = [q for q in world.questions["dev"] if q.kind == "bridge"]
    pipeline = load(folder, index, lm=stand_in("scripted/lm"), adapter=OracleAdapter(asked))
    prediction = pipeline(asked[0].question)
    assert any(hop.source == "graph" for hop in prediction.evidence.hops)


def test_without_its_graph_the_mend_is_named(index: Path, world: Benchmark, tmp_path: Path) -> None:
    store = graph_beside(index, world)
    folder = exported("router", index, Knowledge(store), tmp_path / "export")
    Path(str(beside(index))).unlink()
    with pytest.raises(ExportError, match="hopsmith graph --index DIR"):
        load(folder, index, lm=stand_in("scripted/lm"))


def test_a_graph_that_was_read_otherwise_is_refused_and_a_changed_one_warned_about(
    index: Path, world: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = graph_beside(index, world)
    folder = exported("graph", index, Knowledge(store), tmp_path / "export")
    write_given(store, [Given(triple) for triple in world.triples[1:]])
    load(folder, index, lm=stand_in("scripted/lm"))
    assert "graph has changed" in capsys.readouterr().err
    store.note("triples", '{"lm": "another"}')
    with pytest.raises(ExportError, match="triples were read by another"):
        load(folder, index, lm=stand_in("scripted/lm"))
    load(folder, index, lm=stand_in("scripted/lm"), force=True)


def test_a_router_that_had_no_graph_takes_none(
    index: Path,
    world: Benchmark,
    tmp_path: Path,
    knowledge_of: Callable[[Benchmark], Any],
) -> None:
    folder = exported("router", index, None, tmp_path / "export")
    assert PipelineFile.read(folder).graph is None
    graph_beside(index, world)
    pipeline = load(folder, index, lm=stand_in("scripted/lm"))
    assert "graph" not in pipeline.program.parts
