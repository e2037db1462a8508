"""An Optuna study on disk or in a database, and the leases of the processes that work on it."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optimize.errors import OptimizeError

LEASE_SECONDS = 1800.0
"""A running trial whose lease (renewed after each question) is older, or whose process here is
gone, is given up and tried again."""
FRESH_SECONDS = 60.0
WAIT_SECONDS = 0.5


def lease() -> list[Any]:
    """Process, host and time, as a trial keeps them."""
    return [os.getpid(), socket.gethostname(), time.time()]


def open_study(storage: str | Path, name: str, seed: int, single: bool = False) -> Any:
    """Open or create a study. Two workers that create a fresh schema at once race: the loser
    tries again."""
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", "Heartbeat of storage")  # trials are asked for and told
    directions: Any = ["maximize"] if single else ["maximize", "maximize", "minimize"]
    fault: Exception | None = None
    for attempt in range(5):
        try:
            where: Any
            if "://" in str(storage):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that heartbeats are experimental
                    where = RDBStorage(with_driver(str(storage)), heartbeat_interval=60)
            else:
                Path(storage).parent.mkdir(parents=True, exist_ok=True)
                where = JournalStorage(JournalFileBackend(str(storage)))
            return optuna.create_study(
                storage=where,
                study_name=name,
                directions=directions,
                sampler=sampler(seed, 0),
                load_if_exists=True,
            )
        except OptimizeError:
            raise
        except Exception as error:
            fault = error
            time.sleep(0.2 * (attempt + 1))
    raise OptimizeError(
        f"the study's storage can't be opened ({fault}): check --storage; a study needs a database "
        "without other programs' tables (MLflow's)"
    )


def sampler(seed: int, trials: int) -> Any:
    """For the trial after so many: one seed gives one search, and processes that share a study
    don't propose the same points."""
    import optuna

    return optuna.samplers.TPESampler(seed=seed * 100_003 + trials)


def with_driver(url: str) -> str:
    """``postgresql://…`` with psycopg 3 as its driver, where psycopg2 isn't there."""
    from importlib.util import find_spec

    head, mark, rest = url.partition("://")
    if head in ("postgres", "postgresql") and find_spec("psycopg2") is None:
        if find_spec("psycopg") is None:
            raise OptimizeError("PostgreSQL needs its driver: pip install 'hopsmith[postgres]'")
        head = "postgresql+psycopg"
    return f"{head}{mark}{rest}"


def reap(study: Any) -> int:
    """Give up trials whose process died, and put their points in line once more. Returns how many
    were put in line."""
    import optuna

    again = 0
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        held = trial.user_attrs.get("lease") or [None, "", trial.datetime_start.timestamp()]
        if not _alive(*held):
            try:
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
                continue  # another process was first
            if not trial.user_attrs.get("again"):
                study.enqueue_trial(trial.params, user_attrs={"again": True})
                again += 1
    return again


def wait_for_others(study: Any, told: Callable[[int], None] | None = None) -> bool:
    """Wait until no other process has a trial under way. False when all are done; True when one
    was given up and its point is in line again."""
    last = 0
    while True:
        if reap(study):
            return True
        running = [t for t in study.get_trials(deepcopy=False) if t.state.name == "RUNNING"]
        if not running:
            return False
        if told is not None and len(running) != last:
            last = len(running)
            told(last)
        time.sleep(WAIT_SECONDS)


def _alive(pid: int | None, host: str, since: float) -> bool:
    """``pid`` is None in the moment before a new trial's lease is written."""
    if pid is None:
        return time.time() - since < FRESH_SECONDS
    if time.time() - since > LEASE_SECONDS:
        return False
    if host != socket.gethostname() or pid == os.getpid():
        return host != socket.gethostname()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def complete_state() -> tuple[Any, ...]:
    import optuna

    return (optuna.trial.TrialState.COMPLETE,)
