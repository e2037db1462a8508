"""A run of the bench: what is done is written down as it is done, so that a run that was killed
goes on where it stopped, and engines take turns on the same questions, so that a noisy machine is
noisy to all of them alike."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from retrieval.bench import workers
from retrieval.bench.records import (
    BATCH,
    CONTENDERS,
    DEPTHS,
    REFERENCE,
    BenchQuestion,
    BenchReport,
    BuildRow,
    Contender,
    Cost,
    SearchRow,
)
from retrieval.bench.workers import Round
from retrieval.checkpoint import checkpoint as find_checkpoint
from retrieval.corpus import CorpusHash
from retrieval.errors import IndexFault, QueryError, RetrievalError
from retrieval.folders import cache_folder
from retrieval.passage import Passage

P = ParamSpec("P")
T = TypeVar("T")
Say = Callable[[str], None]
JOURNAL = "journal.jsonl"


class BenchFault(RetrievalError):
    """The bench could not go on."""


def work_folder(
    corpus: Sequence[Passage], questions: Sequence[BenchQuestion], checkpoint: str | None = None
) -> Path:
    """Where a bench over these keeps indexes and what it measured, below the cache folder."""
    digest = CorpusHash()
    for passage in corpus:
        digest.add(passage)
    asked = [[q.query, sorted(q.gold)] for q in questions]
    what = json.dumps([digest.hex, asked, find_checkpoint(checkpoint).identity], sort_keys=True)
    return cache_folder() / "bench" / hashlib.sha256(what.encode()).hexdigest()[:16]


def bench_retrieval(
    corpus: Sequence[Passage],
    questions: Sequence[BenchQuestion],
    *,
    contenders: Sequence[Contender] = CONTENDERS,
    checkpoint: str | None = None,
    work: Path | None = None,
    bare: bool = True,
    keep: bool = False,
    say: Say | None = None,
) -> BenchReport:
    """Build what the contenders search, and have them take turns.

    ``work`` is ``work_folder``'s unless it is given; it goes when the bench is done, unless
    ``keep``. ``bare`` measures the encoding alone, which builds are compared with. ``say`` is told
    of each step. When it is stopped by the user, ``KeyboardInterrupt`` passes through; call
    ``so_far`` for what there is. Raises ``QueryError`` when there is no question, or one without
    gold.
    """
    if not questions or not all(q.gold for q in questions):
        raise QueryError("the bench needs questions, each with at least one gold passage")
    folder = work or work_folder(corpus, questions, checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder / JOURNAL)
    tell = say or (lambda _: None)
    if journal.lines:
        tell(f"going on where an earlier run stopped ({folder})")
    passages = list(corpus)
    load = workers.load_average()
    left_out = _builds(journal, passages, folder, contenders, checkpoint, bare, tell)
    able = [c for c in contenders if c.name not in left_out]
    left_out |= _rounds(journal, questions, folder, able, checkpoint, tell)
    report = _report(journal, len(passages), questions, contenders)
    report = replace(
        report,
        left_out=left_out,
        machine={**workers.machine(), "load_before": load, "load_after": workers.load_average()},
    )
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def so_far(
    corpus: Sequence[Passage],
    questions: Sequence[BenchQuestion],
    work: Path,
    contenders: Sequence[Contender] = CONTENDERS,
) -> BenchReport:
    """What a run that was stopped has measured."""
    return _report(Journal(work / JOURNAL), len(corpus), questions, contenders)


class Journal:
    """Steps that are done, a line each; a line that a kill cut short doesn't count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, Any] = {}
        if path.is_file():
            whole = []
            for line in path.read_text("utf-8").splitlines():
                with suppress(ValueError):
                    self.lines.update(json.loads(line))
                    whole.append(line + "\n")
            path.write_text("".join(whole), "utf-8")

    def once(self, step: str, work: Callable[[], Any]) -> Any:
        """What the step gave, now or in an earlier run."""
        if step not in self.lines:
            self.lines[step] = asdict(work())
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({step: self.lines[step]}) + "\n")
        return self.lines[step]


def _builds(
    journal: Journal,
    passages: list[Passage],
    folder: Path,
    contenders: Sequence[Contender],
    checkpoint: str | None,
    bare: bool,
    tell: Say,
) -> dict[str, str]:
    """Build what isn't there yet; returns the contenders whose index can't be built, and why."""
    wanted = dict.fromkeys(c.index for c in contenders)
    if all(c.engine == "bm25" for c in contenders):
        if not (folder / "float16").is_dir():
            tell(f"indexing {len(passages):,} passages by their words")
            _apart(workers.build_words, passages, folder / "float16")
        return {}
    if "plaid" in wanted:
        wanted = dict.fromkeys(("float16", *wanted))
    if bare and "encoding" not in journal.lines:
        tell(f"encoding {len(passages):,} passages and nothing else")
        journal.once("encoding", lambda: _apart(workers.encode, passages, checkpoint))
    left_out: dict[str, str] = {}
    for index in (i for i in wanted if f"build {i}" not in journal.lines):
        out = folder / index
        tell(f"building the {index} index")
        if index != "plaid":
            _once_built(journal, index, workers.build, passages, out, index, checkpoint)
            continue
        built = BuildRow(**journal.lines["build float16"])
        try:
            _once_built(journal, index, workers.add_plaid, folder / "float16", out, built)
        except IndexFault as fault:
            left_out = {c.name: str(fault) for c in contenders if c.index == index}
    return left_out


def _once_built(
    journal: Journal, index: str, build: Callable[P, BuildRow], *args: P.args, **kwargs: P.kwargs
) -> None:
    journal.once(f"build {index}", lambda: _apart(build, *args, **kwargs))


def _rounds(
    journal: Journal,
    questions: Sequence[BenchQuestion],
    folder: Path,
    contenders: Sequence[Contender],
    checkpoint: str | None,
    tell: Say,
) -> dict[str, str]:
    """The rounds that are still to come, engine after engine within each; returns the contenders
    that can't be opened, and why."""
    groups = list(_groups(questions))
    left = [
        c for c in contenders if any(_step(c, i) not in journal.lines for i in range(len(groups)))
    ]
    left_out: dict[str, str] = {}
    with ExitStack() as stack:
        held: dict[str, ProcessPoolExecutor] = {}
        for contender in left:
            tell(f"opening {contender.name}")
            process = stack.enter_context(_process())
            try:
                _given(
                    process.submit(workers.hold, folder / contender.index, contender, checkpoint)
                )
                held[contender.name] = process
            except IndexFault as fault:
                left_out[contender.name] = str(fault)
        for i, group in enumerate(groups):
            tell(f"round {i + 1} of {len(groups)}")
            turn = i % max(1, len(left))
            for contender in (*left[turn:], *left[:turn]):
                if contender.name in held:
                    process = held[contender.name]
                    journal.once(_step(contender, i), partial(_measured, process, group))
    return left_out


def _measured(process: ProcessPoolExecutor, group: Sequence[BenchQuestion]) -> Round:
    return _given(process.submit(workers.measure, [q.query for q in group]))


def _step(contender: Contender, place: int) -> str:
    return f"round {contender.name} {place}"


def _groups(questions: Sequence[BenchQuestion]) -> Iterator[Sequence[BenchQuestion]]:
    return (questions[start : start + BATCH] for start in range(0, len(questions), BATCH))


def _report(
    journal: Journal,
    passages: int,
    questions: Sequence[BenchQuestion],
    contenders: Sequence[Contender],
) -> BenchReport:
    found = journal.lines
    bare = Cost(**found["encoding"]) if "encoding" in found else None
    builds = []
    for index in dict.fromkeys(("float16", *(c.index for c in contenders))):
        if f"build {index}" in found:
            row = BuildRow(**found[f"build {index}"])
            if bare is not None:
                row = replace(
                    row,
                    ratio=row.seconds / bare.seconds,
                    cpu_ratio=row.cpu_seconds / bare.cpu_seconds,
                )
            builds.append(row)
    rounds = {c.name: _done(journal, c, questions) for c in contenders}
    reference = rounds.get(REFERENCE, {})
    searches = [
        _row(c.name, rounds[c.name], reference, questions) for c in contenders if rounds[c.name]
    ]
    return BenchReport(passages, len(questions), bare, builds, searches)


def _done(
    journal: Journal, contender: Contender, questions: Sequence[BenchQuestion]
) -> dict[int, Round]:
    return {
        i: Round(**journal.lines[_step(contender, i)])
        for i, _ in enumerate(_groups(questions))
        if _step(contender, i) in journal.lines
    }


def _row(
    name: str,
    rounds: dict[int, Round],
    reference: dict[int, Round],
    questions: Sequence[BenchQuestion],
) -> SearchRow:
    groups = list(_groups(questions))
    asked = [q for i in rounds for q in groups[i]]
    single = [ids for r in rounds.values() for ids in r.single]
    batch = [ids for r in rounds.values() for ids in r.batch]
    shares = {
        k: np.array(
            [
                len(q.gold.intersection(s[:k])) / len(q.gold)
                for q, s in zip(asked, single, strict=True)
            ]
        )
        for k in DEPTHS
    }
    spread = float(shares[5].std(ddof=1)) if len(asked) > 1 else 0.0
    times = np.array([s for r in rounds.values() for s in r.single_seconds]) * 1000
    both = [i for i in rounds if i in reference] if name != REFERENCE else []
    return SearchRow(
        engine=name,
        questions=len(asked),
        recall={k: float(share.mean()) for k, share in shares.items()},
        recall_5_margin=1.96 * spread / len(asked) ** 0.5,
        all_support_5=float((shares[5] == 1).mean()),
        single_qps=_median(len(r.single) / sum(r.single_seconds) for r in rounds.values()),
        batch_qps=_median(len(r.batch) / r.batch_seconds for r in rounds.values()),
        p50_ms=float(np.percentile(times, 50)),
        p95_ms=float(np.percentile(times, 95)),
        differ=sum(a != b for a, b in zip(single, batch, strict=True)),
        peak_mb=max(r.peak_mb for r in rounds.values()),
        single_speedup=_median(
            sum(reference[i].single_seconds) / sum(rounds[i].single_seconds) for i in both
        )
        if both
        else None,
        batch_speedup=_median(reference[i].batch_seconds / rounds[i].batch_seconds for i in both)
        if both
        else None,
    )


def _median(values: Any) -> float:
    return float(np.median(list(values)))


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=workers.end_with_parent
    )


def _apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call in a fresh process."""
    with _process() as process:
        return _given(process.submit(function, *args, **kwargs))


def _given(future: Future[T]) -> T:
    """Its result; raises ``BenchFault`` when its process died."""
    try:
        return future.result()
    except BrokenProcessPool as fault:
        raise BenchFault(
            "a process of the bench was killed, perhaps for memory: free some, and the same "
            "command goes on where it stopped (--engines leaves engines out)"
        ) from fault
