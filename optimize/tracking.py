"""Tracking: MLflow runs written through a spool, so that a tracking server that is down or slow
never stops or slows a compile.

Every event is a line of ``events.jsonl`` in the spool folder before it is sent by one background
thread. What could not be delivered when the tracker closes is said, and delivered when a tracker
opens the same spool again. Runs have keys of ours; ``delivered.json`` maps them to MLflow's ids and
remembers how far delivery got, so that a killed compile goes on in the runs it had.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize.run import write_json

PARAM_LIMIT = 500
"""Characters; longer parameter values become text artifacts (MLflow cuts them)."""
RETRY_SECONDS = 2.0


@dataclass(frozen=True)
class TrackedRun:
    """One MLflow run, by a key of ours. Methods return at once."""

    tracker: Tracker
    key: str

    def params(self, values: Mapping[str, Any]) -> None:
        short = {k: str(v) for k, v in values.items() if len(str(v)) <= PARAM_LIMIT}
        for name, value in values.items():
            if name not in short:
                self.text(f"params/{name}.txt", str(value))
        self.tracker.send(self.key, "params", values=short)

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        kept = {_metric_name(k): float(v) for k, v in values.items() if v is not None}
        self.tracker.send(self.key, "metrics", values=kept, step=step, at=int(time.time() * 1000))

    def tags(self, values: Mapping[str, str]) -> None:
        self.tracker.send(self.key, "tags", values={k: str(v) for k, v in values.items()})

    def text(self, name: str, text: str) -> None:
        self.tracker.send_file(self.key, name, text.encode())

    def json(self, name: str, value: object) -> None:
        self.text(name, json.dumps(value, indent=1, ensure_ascii=False, default=str))

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows as CSV."""
        import csv
        import io

        columns = list(dict.fromkeys(c for row in rows for c in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
        self.text(name, out.getvalue())

    def figure(self, name: str, figure: Any) -> None:
        """A matplotlib figure as PNG."""
        import io

        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=120, bbox_inches="tight")
        self.tracker.send_file(self.key, name, out.getvalue())

    def folder(self, name: str, path: Path) -> None:
        """A folder or file as an artifact below ``name``."""
        self.tracker.send_folder(self.key, name, path)

    def model(
        self, path: Path, name: str, *, mark: str, registered: str | None, champion: bool
    ) -> None:
        """An MLflow model folder as a logged model of this run, one for each ``mark`` (what it is);
        registered as a new version of ``registered`` when that is given, whose alias ``champion``
        moves to it if so asked."""
        kept = self.tracker.keep_folder(self.key, "model", path)
        about = {"name": name, "mark": mark, "registered": registered, "champion": champion}
        self.tracker.send(self.key, "model", path=kept, **about)

    def dataset(self, name: str, digest: str, context: str) -> None:
        """A data set by name and hash, as the run's input."""
        self.tracker.send(self.key, "dataset", name=name, digest=digest[:36], context=context)


class Tracker:
    """Writes runs to MLflow at ``uri`` (any MLflow tracking URI) through ``spool``."""

    def __init__(self, uri: str, experiment: str, spool: Path) -> None:
        self.uri = uri
        self.experiment = experiment
        self.spool = spool
        spool.mkdir(parents=True, exist_ok=True)
        self._events = spool / "events.jsonl"
        self._notes = spool / "delivered.json"
        self._state: dict[str, Any] = {"bytes": 0, "runs": {}}
        if self._notes.is_file():
            self._state = json.loads(self._notes.read_text())
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing: float | None = None
        self._patience = 0.0
        self._client: Any = None
        self._fault = ""
        self._thread = threading.Thread(target=self._deliver, name="tracking", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def run(self, key: str, name: str, parent: TrackedRun | None = None) -> Iterator[TrackedRun]:
        """A run for the block; one of the same key from before a kill is gone on with."""
        self.send(key, "open", name=name, parent=None if parent is None else parent.key)
        try:
            yield TrackedRun(self, key)
        except BaseException as fault:
            self.send(key, "close", status="KILLED" if _is_stop(fault) else "FAILED")
            raise
        self.send(key, "close", status="FINISHED")

    def send(self, key: str, event: str, **values: Any) -> None:
        line = json.dumps({"run": key, "event": event, **values}, ensure_ascii=False, default=str)
        with self._lock, self._events.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._wake.set()

    def send_file(self, key: str, name: str, data: bytes) -> None:
        kept = self.spool / "files" / key / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
        self.send(key, "artifact", path=str(kept.relative_to(self.spool)), to=_folder_of(name))

    def send_folder(self, key: str, name: str, path: Path) -> None:
        to = name if path.is_dir() else _folder_of(name)
        self.send(key, "artifact", path=self.keep_folder(key, name, path), to=to)

    def keep_folder(self, key: str, name: str, path: Path) -> str:
        """A copy in the spool, by its path there."""
        kept = self.spool / "files" / key / name
        if kept.exists():
            shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, kept)
        else:
            shutil.copy(path, kept)
        return str(kept.relative_to(self.spool))

    def registered(self, key: str) -> tuple[str, str, bool] | None:
        """Name, version and whether it is the champion, of a model that was registered and
        delivered."""
        found = self._state.get("models", {}).get(key, {}).get("registered")
        return None if found is None else (found["name"], found["version"], found["champion"])

    def run_id(self, key: str) -> str | None:
        """MLflow's id of a run, once it was delivered."""
        found: str | None = self._state["runs"].get(key)
        return found

    def delivered(self, key: str, patience: float = 20.0) -> str | None:
        """MLflow's id of a run when all that was sent so far has arrived; None when nothing
        arrives for ``patience`` seconds, or three times as long where no delivery has failed: a
        model takes a slow machine its time."""
        left, since = self._left(), time.monotonic()
        while left and time.monotonic() - since < (patience if self._fault else 3 * patience):
            self._wake.set()
            time.sleep(0.05)
            now = self._left()
            if now < left:
                since = time.monotonic()
            left = now
        return None if left else self.run_id(key)

    def close(self, patience: float = 20.0) -> str | None:
        """Deliver what is left, until ``patience`` seconds pass without progress. Returns one line
        about what could not be, or None."""
        self._patience = patience
        self._closing = time.monotonic() + patience
        self._wake.set()
        while self._thread.is_alive() and time.monotonic() < self._closing + 30:
            self._thread.join(1.0)
        left = self._left()
        if not left:
            return None
        return (
            f"{left} tracking events could not be delivered to MLflow ({self._fault}); they are "
            "kept and are delivered when the same command is started again"
        )

    def _left(self) -> int:
        if not self._events.is_file():
            return 0
        with self._events.open("rb") as file:
            file.seek(self._state["bytes"])
            return sum(1 for _ in file)

    def _deliver(self) -> None:
        while True:
            self._wake.wait(timeout=1.0)
            self._wake.clear()
            delivered = self._send_waiting()
            if self._closing is not None and (not self._left() or time.monotonic() > self._closing):
                return
            if not delivered and self._left():
                time.sleep(min(RETRY_SECONDS, max(0.1, self._time_left())))
                self._wake.set()

    def _progressed(self) -> None:
        if self._closing is not None:
            self._closing = time.monotonic() + self._patience

    def _time_left(self) -> float:
        return RETRY_SECONDS if self._closing is None else self._closing - time.monotonic()

    def _send_waiting(self) -> bool:
        """Deliver waiting events in order; False at the first that fails."""
        if not self._events.is_file():
            return True
        with self._events.open("rb") as file:
            file.seek(self._state["bytes"])
            for line in file:
                if not line.endswith(b"\n"):
                    return True
                try:
                    self._apply(json.loads(line))
                except Exception as fault:
                    self._fault = f"{type(fault).__name__}: {' '.join(str(fault).split())[:160]}"
                    return False
                self._fault = ""
                self._state["bytes"] += len(line)
                self._progressed()
                write_json(self._notes, self._state)
        return True

    def _apply(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        client = self._connected()
        kind, key = event["event"], event["run"]
        if kind == "open":
            self._open(client, key, event)
            return
        run_id = self._state["runs"].get(key)
        if run_id is None:
            return
        if kind == "params":
            known = client.get_run(run_id).data.params
            changed = {n: v for n, v in event["values"].items() if known.get(n) != v}
            others = [RunTag(f"param.{n}", v) for n, v in changed.items() if n in known]
            params = [Param(n, v) for n, v in changed.items() if n not in known]
            client.log_batch(run_id, params=params, tags=others)
        elif kind == "metrics":
            at, step = event["at"], event["step"]
            metrics = [Metric(n, v, at, step) for n, v in event["values"].items()]
            client.log_batch(run_id, metrics=metrics)
        elif kind == "tags":
            tags = [RunTag(n, v) for n, v in event["values"].items()]
            client.log_batch(run_id, tags=tags)
        elif kind == "artifact":
            path = self.spool / event["path"]
            if path.is_dir():
                client.log_artifacts(run_id, str(path), event["to"])
            elif path.exists():
                client.log_artifact(run_id, str(path), event["to"])
        elif kind == "model":
            self._model(client, run_id, key, event)
        elif kind == "dataset":
            self._dataset(client, run_id, event)
        elif kind == "close":
            client.set_terminated(run_id, status=event["status"])

    def _open(self, client: Any, key: str, event: Mapping[str, Any]) -> None:
        if key in self._state["runs"]:
            client.update_run(self._state["runs"][key], status="RUNNING")
            return
        tags = {"mlflow.runName": event["name"], "hopsmith.key": key}
        parent = self._state["runs"].get(event.get("parent"))
        if parent is not None:
            tags["mlflow.parentRunId"] = parent
        run = client.create_run(self._experiment(client), tags=tags, run_name=event["name"])
        self._state["runs"][key] = run.info.run_id

    def _dataset(self, client: Any, run_id: str, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = Dataset(name=event["name"], digest=event["digest"], source_type="local", source="{}")
        tag = InputTag("mlflow.data.context", event["context"])
        client.log_inputs(run_id, [DatasetInput(data, [tag])])

    def _model(self, client: Any, run_id: str, key: str, event: Mapping[str, Any]) -> None:
        """Each step is noted when it is done, so that a delivery that failed half way makes
        nothing twice."""
        notes = self._state.setdefault("models", {}).setdefault(key, {})
        if notes.get("mark") != event.get("mark"):
            notes.clear()
            notes["mark"] = event.get("mark")
        if "id" not in notes:
            experiment = client.get_run(run_id).info.experiment_id
            made = client.create_logged_model(experiment, event["name"], source_run_id=run_id)
            notes["id"] = made.model_id
        if not notes.get("ready"):
            client.log_model_artifacts(notes["id"], str(self.spool / event["path"]))
            client.finalize_logged_model(notes["id"], "READY")
            notes["ready"] = True
        name = event["registered"]
        if name is None:
            return
        if notes.get("registered", {}).get("name") != name:
            if not any(m.name == name for m in client.search_registered_models(f"name = '{name}'")):
                client.create_registered_model(name)
            source = f"models:/{notes['id']}"
            with _asking(self.uri):
                made = client.create_model_version(name, source, run_id, model_id=notes["id"])
            version = str(made.version)
            notes["registered"] = {"name": name, "version": version, "champion": False}
        known = notes["registered"]
        if event["champion"] and not known["champion"]:
            client.set_registered_model_alias(name, "champion", known["version"])
            known["champion"] = True

    def _experiment(self, client: Any) -> str:
        found = client.get_experiment_by_name(self.experiment)
        if found is not None:
            return str(found.experiment_id)
        where = None
        if self.uri.startswith("sqlite:///"):
            where = (Path(self.uri.removeprefix("sqlite:///")).parent / "mlartifacts").as_uri()
        return str(client.create_experiment(self.experiment, artifact_location=where))

    def _connected(self) -> Any:
        if self._client is None:
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            os.environ.setdefault("DO_NOT_TRACK", "true")
            os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
            logging.getLogger("alembic").setLevel(logging.WARNING)
            from mlflow import MlflowClient

            for name in ("mlflow", "mlflow.store.db.utils"):
                logging.getLogger(name).setLevel(logging.ERROR)
            self._client = MlflowClient(self.uri, registry_uri=self.uri)
            self._progressed()
        return self._client


@contextlib.contextmanager
def _asking(uri: str) -> Iterator[None]:
    """MLflow looks a version's model up in the store of the whole process, not in the client's."""
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)


def local_uri(folder: Path) -> str:
    """MLflow's store in a folder: a SQLite file, artifacts beside it."""
    return f"sqlite:///{folder.resolve() / 'mlflow.db'}"


def _metric_name(name: str) -> str:
    """MLflow allows no ``@`` in a metric's name."""
    return name.replace("@", "_at_")


def _folder_of(name: str) -> str | None:
    return name.rpartition("/")[0] or None


def _is_stop(fault: BaseException) -> bool:
    return not isinstance(fault, Exception)
