"""Tracking: nested runs, through a spool that outlives a server that is down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimize.tracking import Tracker, local_uri

CLOSED = "http://127.0.0.1:9"


def runs(uri: str) -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("test")
    return {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}


def write(tracker: Tracker) -> None:
    with tracker.run("k", "compile") as run:
        run.params({"method": "decompose", "long": "x" * 7000})
        with tracker.run("k-b", "baseline", run) as stage:
            stage.metrics({"support_recall@5": 0.5, "cost": None})
            stage.table("trials.csv", [{"a": 1}, {"a": 2, "b": 3}])


def test_runs_are_nested_with_what_was_logged(tmp_path: Path) -> None:
    tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
    write(tracker)
    assert tracker.close() is None
    found = runs(tracker.uri)
    assert found["compile"].data.params == {"method": "decompose"}
    stage = found["baseline"]
    assert stage.data.tags["mlflow.parentRunId"] == found["compile"].info.run_id
    assert stage.data.metrics == {"support_recall_at_5": 0.5}
    assert {r.info.status for r in found.values()} == {"FINISHED"}


def test_a_server_that_is_down_stops_nothing_and_is_caught_up(tmp_path: Path) -> None:
    tracker = Tracker(CLOSED, "test", tmp_path / "spool")
    write(tracker)
    told = tracker.close(patience=0.5)
    assert told is not None
    assert "could not be delivered" in told
    later = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
    assert later.close() is None
    assert set(runs(later.uri)) == {"compile", "baseline"}


def test_the_same_key_goes_on_in_its_run(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
        with tracker.run("k", "compile") as run:
            run.metrics({"f1": value}, step=int(value))
        assert tracker.close() is None
    found = runs(tracker.uri)
    assert len(found) == 1
    assert found["compile"].data.metrics["f1"] == 2.0


def test_a_failed_block_is_a_failed_run(tmp_path: Path) -> None:
    tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
    with pytest.raises(ValueError, match="broken"), tracker.run("k", "compile"):
        raise ValueError("broken")
    assert tracker.close() is None
    assert runs(tracker.uri)["compile"].info.status == "FAILED"
