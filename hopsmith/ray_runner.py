"""``--runner ray``: the questions of a run spread over a Ray cluster.

Each worker is an actor that holds the program, reopens the retriever and asks with the same
settings; rows come back to the one process that writes the run folder, so that results, resuming
and limits are those of a local run. Ray is an extra (``pip install 'hopsmith[ray]'``) and must be
on every node with the same version of this package; indexes must be reachable there by the same
path, or be served (``hopsmith index-serve``).
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Sequence
from typing import Any

import dspy

from benchmarks import Question
from hopsmith.errors import HopsmithError
from hopsmith.lm import ORACLE
from hopsmith.session import session
from hopsmith.settings import Settings
from optimize.evaluate import Keep, answer
from optimize.rows import PredictionRow, ledger_of
from programs import MultiHopProgram, fingerprint
from programs.faults import StopRun
from programs.ledger import LEDGER
from retrieval import Passage

RESTARTS = 3
"""Times that a worker is started again when its process or node is lost."""


class Worker:
    """One actor: a program and its session, opened once."""

    def __init__(
        self, program: MultiHopProgram, settings: Settings, questions: Sequence[Question]
    ) -> None:
        self.program = program
        self.settings = settings
        self.questions = questions

    def mark(self) -> str:
        """The fingerprint that answers of this worker have."""
        with session(self.settings, self.questions):
            return fingerprint(self.program)

    def ask(self, question: Question, mark: str) -> tuple[PredictionRow | None, list[Passage], str]:
        """A row with the passages behind it; or no row, and why the whole run must stop."""
        passages: list[Passage] = []
        try:
            with session(self.settings, self.questions):
                row = answer(self.program, question, mark, passages.extend)
        except StopRun as stop:
            return None, [], str(stop)
        return row, passages, ""


class RayAsker:
    """``evaluate``'s asker over a cluster: a context manager that is called with a question."""

    def __init__(
        self,
        program: MultiHopProgram,
        settings: Settings,
        questions: Sequence[Question],
        *,
        address: str | None = None,
        keep: Keep | None = None,
    ) -> None:
        """``address`` is a cluster's (``ray://HOST:10001``, ``auto``); without one a cluster is
        started on this machine. Raises ``HopsmithError``."""
        self.program = program
        self.settings = settings
        self.known = list(questions) if settings.lm == ORACLE else []
        self.address = address
        self.keep = keep
        self._free: queue.Queue[Any] = queue.Queue()
        self._own = False

    def __enter__(self) -> RayAsker:
        ray = _ray()
        if not ray.is_initialized():
            self._own = True
            try:
                ray.init(
                    address=self.address,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except Exception as fault:  # Ray raises bare Exceptions for a node that won't start
                raise HopsmithError(
                    f"no Ray cluster at {self.address or 'this machine'} "
                    f"({' '.join(str(fault).split())[:160]}): start one (ray start --head), or "
                    "give its --ray-address"
                ) from fault
        there = int(ray.cluster_resources().get("CPU", 1))
        count = max(1, min(self.settings.at_once, there))
        actor = ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RESTARTS)(Worker)
        given = [ray.put(v) for v in (self.program, self.settings, self.known)]
        self.workers = [actor.remote(*given) for _ in range(count)]
        self._check(ray)
        for worker in self.workers:
            self._free.put(worker)
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            _ray().shutdown()

    def _check(self, ray: Any) -> None:
        """Every worker must measure the same pipeline."""
        wanted = fingerprint(self.program)
        try:
            marks = set(ray.get([worker.mark.remote() for worker in self.workers]))
        except ray.exceptions.RayError as fault:
            raise HopsmithError(
                f"a Ray worker can't ask ({_last_line(fault)}): every node needs this version of "
                "hopsmith, the index by the same path (or hopsmith index-serve) and the LM"
            ) from fault
        if marks != {wanted}:
            raise HopsmithError(
                "Ray workers have another pipeline than this process (fingerprints differ): give "
                "every node the same versions, weights and HOPSMITH_ settings"
            )

    def __call__(self, question: Question, mark: str) -> PredictionRow:
        """Ask on a free worker. Raises ``StopRun``, and a limit that is reached."""
        ray = _ray()
        ledger = dspy.settings.get(LEDGER)
        check = getattr(ledger, "check", None)
        if check is not None:
            check()
        row: PredictionRow | None
        worker = self._free.get()
        try:
            row, passages, stop = ray.get(worker.ask.remote(question, mark))
        except ray.exceptions.RayActorError as fault:
            raise StopRun(f"a Ray worker was lost {RESTARTS + 1} times: {fault}") from fault
        finally:
            self._free.put(worker)
        if row is None:
            raise StopRun(stop)
        if ledger is not None:
            for role, account in ledger_of(row).by_role.items():
                ledger.enter(role, account)
        if self.keep is not None:
            self.keep(passages)
        return row


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise HopsmithError("--runner ray needs Ray: pip install 'hopsmith[ray]'") from None
    return ray


def _last_line(fault: BaseException) -> str:
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(fault).__name__
