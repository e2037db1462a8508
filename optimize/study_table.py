"""A study's results beside the paper's numbers: as values, Markdown, and the step study's plot."""

from __future__ import annotations

import statistics as st
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.statistics import Statistics
from metrics import metric
from optimize.errors import RunError
from optimize.saved import SavedRun
from optimize.studies import Study
from optimize.trigger_report import cases_of, trigger_report


@dataclass(frozen=True)
class Result:
    """One number of ours."""

    lm: str
    column: str
    method: str
    benchmark: str
    metric: str
    value: float
    low: float | None = None
    """Of the 95 % interval over questions."""
    high: float | None = None
    n: int = 0


COUNTS = ("questions", "passages")
"""Metrics that are whole numbers."""


def of_run(
    run: SavedRun, names: Sequence[str], lm: str, column: str, method: str, benchmark: str
) -> list[Result]:
    """The metrics that apply to a run, with intervals."""
    known = [n for n in names if run.applies(metric(n))]
    found = []
    for name, s in run.metrics(known, known).items():
        if s.value is not None:
            low, high = s.interval or (None, None)
            found.append(Result(lm, column, method, benchmark, name, s.value, low, high, s.n))
    return found


def of_trigger(
    run: SavedRun, exclude: Collection[str], lm: str, column: str, method: str, benchmark: str
) -> list[Result]:
    """The trigger's diagnostics; none where no question is left."""
    ids = set(exclude) & {q.id for q in run.questions}
    try:
        report = trigger_report(cases_of(run, ids), len(ids))
    except RunError:
        return []
    return [
        Result(lm, column, method, benchmark, name, v.value, v.low, v.high, v.n)
        for name, v in report.measures.items()
        if v is not None
    ]


def of_statistics(found: Statistics, benchmark: str) -> list[Result]:
    """PAR²-RAG's Table 5."""
    values = {
        "questions": float(found.queries),
        "passages": float(found.docs),
        "mean_words": found.average_words,
    }
    return [Result("", "", "", benchmark, name, v, n=found.queries) for name, v in values.items()]


def averages(study: Study, results: Sequence[Result]) -> list[Result]:
    """Means over the benchmarks, of methods that ran on all that any method ran on."""
    every = {r.benchmark for r in results}
    if len(every) < 2:
        return []
    groups: dict[tuple[str, str, str, str], dict[str, Result]] = {}
    for r in results:
        groups.setdefault((r.lm, r.column, r.method, r.metric), {})[r.benchmark] = r
    return [
        Result(
            lm, column, method, "average", name, st.fmean(r.value for r in found.values()),
            n=sum(r.n for r in found.values()),
        )
        for (lm, column, method, name), found in groups.items()
        if set(found) == every
    ]  # fmt: skip


def paper(study: Study, result: Result) -> float | None:
    """The paper's number for one of ours. Its average is over all of the study's benchmarks."""
    return study.numbers.get((result.column, result.method, result.benchmark, result.metric))


@dataclass(frozen=True)
class StudyTable:
    """One LM in one column: metrics and methods by benchmarks."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", "| " + " | ".join(self.head) + " |"]
        lines.append("|" + "---|" * len(self.head))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def tables(study: Study, results: Sequence[Result]) -> Iterator[StudyTable]:
    """Ours with its interval, and the paper's number behind a slash."""
    everything = [*results, *averages(study, results)]
    for lm, column in dict.fromkeys((r.lm, r.column) for r in everything):
        here = {
            (r.metric, r.method, r.benchmark): r
            for r in everything
            if (r.lm, r.column) == (lm, column)
        }
        places = [p for p in (*study.benchmarks, "average") if any(k[2] == p for k in here)]
        lines = dict.fromkeys(
            (name, method)
            for name in dict.fromkeys(k[0] for k in here)
            for method in (*study.methods, "")
            if any(k[:2] == (name, method) for k in here)
        )
        yield StudyTable(
            ", ".join(filter(None, (study.title, column, f"LM {lm}" if lm else ""))),
            ("metric", "method", *places),
            tuple(
                (name, method, *(_cell(study, here.get((name, method, p))) for p in places))
                for name, method in lines
            ),
        )


def _cell(study: Study, result: Result | None) -> str:
    if result is None:
        return "–"
    theirs = paper(study, result)
    if result.metric in COUNTS:
        return f"{result.value:,.0f}" + (f" / {theirs:,.0f}" if theirs is not None else "")
    ours = _number(result.value)
    if result.low is not None and result.high is not None:
        ours += f" [{_number(result.low)}, {_number(result.high)}]"
    return ours if theirs is None else f"{ours} / {_number(theirs)}"


def _number(value: float) -> str:
    if 0 < abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def spread(study: Study, results: Sequence[Result], name: str) -> dict[str, tuple[float, float]]:
    """By method, mean and standard deviation of a metric over a step study's columns, each the
    mean over the benchmarks."""
    found: dict[str, tuple[float, float]] = {}
    for method in study.methods:
        by_column = [
            st.fmean(values)
            for column in study.columns
            if (
                values := [
                    r.value
                    for r in results
                    if (r.method, r.column, r.metric) == (method, column.name, name)
                ]
            )
        ]
        if by_column:
            deviation = st.stdev(by_column) if len(by_column) > 1 else 0.0
            found[method] = (st.fmean(by_column), deviation)
    return found


RATIOS = ("lm_calls", "prompt_tokens", "completion_tokens", "seconds", "cost")


def ratios(study: Study, results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """A cost profile against the study's baseline: each method's figure over the baseline's, means
    over the benchmarks."""
    means: dict[str, dict[str, float]] = {}
    for method in study.methods:
        for name in RATIOS:
            values = [r.value for r in results if (r.method, r.metric) == (method, name)]
            if values:
                means.setdefault(method, {})[name] = st.fmean(values)
    base = means.get(study.baseline, {})
    return {
        method: {n: v / base[n] for n, v in found.items() if base.get(n)}
        for method, found in means.items()
        if method != study.baseline
    }


def figure(study: Study, results: Sequence[Result], name: str) -> Any:
    """A step study: one panel a benchmark, a line a method, with intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    places = [b for b in study.benchmarks if any(r.benchmark == b for r in results)]
    drawn, panels = plt.subplots(
        1, len(places), figsize=(3.6 * len(places), 3.4), sharey=True, squeeze=False
    )
    for axes, place in zip(panels[0], places, strict=True):
        for method in study.methods:
            points = [
                (int(r.column.split()[0]), r.value, r.low, r.high)
                for r in results
                if (r.benchmark, r.method, r.metric) == (place, method, name)
            ]
            if not points:
                continue
            points.sort()
            steps, values = [p[0] for p in points], [p[1] for p in points]
            below = [max(0.0, p[1] - (p[1] if p[2] is None else p[2])) for p in points]
            above = [max(0.0, (p[1] if p[3] is None else p[3]) - p[1]) for p in points]
            axes.errorbar(
                steps, values, yerr=[below, above], marker="o", capsize=2, label=method, alpha=0.85
            )
        axes.set_title(place, fontsize=10)
        axes.set_xlabel("steps or sub-queries")
        axes.set_xticks([int(c.name.split()[0]) for c in study.columns])
        axes.set_ylim(-0.03, 1.03)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel(name)
    panels[0][-1].legend(frameon=False, fontsize=8)
    drawn.tight_layout()
    return drawn


def to_json(study: Study, results: Sequence[Result]) -> list[dict[str, Any]]:
    """Each number of ours with the paper's."""
    everything = [*results, *averages(study, results)]
    return [{**asdict(r), "paper": paper(study, r)} for r in everything]
