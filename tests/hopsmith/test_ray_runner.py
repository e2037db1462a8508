"""A run over a Ray cluster: the rows of a local run, resumed and limited alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith.cli import app, guarded


def call(*words: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    def run(**more: Any) -> None:
        app([str(w) for w in words], **more)

    code = guarded(run)
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out.startswith("{") else told.out, told.err


def test_an_unknown_runner_is_named(small_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(
        *("eval", "--benchmark", "synthetic:30,40", "--lm", "oracle", "--limit", 2),
        *("--index", small_index, "--engine", "bm25", "--runner", "dask"),
        capsys=capsys,
    )
    assert code == 2
    assert "there are local and ray" in err


def test_ray_that_is_not_installed_is_named(
    small_index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = call(
        *("eval", "--benchmark", "synthetic:30,40", "--lm", "oracle", "--limit", 2),
        *("--index", small_index, "--engine", "bm25", "--runner", "ray"),
        capsys=capsys,
    )
    assert code == 2
    assert "pip install 'hopsmith[ray]'" in err


@pytest.fixture
def cluster() -> Iterator[str]:
    """A cluster of two nodes on this machine."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    try:
        yield made.address
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.mark.slow
def test_a_cluster_gives_the_rows_of_a_local_run(
    cluster: str,
    world: Benchmark,
    small_index: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = tmp_path / "dev.jsonl"
    lines = [json.dumps(question_to_json(q)) for q in world.questions["dev"]]
    data.write_text("\n".join(lines) + "\n")
    words = (
        *("eval", "--method", "decompose", "--data", data, "--index", small_index),
        *("--engine", "bm25", "--lm", "oracle", "--oracle-noise", 0.1, "--workers", 2, "--json"),
    )

    def rows(folder: Path) -> list[Any]:
        found = map(json.loads, (folder / "predictions.jsonl").read_text().splitlines())
        return sorted(
            (r["id"], r["fingerprint"], r["answer"], [h["passages"] for h in r["hops"]])
            for r in found
        )

    assert call(*words, "--out", tmp_path / "local", capsys=capsys)[0] == 0
    spread = (*words, "--runner", "ray", "--ray-address", cluster, "--out", tmp_path / "ray")
    code, _, err = call(*spread, "--max-calls", 12, capsys=capsys)
    assert code == 0, err
    partly = rows(tmp_path / "ray")
    assert 0 < len(partly) < len(lines)
    code, told, err = call(*spread, capsys=capsys)
    assert code == 0, err
    assert told["n"] == len(lines)
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert (tmp_path / "ray" / "passages.jsonl").stat().st_size > 0
