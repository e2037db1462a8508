"""Run folders: ``run.json`` says what was run, ``predictions.jsonl`` holds a row a question,
``questions.jsonl`` the questions with their gold, ``passages.jsonl`` the texts that were read."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import ValidationError

from benchmarks import Question, question_to_json, questions_hash
from metrics import DEFINITION_VERSION, Summary, metric
from optimize.answers import AnswerStore
from optimize.errors import RunError
from optimize.evaluate import Evaluation
from optimize.rows import RunHeader
from programs import MultiHopProgram, fingerprint, identity

HEADER, ROWS, METRICS = "run.json", "predictions.jsonl", "metrics.json"
QUESTIONS, PASSAGES = "questions.jsonl", "passages.jsonl"
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
        definitions=DEFINITION_VERSION,
        versions=versions(),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def open_run(folder: Path, wanted: RunHeader, questions: Sequence[Question] = ()) -> AnswerStore:
    """A run folder to write into: new, or resumed when it is the same run. ``questions`` are kept
    beside the rows, so that the folder can be read without the data set.

    Raises ``RunError`` when the folder holds another run, naming what differs.
    """
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file: give another --out")
    path = folder / HEADER
    if path.is_file():
        there = read_header(folder)
        differs = [n for n in SAME if getattr(there, n) != getattr(wanted, n)]
        if differs:
            raise RunError(
                f"{folder} holds another run ({', '.join(differs)} differ): give another --out"
            )
        if there.definitions != wanted.definitions:
            write_json(path, {**there.model_dump(), "definitions": wanted.definitions})
    else:
        if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no run: give another --out")
        write_json(path, wanted.model_dump())
    if questions and not (folder / QUESTIONS).is_file():
        lines = [json.dumps(question_to_json(q), ensure_ascii=False) for q in questions]
        write_text(folder / QUESTIONS, "\n".join(lines) + "\n")
    return AnswerStore(folder / ROWS)


def read_header(folder: Path) -> RunHeader:
    """Raises ``RunError`` when there is none."""
    path = folder / HEADER
    try:
        return RunHeader.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder} holds no run: it has no {HEADER}") from None
    except ValidationError as fault:
        raise RunError(f"{path} can't be read: {fault.errors()[0]['msg']}") from fault


def close_run(folder: Path, evaluation: Evaluation) -> None:
    """Write the metrics beside the rows."""
    write_metrics(folder, evaluation.metrics)


def write_metrics(folder: Path, found: Mapping[str, Summary]) -> None:
    """``metrics.json``: each number with the questions it is of and what it means."""
    write_json(
        folder / METRICS,
        {
            name: {
                "value": s.value,
                "n": s.n,
                "missing": s.missing,
                "interval": s.interval,
                "definition": metric(name).definition,
            }
            for name, s in found.items()
        },
    )


def write_json(path: Path, value: object) -> None:
    """Readable, atomically replaced."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """As UTF-8, atomically replaced; half surrogate pairs, which data sets hold, pass through."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text.encode("utf-8", "surrogatepass"))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
