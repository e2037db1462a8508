"""Interpreters for code that an LM writes: DSPy's local Python worker, behind walls and limits."""

from __future__ import annotations

import inspect
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from dspy.primitives import LocalInterpreter, local_interpreter
from dspy.primitives.code_interpreter import CodeInterpreter, CodeInterpreterError

from programs import bubblewrap
from programs.errors import ProgramError
from programs.faults import StopRun

Kind = Literal["auto", "bubblewrap", "deno", "none"]
WORKER = Path(local_interpreter.__file__).with_name("local_interpreter_worker.py")
START_SECONDS = 30
LINE = 32 << 20
"""Characters of the longest message that is taken from the code's side."""


@dataclass(frozen=True)
class Limits:
    """What code may use."""

    seconds: float = 20.0
    """Of one execution, without the time that its searches and LM calls take outside."""
    memory: int = 512 << 20
    """Bytes of address space."""
    file_bytes: int = 4 << 20
    """Of one file, and of what one execution prints."""
    files: int = 64
    """Open at once."""


@dataclass(frozen=True)
class Sandbox:
    """A factory of interpreters, one a question: what dspy calls an ``interpreter_factory``.

    ``auto`` is bubblewrap where it works, else Deno where it is installed. ``none`` runs the code
    with the user's own files and network, under the limits alone.
    """

    kind: Kind = "auto"
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            kinds = ", ".join(get_args(Kind))
            raise ProgramError(f"no sandbox {self.kind!r}; there are {kinds}")

    @property
    def execution_instructions(self) -> str:
        """For the LM: what its code may count on."""
        where = (
            "in a subprocess" if self.kind == "none" else "in a sandbox without network or files"
        )
        return (
            f"Code runs as Python {where}. Of libraries there is the standard one. It can't start "
            f"processes. One execution may take {self.limits.seconds:g} seconds. Variables, "
            "functions and imports stay for the next one."
        )

    def __call__(self) -> CodeInterpreter:
        """A fresh interpreter. Raises ``StopRun`` where code can't be confined as asked."""
        if self.kind == "none":
            return Confined(self.limits, walls=False)
        barred = None if self.kind == "deno" else bubblewrap.why_not()
        if self.kind != "deno" and barred is None:
            return Confined(self.limits)
        if self.kind != "bubblewrap" and deno_is_here():
            from dspy import PythonInterpreter

            made: CodeInterpreter = PythonInterpreter()
            return made
        raise StopRun(
            "this method runs code that an LM writes, and there is no sandbox for it: "
            f"{barred or 'Deno is not installed'}; or pip install 'dspy[deno]' and --arg "
            "sandbox=deno; or --arg sandbox=none, which gives that code your files and network"
        )


def deno_is_here() -> bool:
    """Whether Deno is installed, as a package or on PATH."""
    return find_spec("deno") is not None or shutil.which("deno") is not None


class Confined(LocalInterpreter):  # type: ignore[misc]
    """DSPy's persistent Python worker, spoken to in lines of JSON over stdin and stdout, behind
    bubblewrap's walls and limits of its own.

    The time limit leaves out what tools take on our side; a worker that exceeds it, dies or
    writes a line without end is killed with all it started, and the session is over
    (``CodeInterpreterError``).
    """

    def __init__(self, limits: Limits | None = None, *, walls: bool = True) -> None:
        self.limits = limits or Limits()
        super().__init__()
        self.walls = walls
        self._process: subprocess.Popen[str] | None
        self._outside = Clock()
        self._ends = 0.0
        self._ready = False

    def start(self) -> None:
        """Start the worker without waiting for it, or return at once if it runs."""
        if self._ended:
            raise CodeInterpreterError("the interpreter has been shut down")
        if self._process is not None:
            return
        code = _START.format(limits=self._rlimits(), worker=str(WORKER), strict=self.walls)
        if self.walls:
            command, passed = bubblewrap.confined(["-c", code], [WORKER])
        else:
            command, passed = [sys.executable, "-I", "-c", code], []
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={} if self.walls else None,
                pass_fds=passed,
                start_new_session=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as fault:
            raise CodeInterpreterError(f"can't start Python for the code: {fault}") from fault
        finally:
            for fd in passed:
                os.close(fd)
        threading.Thread(target=self._read_responses, args=(self._process,), daemon=True).start()

    def _await_start(self) -> None:
        if self._ready:
            return
        self.start()
        told = self._receive(time.monotonic() + START_SECONDS, "")
        if told.get("type") != "ready":
            self._raise_terminal_error(f"Python did not start: {told!r}")
        self._ready = True

    def _rlimits(self) -> dict[str, int]:
        return {
            "RLIMIT_AS": self.limits.memory,
            "RLIMIT_FSIZE": self.limits.file_bytes,
            "RLIMIT_NOFILE": self.limits.files,
            "RLIMIT_CORE": 0,
        }

    def _read_responses(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        try:
            while line := process.stdout.readline(LINE):
                if not line.endswith("\n"):
                    break
                self._responses.put(line)
        except ValueError:
            pass
        self._responses.put(None)

    def _receive(self, deadline: float | None, timeout_message: str) -> dict[str, Any]:
        """The worker's next message; the deadline of an execution is ours and moves on with the
        time that tools take. Raises what a tool threw, and ``CodeInterpreterError``."""
        while True:
            limit = self._ends + self._outside.seconds if deadline is None else deadline
            try:
                line = self._responses.get(timeout=max(0.0, limit - time.monotonic()))
                break
            except queue.Empty:
                if deadline is not None:
                    self._raise_terminal_error("Python did not start in time")
                if time.monotonic() >= self._ends + self._outside.seconds:
                    self._raise_terminal_error(f"it ran for {self.limits.seconds:g} seconds")
        if isinstance(line, BaseException):
            self.shutdown()
            raise line
        try:
            told = json.loads(line or "")
        except ValueError:
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("type"), str):
            self._raise_terminal_error("it ended its Python, or used more memory than it may")
        return dict(told)

    def invoke_tool(self, tool_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """One call of a tool on our side; arguments by place are given by name, as dspy.RLM's
        tools want them."""
        if args and tool_name in self.tools:
            bound = inspect.signature(self.tools[tool_name]).bind(*args, **kwargs)
            args, kwargs = [], dict(bound.arguments)
        with self._outside:
            return super().invoke_tool(tool_name, args, kwargs)

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """See ``dspy.CodeInterpreter``."""
        self._await_start()
        self._outside = Clock()
        self._ends = time.monotonic() + self.limits.seconds
        return super().execute(code, variables)


class Clock:
    """Seconds during which at least one of several threads was inside; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._since = 0.0
        self._past = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._since = time.monotonic()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._past += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        with self._lock:
            now = time.monotonic() - self._since if self._inside else 0.0
            return self._past + now


Factory = Callable[[], CodeInterpreter]

_START = """\
import resource, runpy
for name, most in {limits}.items():
    try:
        resource.setrlimit(getattr(resource, name), (most, most))
    except (OSError, ValueError):
        if {strict}:
            raise
runpy.run_path({worker!r}, run_name="__main__")
"""
"""Run before any of the LM's code: the limits can't be raised again after it."""
