"""The command line. Each command is a thin face over the rooms below; ``--json`` prints one object
on stdout, everything else goes to stderr; exit 0 done, 1 the run failed, 2 bad input."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import typer

import hopsmith.commands.bench
import hopsmith.commands.bench_eval
import hopsmith.commands.bench_serve
import hopsmith.commands.compare
import hopsmith.commands.corpus
import hopsmith.commands.doctor
import hopsmith.commands.graph
import hopsmith.commands.index_server
import hopsmith.commands.judge
import hopsmith.commands.pipeline
import hopsmith.commands.questions
import hopsmith.commands.reproduce
import hopsmith.commands.runs
import hopsmith.commands.serve
import hopsmith.commands.train
import hopsmith.commands.training_questions
import hopsmith.commands.trigger

BAD_PATH = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""What the system says of a path that the user can choose or mend."""

app = typer.Typer(
    name="hopsmith",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def tell_version(wanted: bool) -> None:
    if wanted:
        from hopsmith.doctor import installed_version

        print(installed_version())
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=tell_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Multi-hop question answering over your own documents, compiled rather than hand-prompted."""


hopsmith.commands.corpus.register(app)
hopsmith.commands.index_server.register(app)
hopsmith.commands.doctor.register(app)
hopsmith.commands.graph.register(app)
hopsmith.commands.questions.register(app)
hopsmith.commands.compare.register(app)
hopsmith.commands.runs.register(app)
hopsmith.commands.judge.register(app)
hopsmith.commands.reproduce.register(app)
hopsmith.commands.trigger.register(app)
hopsmith.commands.pipeline.register(app)
hopsmith.commands.serve.register(app)
hopsmith.commands.training_questions.register(app)
hopsmith.commands.bench.register(app)
hopsmith.commands.train.register(app)


def main() -> None:
    """Entry point: faults of input are one line and exit code 2."""
    sys.exit(guarded(app))


def guarded(run: Callable[..., Any]) -> int:
    """Run a command; print a fault that the user can mend as one line."""
    import logging

    logging.getLogger("dspy.clients.model_metadata").setLevel(logging.ERROR)
    try:
        run(standalone_mode=False)
    except typer.Exit as done:
        return int(done.exit_code)
    except typer.Abort:
        print("stopped", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("stopped; what was done is kept", file=sys.stderr)
        return 130
    except BaseException as fault:
        code = exit_code(fault)
        if code is None:
            raise
        if told := one_line(fault):  # nothing where the help was printed in its place
            print(f"hopsmith: {told}", file=sys.stderr)
        return code
    return 0


def exit_code(fault: BaseException) -> int | None:
    """2 for input and set-up, 1 for a run that failed, None for a fault of ours."""
    from benchmarks import BenchmarkError
    from hopsmith.errors import HopsmithError
    from metrics import MetricError
    from optimize.errors import OptimizeError, TooManyFailures
    from programs import ProgramError
    from programs.faults import StopRun
    from retrieval import RetrievalError

    if isinstance(fault, HopsmithError):
        return fault.exit_code
    if isinstance(fault, TooManyFailures):
        return 1
    known: tuple[type[BaseException], ...] = (
        StopRun,
        ProgramError,
        RetrievalError,
        BenchmarkError,
        MetricError,
        OptimizeError,
        *usage_errors(),
    )
    return 2 if isinstance(fault, known) or is_bad_path(fault) else None


def is_bad_path(fault: BaseException) -> bool:
    """Whether a file or folder that was named can't be read, made or written."""
    return isinstance(fault, OSError) and fault.filename is not None and fault.errno in BAD_PATH


def usage_errors() -> tuple[type[BaseException], ...]:
    """Of the command line itself: typer's own copy of click, or click."""
    try:
        from typer.exceptions import TyperException
    except ImportError:
        import click

        return (click.ClickException,)
    return (TyperException,)


def one_line(fault: BaseException) -> str:
    """A fault's message without line breaks."""
    if isinstance(fault, OSError) and is_bad_path(fault):
        return f"{fault.filename}: {fault.strerror}: name another path, or mend this one"
    message = getattr(fault, "format_message", None)
    return " ".join(str(message() if callable(message) else fault).split())
