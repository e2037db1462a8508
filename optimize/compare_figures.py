"""Plots of a comparison, in matplotlib: quality against cost, and quality by number of hops."""

from __future__ import annotations

import io
from typing import Any

from metrics import Interval
from optimize.compare import Comparison

COLOURS = ("#1f5fa8", "#c2571a", "#2d8a4e", "#8a3fa0", "#b0273c", "#6b6b6b", "#0f8b8d", "#b8860b")
MARKS = "osD^vPX*"


def pareto(comparison: Comparison) -> Any:
    """F1 against LM calls with intervals, the Pareto front joined; None where fewer than two runs
    say what they called."""
    points: list[tuple[float, Interval, str, int]] = []
    for place, entry in enumerate(comparison.entries):
        asked, answered = entry.cells["lm_calls"].value, entry.cells["f1"].value
        if asked is not None and answered is not None:
            points.append((asked.value, answered, entry.label, place))
    if len(points) < 2:
        return None
    figure, axes = _figure(1)
    for calls, f1, label, place in points:
        _point(axes[0], calls, f1, place, label)
    front = _front([(calls, f1.value) for calls, f1, *_ in points])
    axes[0].plot(*zip(*front, strict=True), color="#888888", lw=1, zorder=1, label="Pareto front")
    axes[0].set_xlim(left=0)
    axes[0].set_xlabel("LM calls a question")
    axes[0].set_ylabel("F1 (95 % interval)")
    _finish(axes)
    axes[0].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no other one has at least the F1 of with fewer calls, by calls."""
    front: list[tuple[float, float]] = []
    for calls, f1 in sorted(points, key=lambda p: (p[0], -p[1])):
        if not front or f1 > front[-1][1]:
            front.append((calls, f1))
    return front


def by_hops(comparison: Comparison) -> Any:
    """F1 and recall by number of gold hops, with intervals; None where there is one number only."""
    names = ("f1", f"support_recall@{comparison.k}")
    groups = list(dict.fromkeys(g for e in comparison.entries for g in e.by["hops"]))
    if len(groups) < 2:
        return None
    figure, axes = _figure(2)
    width = 0.6 / max(1, len(comparison.entries))
    for panel, name in zip(axes, names, strict=True):
        for place, entry in enumerate(comparison.entries):
            shift = (place - (len(comparison.entries) - 1) / 2) * width
            told = [
                (x + shift, entry.by["hops"][group][name])
                for x, group in enumerate(groups)
                if name in entry.by["hops"].get(group, {})
            ]
            for x, found in told:
                _point(panel, x, found, place, entry.label if x == told[0][0] else None)
            if told:
                panel.plot(
                    [x for x, _ in told],
                    [found.value for _, found in told],
                    color=_colour(place),
                    lw=0.8,
                    alpha=0.5,
                )
        panel.set_xticks(range(len(groups)), groups)
        panel.set_xlabel("gold hops")
        panel.set_ylabel("F1" if name == "f1" else name.replace("_", " "))
    _finish(axes)
    axes[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def png(figure: Any) -> bytes:
    """For files and MLflow."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120, bbox_inches="tight")
    return out.getvalue()


def svg(figure: Any) -> str:
    """For pages: an ``<svg>`` element whose lines and text take the page's own colour, so that it
    reads in light and in dark."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hopsmith"}):
        figure.savefig(
            out,
            format="svg",
            bbox_inches="tight",
            transparent=True,
            metadata={"Date": None, "Creator": None},
        )
    text = out.getvalue()
    return text[text.index("<svg") :].replace("#000000", "currentColor")


def _point(axes: Any, x: float, found: Interval, place: int, label: str | None) -> None:
    axes.errorbar(
        [x],
        [found.value],
        yerr=[[max(0.0, found.value - found.low)], [max(0.0, found.high - found.value)]],
        fmt=MARKS[place % len(MARKS)],
        color=_colour(place),
        ms=5,
        lw=1,
        capsize=2,
        label=label,
        zorder=3,
    )


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _figure(panels: int) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * panels + 1.2, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, panels, squeeze=False)[0]


def _finish(axes: Any) -> None:
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
        panel.set_ylim(-0.03, 1.03)
