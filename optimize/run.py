"""Run folders: ``run.json`` says what was run, ``predictions.jsonl`` holds a row a question."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import ValidationError

from benchmarks import Question, questions_hash
from optimize.answers import AnswerStore
from optimize.errors import RunError
from optimize.evaluate import Evaluation
from optimize.rows import RunHeader
from programs import MultiHopProgram, fingerprint, identity

HEADER, ROWS, METRICS = "run.json", "predictions.jsonl", "metrics.json"
SAME = ("format", "method", "benchmark", "split", "questions_hash", "fingerprint", "corpus_hash")
"""What must agree for a run to be resumed."""


def versions() -> dict[str, str]:
    """Of what a result depends on."""
    found = {"python": platform.python_version()}
    for name in ("hopsmith", "dspy", "colbert-ai", "torch", "transformers", "bm25s"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def header(
    program: MultiHopProgram,
    questions: Sequence[Question],
    *,
    benchmark: str,
    split: str,
    answer_rule: str,
    ceiling: bool,
) -> RunHeader:
    """What a run of this program on these questions is."""
    return RunHeader(
        method=program.info.name,
        benchmark=benchmark,
        split=split,
        answer_rule=answer_rule,
        questions=len(questions),
        questions_hash=questions_hash(questions),
        fingerprint=fingerprint(program),
        identity=identity(program),
        corpus_hash=getattr(program.retriever, "corpus_hash", None),
        ceiling=ceiling,
        versions=versions(),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def open_run(folder: Path, wanted: RunHeader) -> AnswerStore:
    """A run folder to write into: new, or resumed when it is the same run.

    Raises ``RunError`` when the folder holds another run, naming what differs.
    """
    path = folder / HEADER
    if path.is_file():
        there = read_header(folder)
        differs = [n for n in SAME if getattr(there, n) != getattr(wanted, n)]
        if differs:
            raise RunError(
                f"{folder} holds another run ({', '.join(differs)} differ): give another --out"
            )
    else:
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no run: give another --out")
        write_json(path, wanted.model_dump())
    return AnswerStore(folder / ROWS)


def read_header(folder: Path) -> RunHeader:
    """Raises ``RunError`` when there is none."""
    path = folder / HEADER
    try:
        return RunHeader.model_validate_json(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{folder} holds no run: it has no {HEADER}") from None
    except ValidationError as fault:
        raise RunError(f"{path} can't be read: {fault.errors()[0]['msg']}") from fault


def close_run(folder: Path, evaluation: Evaluation) -> None:
    """Write the metrics beside the rows."""
    write_json(
        folder / METRICS,
        {
            name: {"value": s.value, "n": s.n, "missing": s.missing}
            for name, s in evaluation.metrics.items()
        },
    )


def write_json(path: Path, value: object) -> None:
    """Readable, atomically replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
