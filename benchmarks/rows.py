"""Rows of a data set, from a local file or from the hub, each with its place for messages."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.errors import BenchmarkError

TABLES = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, slots=True)
class Row:
    """A record as the data set has it."""

    where: str
    """File and line, or hub and number."""
    data: Mapping[str, Any]


Rows = Callable[[], Iterable[Row]]
"""Reads from the start each time it is called."""


@dataclass(frozen=True)
class Hub:
    """Where a data set lies on the Hugging Face hub."""

    path: str
    config: str | None
    splits: Mapping[str, str]
    """Our split → the hub's."""


def file_rows(path: Path) -> Iterator[Row]:
    """Rows of JSONL, of a JSON array (also under ``data``), of CSV or of TSV; gzipped or not.

    Raises ``BenchmarkError`` at what can't be read at all.
    """
    if not path.is_file():
        raise BenchmarkError(f"no file of questions at {path}")
    try:
        suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
        if suffix in TABLES:
            with _opened(path) as file:
                lines = (
                    line.decode("utf-8-sig" if n == 0 else "utf-8") for n, line in enumerate(file)
                )
                for number, row in enumerate(csv.DictReader(lines, delimiter=TABLES[suffix]), 2):
                    yield Row(f"{path}:{number}", row)
        elif _is_lines(path):
            yield from _lines(path)
        else:
            yield from _array(path)
    except UnicodeDecodeError as fault:
        raise BenchmarkError(
            f"{path} is no UTF-8 (byte {fault.start}): save the file as UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError) as fault:
        raise BenchmarkError(f"{path} can't be unpacked: {fault}") from None


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _is_lines(path: Path) -> bool:
    """Whether the first line is a whole JSON value other than an array."""
    with _opened(path) as file:
        first = next((line for line in file if line.strip()), b"")
    if first.lstrip().startswith(b"["):
        return False
    try:
        json.loads(first)
    except ValueError:
        return first.strip() != b"{"
    return True


def _lines(path: Path) -> Iterator[Row]:
    with _opened(path) as file:
        for number, raw in enumerate(file, 1):
            where = f"{path}:{number}"
            if not raw.strip():
                continue
            try:
                data = json.loads(raw.decode("utf-8"))
            except UnicodeDecodeError:
                raise BenchmarkError(f"{where} is no UTF-8: save the file as UTF-8") from None
            except json.JSONDecodeError as fault:
                raise BenchmarkError(
                    f"{where} is no JSON: {fault.msg} at column {fault.colno}"
                ) from None
            yield Row(where, _object(data, where))


def _array(path: Path) -> Iterator[Row]:
    with _opened(path) as file:
        try:
            data = json.load(file)
        except json.JSONDecodeError as fault:
            raise BenchmarkError(
                f"{path}:{fault.lineno} is no JSON: {fault.msg} at column {fault.colno}"
            ) from None
    if isinstance(data, dict):
        data = data.get("data", [data])
    for number, row in enumerate(data, 1):
        where = f"{path}, record {number}"
        yield Row(where, _object(row, where))


def _object(data: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise BenchmarkError(f"{where} is no JSON object, but {type(data).__name__}")
    return data


def hub_rows(hub: Hub, split: str) -> Rows:
    """Rows of a split from the hub, or from its local cache. Raises ``BenchmarkError``."""
    from datasets import load_dataset

    try:
        table = load_dataset(hub.path, hub.config, split=hub.splits[split])
    except Exception as fault:
        reason = " ".join(str(fault).split())[:200] or type(fault).__name__
        raise BenchmarkError(
            f"{hub.path} can't be had from the hub ({reason}): give its files with --data, or "
            "--train and --dev"
        ) from fault
    place = f"{hub.path}/{hub.splits[split]}"

    def read() -> Iterator[Row]:
        for number, row in enumerate(table):
            yield Row(f"{place}, record {number}", row)

    return read
