"""Compare: several runs on the same questions, each against a named baseline.

Differences are paired by question (10,000 bootstrap resamples, seeded) with 95 % intervals; p is
corrected by Holm over the runs, metric by metric. Every metric comes with the difference that this
number of questions would show. Runs on other questions, under another answer rule or under other
metric definitions are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from metrics import (
    DEFINITION_VERSION,
    GROUPINGS,
    Difference,
    Grouping,
    Interval,
    Metric,
    SignificanceError,
    attribution_table,
    compare,
    grouped,
    holm,
    interval,
    mean_interval,
    metric,
    paired,
    recall_at_equal_passages,
)
from metrics.record import Record
from metrics.significance import RESAMPLES
from optimize.errors import CompareError
from optimize.routes import collapse_advice
from optimize.saved import SavedRun
from programs import Account

EQUAL = "support_recall@equal"
"""Recall when every run is cut at the fewest passages that any of them read for the question."""
EQUAL_DEFINITION = (
    "share of gold passages among the first distinct ones in the order of reading, each question "
    "cut at the fewest that any of the runs read for it"
)
COST = (
    "lm_calls",
    "prompt_tokens",
    "completion_tokens",
    "passages_read",
    "latency_p50",
    "cost",
    "errors",
)


def quality(k: int = 5) -> tuple[str, ...]:
    """Metrics of quality that a comparison shows, ranking metrics at ``k``."""
    return ("em", "f1", f"support_recall@{k}", EQUAL, f"all_support@{k}", "hop_recall")


def grouped_names(k: int = 5) -> tuple[str, ...]:
    """Metrics that are also shown by groups of questions."""
    return ("f1", f"support_recall@{k}", "hop_recall")


def definition(name: str) -> str:
    """What a column means."""
    return EQUAL_DEFINITION if name == EQUAL else metric(name).definition


@dataclass(frozen=True)
class Cell:
    """One metric of one run."""

    value: Interval | None
    """None where the metric applies to no question, or the run doesn't say what it needs."""
    difference: Difference | None = None
    """To the baseline; None for the baseline itself."""
    p: float | None = None
    """Of the difference, after Holm's correction over the runs."""


@dataclass(frozen=True)
class Entry:
    """One run in a comparison."""

    label: str
    run: SavedRun
    cells: Mapping[str, Cell]
    by: Mapping[Grouping, Mapping[str, Mapping[str, Interval]]]
    """Grouping → group → metric, where it applies."""
    broken: Mapping[str, Mapping[str, int]]
    """``metrics.attribution_table`` by hops."""

    @property
    def account(self) -> Account:
        """What the whole run cost."""
        return self.run.ledger.total


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    entries: tuple[Entry, ...]
    baseline: str
    names: tuple[str, ...]
    """Metrics, in the order of columns."""
    k: int
    seed: int
    resamples: int
    warnings: tuple[str, ...]

    @property
    def first(self) -> SavedRun:
        """Any run: questions, benchmark and split are those of all."""
        return self.entries[0].run

    @property
    def n(self) -> int:
        return len(self.first.questions)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        about = self.first.header
        return {
            "benchmark": about.benchmark,
            "split": about.split,
            "n": self.n,
            "questions_hash": about.questions_hash,
            "baseline": self.baseline,
            "k": self.k,
            "seed": self.seed,
            "resamples": self.resamples,
            "warnings": list(self.warnings),
            "definitions": {name: definition(name) for name in self.names},
            "runs": [_entry_json(entry) for entry in self.entries],
        }


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "label": entry.label,
        "run": str(entry.run.folder),
        "method": entry.run.header.method,
        "lm": entry.run.lm,
        "ceiling": entry.run.header.ceiling,
        "fingerprint": entry.run.header.fingerprint,
        "metrics": {n: c.value and c.value.value for n, c in entry.cells.items()},
        "intervals": {n: [c.value.low, c.value.high] for n, c in entry.cells.items() if c.value},
        "difference": {
            n: {**asdict(c.difference), "p_holm": c.p}
            for n, c in entry.cells.items()
            if c.difference
        },
        "by": {
            by: {g: {n: asdict(v) for n, v in values.items()} for g, values in groups.items()}
            for by, groups in entry.by.items()
        },
        "broken": entry.broken,
        "usage": entry.account.to_json(),
    }


def compare_runs(
    runs: Sequence[SavedRun],
    *,
    baseline: str | None = None,
    k: int = 5,
    more: Sequence[str] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """All runs against ``baseline`` (a label, method or folder; the first run without one).

    ``more`` names metrics besides those of ``quality`` and ``COST``. Raises ``CompareError``,
    ``MetricError``.
    """
    check_comparable(runs)
    labels = labels_of(runs)
    base = _place(baseline, runs, labels)
    order = sorted(q.id for q in runs[0].questions)
    sorted_records = [_in_order(run, order) for run in runs]
    asked = tuple(dict.fromkeys((*quality(k), *more, *COST)))
    names = tuple(n if n == EQUAL else metric(n).name for n in asked)
    options = {"resamples": resamples, "seed": seed}
    columns = {n: _column(n, runs, sorted_records, base, options) for n in names}
    shown = grouped_names(k)
    entries = tuple(
        Entry(
            label,
            run,
            {n: columns[n][place] for n in names},
            {by: _by(by, run, records, shown, options) for by in GROUPINGS},
            attribution_table(records),
        )
        for place, (label, run, records) in enumerate(
            zip(labels, runs, sorted_records, strict=True)
        )
    )
    return Comparison(entries, labels[base], names, k, seed, resamples, tuple(_warnings(runs)))


def check_comparable(runs: Sequence[SavedRun]) -> None:
    """Raise ``CompareError`` that says which runs don't fit together, why, and what to do."""
    if len(runs) < 2:
        raise CompareError("a comparison needs two runs at least")
    folders = [run.folder.resolve() for run in runs]
    for place, run in enumerate(runs):
        if folders[place] in folders[:place]:
            raise CompareError(f"{run.folder} is named twice")
        if run.left:
            raise CompareError(
                f"{run.folder} has {run.left} of {len(run.questions)} questions still to ask: "
                "start its eval again, it goes on where it stopped"
            )
        if run.header.definitions != DEFINITION_VERSION:
            raise CompareError(
                f"{run.folder} was measured under metric definitions {run.header.definitions}, "
                f"this version has {DEFINITION_VERSION}: start its eval again (nothing is asked "
                "anew, only scored)"
            )
    first = runs[0]
    for run in runs[1:]:
        if run.header.questions_hash != first.header.questions_hash:
            raise CompareError(_other_questions(first, run))
        if run.header.answer_rule != first.header.answer_rule:
            raise CompareError(
                f"{first.folder} is scored by the rule {first.header.answer_rule}, {run.folder} "
                f"by {run.header.answer_rule}: their EM and F1 mean different things"
            )


def _other_questions(one: SavedRun, other: SavedRun) -> str:
    ours, theirs = {q.id for q in one.questions}, {q.id for q in other.questions}
    told = f"{len(ours & theirs)} are in both"
    if ours == theirs:
        told = "the same ids with another text or gold"
    return (
        f"{one.folder} and {other.folder} were asked different questions "
        f"({len(ours)}, hash {one.header.questions_hash}, and {len(theirs)}, hash "
        f"{other.header.questions_hash}; {told}): run both with the same --benchmark, --data, "
        "--split, --limit and --seed"
    )


def _warnings(runs: Sequence[SavedRun]) -> list[str]:
    found = []
    corpora = {run.header.corpus_hash for run in runs if run.engine != "golden"} - {None}
    if len(corpora) > 1:
        found.append("the runs searched different corpora: what could be found is not the same")
    if len({run.header.ceiling for run in runs}) > 1:
        found.append(
            "ceilings (the oracle answered from the gold chain) stand beside results of LMs"
        )
    for run in runs:
        failed = sum(row.stop_reason == "error" for row in run.rows.values())
        if failed:
            found.append(
                f"{failed} of {len(run.questions)} questions failed in {run.folder}; they count "
                "as wrong"
            )
        advice = collapse_advice(list(run.rows.values()))
        if advice:
            found.append(f"{run.folder}: {advice}")
    return found


def labels_of(runs: Sequence[SavedRun]) -> list[str]:
    """Names that tell the runs apart: the method; the LM where there are several; the folder where
    that isn't enough."""
    several = len({run.lm for run in runs if run.lm}) > 1
    forms = [
        lambda r: _with_lm(r) if several else r.header.method,
        _with_lm,
        lambda r: f"{r.header.method} · {r.folder.name}",
        lambda r: f"{r.header.method} · {r.folder}",
    ]
    labels = [""] * len(runs)
    open_places = list(range(len(runs)))
    for form in forms:
        told = {place: form(runs[place]) for place in open_places}
        said = list(told.values())
        for place, label in told.items():
            labels[place] = label
        open_places = [p for p in open_places if said.count(told[p]) > 1]
    return labels


def _with_lm(run: SavedRun) -> str:
    if not run.lm:
        return run.header.method
    return f"{run.header.method} · {run.lm.rpartition('/')[2]}"


def _place(baseline: str | None, runs: Sequence[SavedRun], labels: Sequence[str]) -> int:
    if baseline is None:
        return 0
    for told in (
        labels,
        [r.header.method for r in runs],
        [str(r.folder) for r in runs],
        [r.folder.name for r in runs],
    ):
        if list(told).count(baseline.rstrip("/")) == 1:
            return list(told).index(baseline.rstrip("/"))
    raise CompareError(f"no one run is called {baseline!r}; there are {', '.join(labels)}")


def _in_order(run: SavedRun, order: Sequence[str]) -> list[Record]:
    known = {record.id: record for record in run.records}
    return [known[identifier] for identifier in order]


def _column(
    name: str,
    runs: Sequence[SavedRun],
    records: Sequence[Sequence[Record]],
    base: int,
    options: Mapping[str, Any],
) -> list[Cell]:
    """One metric of every run, p corrected over them."""
    if name == EQUAL:
        cells = _equal_cells(records, base, options)
    else:
        known = [run.applies(metric(name)) for run in runs]
        cells = _metric_cells(metric(name), known, records, base, options)
    compared = {p: cell.difference.p for p, cell in enumerate(cells) if cell.difference}
    corrected = dict(zip(compared, holm(list(compared.values())), strict=True))
    return [replace(cell, p=corrected.get(place)) for place, cell in enumerate(cells)]


def _metric_cells(
    measure: Metric,
    known: Sequence[bool],
    records: Sequence[Sequence[Record]],
    base: int,
    options: Mapping[str, Any],
) -> list[Cell]:
    cells = []
    for place, mine in enumerate(records):
        value = gap = None
        with suppress(SignificanceError):
            value = interval(measure, mine, **options) if known[place] else None
            if value is not None and place != base and known[base]:
                gap = compare(measure, records[base], mine, **options)
        cells.append(Cell(value, gap))
    return cells


def _equal_cells(
    records: Sequence[Sequence[Record]], base: int, options: Mapping[str, Any]
) -> list[Cell]:
    """Runs that read nothing at all (closed book) or don't say what they read stay out of the
    cut, which would be at no passage."""
    cells = [Cell(None)] * len(records)
    readers = [p for p, run in enumerate(records) if any(r.ranked and r.supporting for r in run)]
    if len(readers) < 2:
        return cells
    cut = recall_at_equal_passages([records[p] for p in readers])
    scores = dict(zip(readers, cut, strict=True))
    for place, values in scores.items():
        told = [value for value in values if value is not None]
        against = scores.get(base) if place != base else None
        gap = None if against is None else paired(against, values, **options)
        cells[place] = Cell(mean_interval(told, **options), gap)
    return cells


def _by(
    by: Grouping,
    run: SavedRun,
    records: Sequence[Record],
    names: Sequence[str],
    options: Mapping[str, Any],
) -> dict[str, dict[str, Interval]]:
    found: dict[str, dict[str, Interval]] = {}
    for group, members in grouped(records, by).items():
        found[group] = {}
        for name in names:
            measure = metric(name)
            if any(measure.score(r) is not None for r in members) and run.applies(measure):
                found[group][name] = interval(measure, members, **options)
    return found
