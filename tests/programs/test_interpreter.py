"""The walls around code that an LM wrote, and its limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dspy.primitives.code_interpreter import (
    CodeExecutionError,
    CodeInterpreterError,
    FinalOutput,
)

from programs import ProgramError, bubblewrap, interpreter
from programs.faults import StopRun
from programs.interpreter import Clock, Confined, Limits, Sandbox

BARRED = bubblewrap.why_not()
walled = pytest.mark.skipif(BARRED is not None, reason=BARRED or "")


@pytest.fixture(scope="module")
def python() -> Iterator[Confined]:
    """One worker for the tests that leave it alive."""
    confined = Confined(Limits(seconds=30))
    yield confined
    confined.shutdown()


@pytest.fixture
def short_lived() -> Iterator[Confined]:
    confined = Confined(Limits(seconds=0.5))
    yield confined
    confined.shutdown()


@walled
class TestWalls:
    def test_state_stays_and_tools_answer_from_our_side(self, python: Confined) -> None:
        asked: list[str] = []

        def search(query: str) -> list[str]:
            asked.append(query)
            return [query.upper()]

        python.tools["search"] = search
        python.execute("found = search('ida moor')")
        assert python.execute("print(found + search(query='b'))") == "['IDA MOOR', 'B']"
        assert asked == ["ida moor", "b"]

    def test_submit_ends_with_its_value(self, python: Confined) -> None:
        python.output_fields = [{"name": "answer"}]
        try:
            assert python.execute("SUBMIT('Ada')") == FinalOutput({"answer": "Ada"})
        finally:
            python.output_fields = None

    def test_files_outside_are_not_there(self, python: Confined, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("key")
        for path in (secret, Path.home() / ".ssh", Path("/etc/passwd"), Path(__file__)):
            assert python.execute(f"import os; print(os.path.exists({str(path)!r}))") == "False"

    def test_nothing_but_tmp_can_be_written(self, python: Confined) -> None:
        assert python.execute("open('/tmp/a', 'w').write('b'); print(open('/tmp/a').read())") == "b"
        for place in ("/a", "/usr/lib/a", "/dev/a"):
            with pytest.raises(CodeExecutionError, match=r"Read-only|Permission|No such"):
                python.execute(f"open({place!r}, 'w')")
        assert not Path("/tmp/a").exists()

    def test_there_is_no_network(self, python: Confined) -> None:
        with pytest.raises(CodeExecutionError, match="unreachable"):
            python.execute("import socket; socket.create_connection(('192.0.2.1', 80), 1)")
        with pytest.raises(CodeExecutionError, match="refused"):
            python.execute("import socket; socket.create_connection(('127.0.0.1', 22), 1)")
        code = "import socket; print([name for _, name in socket.if_nameindex()])"
        assert python.execute(code) == "['lo']"

    def test_no_process_can_be_started_or_seen(self, python: Confined) -> None:
        for code in ("import os; os.fork()", "import subprocess; subprocess.run(['/bin/true'])"):
            with pytest.raises(CodeExecutionError, match="not permitted"):
                python.execute(code)
        seen = python.execute(
            "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))"
        )
        assert int(seen) <= 3

    def test_threads_work(self, python: Confined) -> None:
        code = (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(4) as pool: print(list(pool.map(str, range(4))))"
        )
        assert python.execute(code) == "['0', '1', '2', '3']"

    def test_neither_the_environment_nor_that_of_its_parent_is_ours(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        confined = Confined()
        try:
            told = confined.execute(
                "import os\n"
                "print(dict(os.environ))\n"
                "for p in os.listdir('/proc'):\n"
                "    if p.isdigit(): print(open(f'/proc/{p}/environ').read())"
            )
        finally:
            confined.shutdown()
        assert "sk-secret" not in told
        assert "PATH" not in told

    def test_it_has_no_privileges(self, python: Confined) -> None:
        told = python.execute("import os; print(os.getuid(), open('/proc/self/status').read())")
        assert told.startswith("65534 ")
        assert "CapEff:\t0000000000000000" in told
        assert "NoNewPrivs:\t1" in told

    def test_limits_cannot_be_raised(self, python: Confined) -> None:
        with pytest.raises(CodeExecutionError, match="maximum limit"):
            python.execute("import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))")

    def test_memory_is_bounded(self, python: Confined) -> None:
        with pytest.raises(CodeExecutionError, match="MemoryError"):
            python.execute("x = bytearray(600 << 20)")
        assert python.execute("print(1)") == "1"

    def test_what_is_printed_is_bounded(self, python: Confined) -> None:
        with pytest.raises(CodeExecutionError, match="too large"):
            python.execute("print('x' * (20 << 20))")
        assert python.execute("print(1)") == "1"

    def test_code_without_end_is_killed(self, short_lived: Confined) -> None:
        with pytest.raises(CodeInterpreterError, match=r"ran for 0\.5 seconds"):
            short_lived.execute("while True: pass")
        with pytest.raises(CodeInterpreterError, match="shut down"):
            short_lived.execute("print(1)")

    def test_the_time_of_tools_is_not_the_codes(self, short_lived: Confined) -> None:
        waited = threading.Event()
        short_lived.tools["slow"] = lambda: waited.wait(0.8) or "done"
        assert short_lived.execute("print(slow())") == "done"

    @pytest.mark.parametrize(
        "code",
        [
            "import os; os._exit(0)",
            "import os; [os.write(fd, b'y' * 100 + b'\\n') for fd in range(3, 9)]",
            "import ctypes; ctypes.string_at(0)",
        ],
    )
    def test_a_worker_that_dies_or_lies_ends_the_session(
        self, code: str, short_lived: Confined
    ) -> None:
        with pytest.raises((CodeInterpreterError, CodeExecutionError)):
            short_lived.execute(code)

    def test_an_endless_line_is_cut(
        self, short_lived: Confined, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(interpreter, "LINE", 1000)
        short_lived.tools["take"] = lambda text: len(text)
        with pytest.raises(CodeInterpreterError, match="ended its Python"):
            short_lived.execute("take('x' * 5000)")

    def test_what_a_tool_throws_beyond_exceptions_comes_through(
        self, short_lived: Confined
    ) -> None:
        class Signal(BaseException):
            pass

        def tool() -> None:
            raise Signal

        short_lived.tools["tool"] = tool
        with pytest.raises(Signal):
            short_lived.execute("try:\n    tool()\nexcept BaseException: print('caught')")

    def test_shutdown_leaves_no_process(self, short_lived: Confined) -> None:
        short_lived.execute("x = 1")
        process = short_lived._process
        assert process is not None
        short_lived.shutdown()
        assert process.poll() is not None


def test_without_walls_there_are_limits_still() -> None:
    confined = Confined(Limits(seconds=20, memory=256 << 20), walls=False)
    try:
        assert confined.execute("import os; print(os.getpid())") != str(os.getpid())
        with pytest.raises(CodeExecutionError, match="MemoryError"):
            confined.execute("x = bytearray(300 << 20)")
    finally:
        confined.shutdown()


def test_an_unknown_sandbox_is_named() -> None:
    with pytest.raises(ProgramError, match="no sandbox 'docker'; there are auto"):
        Sandbox("docker")  # type: ignore[arg-type]


def test_without_a_sandbox_the_run_stops_and_the_mend_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bubblewrap, "why_not", lambda: "there is no bubblewrap: pip install it")
    monkeypatch.setattr(interpreter, "deno_is_here", lambda: False)
    for kind in ("auto", "bubblewrap"):
        with pytest.raises(StopRun, match=r"pip install it.*--arg sandbox=none"):
            Sandbox(kind)()  # type: ignore[arg-type]
    with pytest.raises(StopRun, match="Deno is not installed"):
        Sandbox("deno")()


def test_deno_is_taken_where_bubblewrap_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "why_not", lambda: "no")
    monkeypatch.setattr(interpreter, "deno_is_here", lambda: True)
    assert type(Sandbox("auto")()).__name__ == "PythonInterpreter"
    with pytest.raises(StopRun):
        Sandbox("bubblewrap")()


def test_no_sandbox_is_taken_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = Sandbox("none")()
    assert isinstance(made, Confined)
    assert not made.walls


def test_overlapping_visits_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 14.0, 20.0])
    monkeypatch.setattr(interpreter.time, "monotonic", lambda: next(times))
    clock = Clock()
    with clock, clock:
        pass
    assert clock.seconds == 4.0


@walled
def test_a_checkout_below_tmp_can_be_run_too(tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "script.py"
    script.write_text("print('here')")
    command, passed = bubblewrap.confined([str(script)], [script])
    try:
        done = subprocess.run(
            command, pass_fds=passed, env={}, capture_output=True, text=True, timeout=60
        )
    finally:
        for fd in passed:
            os.close(fd)
    assert done.stdout == "here\n", done.stderr
