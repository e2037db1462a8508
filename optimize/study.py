"""An Optuna study on disk or in a database, and the leases of the processes that work on it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from optimize.errors import OptimizeError

LEASE_SECONDS = 3600.0
"""A running trial whose lease is older, or whose process here is gone, is given up and tried
again."""


def lease() -> list[Any]:
    """Process, host and time, as a trial keeps them."""
    return [os.getpid(), socket.gethostname(), time.time()]


def open_study(storage: str | Path, name: str, seed: int, single: bool = False) -> Any:
    """Open or create a study. Two workers that create a fresh schema at once race: the loser
    tries again."""
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    sampler = optuna.samplers.TPESampler(seed=seed)
    directions: Any = ["maximize"] if single else ["maximize", "maximize", "minimize"]
    fault: Exception | None = None
    for attempt in range(5):
        try:
            where: Any
            if "://" in str(storage):
                where = RDBStorage(str(storage), heartbeat_interval=60)
            else:
                Path(storage).parent.mkdir(parents=True, exist_ok=True)
                where = JournalStorage(JournalFileBackend(str(storage)))
            return optuna.create_study(
                storage=where,
                study_name=name,
                directions=directions,
                sampler=sampler,
                load_if_exists=True,
            )
        except Exception as error:
            fault = error
            time.sleep(0.2 * (attempt + 1))
    raise OptimizeError(f"the study's storage can't be opened ({fault}): check --storage")


def reap(study: Any) -> None:
    """Give up trials whose process died, and put their points in line once more."""
    import optuna

    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        lease = trial.user_attrs.get("lease")
        if lease is None or not _alive(*lease):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if not trial.user_attrs.get("again"):
                study.enqueue_trial(trial.params, user_attrs={"again": True})


def _alive(pid: int, host: str, since: float) -> bool:
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
