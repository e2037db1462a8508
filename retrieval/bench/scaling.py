"""How an engine's costs and recall grow with the corpus: reports of several sizes beside each
other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from retrieval.bench.records import BenchReport, Contender, SearchRow

GROWING = (Contender("two-stage"), Contender("two-stage", "pq"), Contender("bm25"))
COLOURS = ("#1f5fa8", "#c2571a", "#5a8a3a", "#7a4a9c", "#8a8a8a", "#b0338a", "#2a8a8a", "#a8881f")


def growth_table(reports: Sequence[BenchReport]) -> str:
    """A line for each size and engine."""
    lines = [
        f"{'passages':>9}  {'engine':<13}{'R@5':>7}{'±':>7}{'p50 ms':>8}{'p95 ms':>8}{'q/s':>8}"
        f"{'build s':>9}{'passages/s':>12}{'kB each':>9}{'build MB':>10}{'search MB':>11}"
    ]
    for report in reports:
        builds = {b.index: b for b in report.builds}
        for s in report.searches:
            line = (
                f"{report.passages:>9,}  {s.engine:<13}{s.recall[5]:>7.3f}"
                f"{s.recall_5_margin:>7.3f}{s.p50_ms:>8.1f}{s.p95_ms:>8.1f}{s.single_qps:>8.1f}"
            )
            built = builds.get(_index(report, s))
            if built is not None:
                line += (
                    f"{built.seconds:>9.1f}{report.passages / built.seconds:>12.1f}"
                    f"{built.bytes_per_passage / 1000:>9.1f}{built.peak_mb:>10,.0f}"
                )
            else:
                line += " " * 40
            lines.append(f"{line}{s.peak_mb:>11,.0f}")
    return "\n".join(lines)


def drawn(reports: Sequence[BenchReport], path: Path) -> None:
    """A PNG of recall, latency, build time and memory by the number of passages."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2).flat
    names = list(dict.fromkeys(s.engine for r in reports for s in r.searches))
    for axes, (title, value, low) in zip(panels, _MEASURES, strict=True):
        for name, colour in zip(names, COLOURS, strict=False):
            points = [
                (r.passages, found)
                for r in reports
                for s in r.searches
                if s.engine == name and (found := value(r, s)) is not None
            ]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
        axes.set_xscale("log")
        if low is None:
            axes.set_yscale("log")
        else:
            axes.set_ylim(low, 1.03)
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("passages")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        if axes.lines:
            axes.legend(frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _index(report: BenchReport, row: SearchRow) -> str:
    """The index whose cost counts for an engine: BM25 alone has none here."""
    if row.engine in ("plaid", "colbert-ai"):
        return "plaid"
    if row.engine == "bm25":
        return ""
    if row.engine == "dense":
        return next((b.index for b in report.builds if b.index != "plaid"), "")
    return "pq" if row.engine.endswith("-pq") else "float16"


def _seconds(report: BenchReport, row: SearchRow) -> float | None:
    return next((b.seconds for b in report.builds if b.index == _index(report, row)), None)


_MEASURES: tuple[tuple[str, Callable[[BenchReport, SearchRow], Any], float | None], ...] = (
    ("recall@5 of the gold passage", lambda r, s: s.recall[5], 0.0),
    ("milliseconds a query (median, one by one)", lambda r, s: s.p50_ms, None),
    ("seconds to build", _seconds, None),
    ("peak memory of a search, MB", lambda r, s: s.peak_mb, None),
)
