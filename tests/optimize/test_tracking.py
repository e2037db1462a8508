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


@pytest.fixture
def exported(words: Any, tmp_path: Path) -> Path:
    import dspy

    from benchmarks.scripted import stand_in
    from optimize.export import export
    from programs import build

    with dspy.context(lm=stand_in("oracle/gold")):
        return export(build("single_shot", words), tmp_path / "export")


def test_a_champion_is_moved_only_when_asked(tmp_path: Path, exported: Path) -> None:
    from mlflow import MlflowClient

    versions = []
    for key, champion in (("one", True), ("two", False)):
        tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
        with tracker.run(key, f"compile {key}") as run:
            run.model(
                exported / "mlflow_model",
                "single_shot",
                mark="m",
                registered="answers",
                champion=champion,
            )
        assert tracker.close() is None
        versions.append(tracker.registered(key))
    client = MlflowClient(tracker.uri, registry_uri=tracker.uri)
    assert versions == [("answers", "1", True), ("answers", "2", False)]
    assert str(client.get_model_version_by_alias("answers", "champion").version) == "1"


def test_a_model_that_is_delivered_again_is_registered_once(tmp_path: Path, exported: Path) -> None:
    from mlflow import MlflowClient

    for _ in range(2):
        tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
        with tracker.run("k", "compile") as run:
            run.model(
                exported / "mlflow_model", "single_shot", mark="m", registered="a", champion=False
            )
        assert tracker.close() is None
    client = MlflowClient(tracker.uri, registry_uri=tracker.uri)
    assert len(client.search_model_versions("name='a'")) == 1


def test_another_model_of_the_same_run_is_another_version(tmp_path: Path, exported: Path) -> None:
    """A compile that a limit ended exports again when it is allowed more."""
    from mlflow import MlflowClient

    versions = []
    for mark, champion in (("early", False), ("late", False), ("late", True)):
        tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
        (exported / "mlflow_model" / "mark").write_text(mark)
        with tracker.run("k", "compile") as run:
            run.model(exported / "mlflow_model", "s", mark=mark, registered="a", champion=champion)
        assert tracker.close() is None
        versions.append(tracker.registered("k"))
    assert versions == [("a", "1", False), ("a", "2", False), ("a", "2", True)]
    client = MlflowClient(tracker.uri, registry_uri=tracker.uri)
    assert str(client.get_model_version_by_alias("a", "champion").version) == "2"


def test_a_registered_model_loads_without_pickle(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
    with tracker.run("k", "compile") as run:
        run.model(exported / "mlflow_model", "single_shot", mark="m", registered="a", champion=True)
    assert tracker.close() is None
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    before = mlflow.get_tracking_uri()
    try:
        mlflow.set_tracking_uri(tracker.uri)
        mlflow.set_registry_uri(tracker.uri)
        folder = mlflow.artifacts.download_artifacts("models:/a@champion")
    finally:
        mlflow.set_tracking_uri(before)
        mlflow.set_registry_uri("")
    assert (Path(folder) / "MLmodel").is_file()


def test_traces_hold_the_search_as_a_retriever_span(world: Any, words: Any, tmp_path: Path) -> None:
    import dspy
    import mlflow

    from benchmarks.oracle import OracleAdapter
    from benchmarks.scripted import stand_in
    from optimize.tracing import trace
    from programs import build

    questions = world.questions["dev"][:2]
    tracker = Tracker(local_uri(tmp_path), "test", tmp_path / "spool")
    with tracker.run("k", "compile"):
        run_id = tracker.delivered("k")
        assert run_id is not None
        with dspy.context(lm=stand_in("oracle/gold"), adapter=OracleAdapter(questions)):
            assert trace(build("decompose", words), questions, tracker.uri, run_id) == 2
    tracker.close()
    experiment = runs(tracker.uri)["compile"].info.experiment_id
    client = mlflow.MlflowClient(tracker.uri)
    traces = client.search_traces(locations=[experiment])
    assert len(traces) == 2
    for found in traces:
        assert found.info.trace_metadata["mlflow.sourceRun"] == run_id
        spans = found.search_spans(span_type="RETRIEVER")
        assert spans
        assert spans[0].outputs[0]["page_content"]


@pytest.mark.slow
def test_a_server_on_postgresql_takes_what_a_spool_holds(
    postgres: str, tmp_path: Path, exported: Path
) -> None:
    import socket
    import subprocess
    import sys

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    early = Tracker(uri, "test", tmp_path / "spool")
    write(early)
    assert early.close(patience=0.5) is not None
    store = postgres.replace("postgresql://", "postgresql+psycopg://")
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
            *("--backend-store-uri", store, "--workers", "1"),
            *("--artifacts-destination", str(tmp_path / "artifacts")),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        tracker = Tracker(uri, "test", tmp_path / "spool")
        with tracker.run("m", "with a model") as run:
            run.model(
                exported / "mlflow_model", "single_shot", mark="m", registered="a", champion=True
            )
        assert tracker.close(patience=180) is None
        assert tracker.registered("m") == ("a", "1", True)
        assert {"compile", "baseline", "with a model"} <= set(runs(uri))
    finally:
        import os
        import signal

        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
