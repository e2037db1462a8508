"""Hot swap: a new pipeline is tried and taken up without dropping a question, or refused."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import httpx
import pytest

from benchmarks import Benchmark
from benchmarks.scripted import stand_in
from hopsmith.serving import pipelines
from hopsmith.serving.catalogue import Canary
from hopsmith.serving.pipelines import ExportSource
from hopsmith.settings import load_settings
from optimize.export import export
from programs import HopBudget, build
from retrieval import build_index, open_index

ADMIN = {"Authorization": "Bearer admin"}


@pytest.fixture
def index(world: Benchmark, tmp_path: Path) -> Path:
    build_index(world.corpus, tmp_path / "index", engine="bm25")
    return tmp_path / "index"


@pytest.fixture
def exported(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``exported(budget)`` writes an export to the same folder; loading one asks ``script``."""

    def write(name: str = "export", method: str = "single_shot", **budget: Any) -> Path:
        with dspy.context(lm=stand_in("scripted/lm")):
            program = build(method, open_index(index), HopBudget(**budget))
            return export(program, tmp_path / name, mlflow_model=False)

    return write


@pytest.fixture
def swapping(
    serve: Any,
    exported: Any,
    index: Path,
    scripted_context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """``swapping(script)`` serves the export in place with ``admin`` as its admin token."""
    from benchmarks.scripted import ScriptedAdapter
    from hopsmith import loading

    real = loading.load

    def start(script: Any = lambda *_: {"answer": "Tamsin"}, **more: Any) -> Any:
        monkeypatch.setattr(
            loading,
            "load",
            lambda folder, lm, retriever, force: real(
                folder,
                lm=stand_in("scripted/lm"),
                adapter=ScriptedAdapter(script),
                retriever=retriever,
                force=force,
            ),
        )
        source = ExportSource("main", str(exported(passages=2)), load_settings())
        return serve(
            sources=[source],
            reopen=lambda engine: open_index(index, engine=engine),
            admin_token="admin",
            **more,
        )

    return start


def reload(live: Any, **body: Any) -> httpx.Response:
    reply: httpx.Response = live.client.post("/admin/reload", json=body, headers=ADMIN)
    return reply


def test_a_new_export_is_taken_up(swapping: Any, exported: Any) -> None:
    live = swapping()
    before = live.ask().json()
    exported(passages=3)
    done = reload(live)
    assert done.status_code == 200, done.text
    (one,) = done.json()["reloaded"]
    after = live.ask().json()
    assert one["before"] == before["pipeline"]["fingerprint"]
    assert one["pipeline"]["fingerprint"] == after["pipeline"]["fingerprint"]
    assert one["canary"] == "Tamsin"
    assert (len(before["passages"]), len(after["passages"])) == (2, 3)
    assert after["pipeline"]["fingerprint"] in live.client.get("/metrics").text
    assert before["pipeline"]["fingerprint"] not in live.client.get("/metrics").text


def test_no_question_is_dropped_while_it_swaps(swapping: Any, exported: Any) -> None:
    gate, arrived = threading.Event(), threading.Semaphore(0)

    def script(signature: Any, inputs: Any) -> Any:
        if inputs["question"].startswith("Where was"):
            arrived.release()
            assert gate.wait(20)
        return {"answer": "Tamsin"}

    live = swapping(script)
    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(live.ask) for _ in range(3)]
        for _ in range(3):
            assert arrived.acquire(timeout=10)
        exported(passages=3)
        assert reload(live).status_code == 200
        gate.set()
        told = [f.result().json() for f in asking]
    assert [len(t["passages"]) for t in told] == [2, 2, 2]
    assert len(live.ask().json()["passages"]) == 3


def test_one_that_fails_the_canary_is_refused_and_the_old_one_stays(
    swapping: Any, exported: Any
) -> None:
    replies = {"answer": "Tamsin"}
    live = swapping(lambda *_: replies.copy() or None, canary=Canary("Who?", "Tamsin"))
    assert reload(live).status_code == 200
    exported(passages=3)
    replies["answer"] = "Wrong"
    refused = reload(live)
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:hopsmith:refused"
    assert "'Wrong', not 'Tamsin'" in refused.json()["detail"]
    replies.clear()
    assert "failed on the canary question" in reload(live).json()["detail"]
    replies["answer"] = "Tamsin"
    assert len(live.ask().json()["passages"]) == 2
    assert 'hopsmith_reloads_total{outcome="refused"} 2.0' in live.client.get("/metrics").text


@pytest.mark.parametrize("fault", ["gone", "broken", "unfit"])
def test_one_that_can_not_be_loaded_is_refused_with_the_mend(
    swapping: Any, exported: Any, index: Path, fault: str
) -> None:
    live = swapping()
    path = exported(passages=3) / "pipeline.json"
    says = {"gone": "no exported pipeline", "broken": "can't be read", "unfit": "does not fit"}
    if fault == "gone":
        path.unlink()
    elif fault == "broken":
        path.write_text("{")
    else:
        whole = json.loads(path.read_text())
        whole["retriever"]["engine"] = "two-stage"
        whole["retriever"]["encoder"] = {"name": "other"}
        path.write_text(json.dumps(whole))
    refused = reload(live)
    assert refused.status_code == 409
    assert says[fault] in refused.json()["detail"] or "no vectors" in refused.json()["detail"]
    assert live.ask().status_code == 200


def test_another_export_by_name_is_a_roll_forward_and_back(swapping: Any, exported: Any) -> None:
    live = swapping()
    other = exported("other", passages=4)
    assert reload(live, pipeline="main", export=str(other)).status_code == 200
    assert len(live.ask().json()["passages"]) == 4
    assert reload(live, export=str(other.parent / "export")).status_code == 200
    assert len(live.ask().json()["passages"]) == 2


def test_a_changed_index_is_taken_up_too(swapping: Any, world: Benchmark, index: Path) -> None:
    live = swapping()
    before = live.ask().json()["pipeline"]["corpus_hash"]
    build_index(world.corpus[:5], index, engine="bm25", overwrite=True)
    assert live.ask().json()["pipeline"]["corpus_hash"] == before
    assert reload(live).status_code == 200
    assert live.ask().json()["pipeline"]["corpus_hash"] != before


def test_reloading_needs_the_admin_token(serve: Any) -> None:
    none = serve(token="secret").client
    secret = {"Authorization": "Bearer secret"}
    assert none.post("/admin/reload", json={}, headers=secret).status_code == 403
    live = serve(token="secret", admin_token="admin")
    assert live.client.post("/admin/reload", json={}).status_code == 401
    assert live.client.post("/admin/reload", json={}, headers=secret).status_code == 401
    assert reload(live).status_code == 200


def test_a_method_is_not_turned_into_an_export(serve: Any) -> None:
    refused = reload(serve(admin_token="admin"), export="elsewhere")
    assert refused.status_code == 409
    assert "is no export" in refused.json()["detail"]
    assert reload(serve(admin_token="admin"), pipeline="none").status_code == 404


@pytest.mark.slow
def test_a_registered_model_is_found_by_its_alias_and_rolled_back(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    from mlflow import MlflowClient

    from optimize.tracking import local_uri

    monkeypatch.setenv("MLFLOW_TRACKING_URI", local_uri(tmp_path))
    client = MlflowClient()
    client.create_registered_model("answers")
    for passages in (2, 3):
        with dspy.context(lm=stand_in("scripted/lm")):
            program = build("single_shot", open_index(index), HopBudget(passages=passages))
            folder = export(program, tmp_path / f"e{passages}")
        with mlflow.start_run():
            mlflow.log_artifacts(str(folder / "mlflow_model"), "model")
            uri = mlflow.get_artifact_uri("model")
        version = client.create_model_version("answers", uri).version
        client.set_registered_model_alias("answers", "champion", version)
    where = "models:/answers@champion"

    def passages_now(scratch: Path) -> int:
        folder = pipelines.find_export(where, scratch)
        return int(
            json.loads((folder / "pipeline.json").read_text())["state"]["budget"]["passages"]
        )

    assert passages_now(tmp_path / "one") == 3
    client.set_registered_model_alias("answers", "champion", "1")
    assert passages_now(tmp_path / "two") == 2
    with pytest.raises(pipelines.HopsmithError, match="can't be fetched"):
        pipelines.find_export("models:/nothing@champion", tmp_path / "three")
