"""Plots of a budget study, in matplotlib."""

from __future__ import annotations

from typing import Any

from optimize.budgets import BudgetChoice, TrialRow


def history(choice: BudgetChoice) -> Any:
    """F1 and hop recall by trial: the default first, the chosen one ringed, dropped ones hollow."""
    figure, axes = _figure()
    rows = [r for r in choice.rows if r.values]
    for name, colour in (("f1", "#1f5fa8"), ("hop_recall", "#c2571a")):
        best, top = [], float("-inf")
        for row in rows:
            if row.state == "complete":
                top = max(top, row.values[name])
            best.append(top if top > float("-inf") else None)
        axes.step([r.number for r in rows], best, where="post", color=colour, alpha=0.5)
        _dots(axes, rows, lambda r, name=name: (r.number, r.values[name]), colour, _label(name))
    _ring(axes, choice, lambda r: (r.number, r.values["f1"]))
    axes.set_xlabel("trial (0 is the default budget)")
    axes.set_ylabel("mean on dev")
    axes.set_ylim(-0.03, 1.03)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    axes.set_title("Budget study: best so far (line) and each trial (dot)", fontsize=11)
    return figure


def importances(choice: BudgetChoice) -> Any:
    """Share of each objective's variance that each knob explains."""
    figure, axes = _figure()
    knobs = sorted({k for found in choice.importances.values() for k in found}, reverse=True)
    height = 0.8 / max(1, len(choice.importances))
    colours = ("#1f5fa8", "#c2571a", "#3a7d44")
    for n, (name, found) in enumerate(choice.importances.items()):
        places = [i + n * height for i in range(len(knobs))]
        axes.barh(
            places,
            [found.get(knob, 0.0) for knob in knobs],
            height,
            label=_label(name),
            color=colours[n % len(colours)],
        )
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(knobs))], knobs)
    axes.set_xlabel("share of the variance explained")
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    axes.set_title("Budget study: what each knob matters", fontsize=11)
    return figure


def pareto(choice: BudgetChoice) -> Any:
    """F1 against LM calls: the front joined, the default and the chosen trial named."""
    figure, axes = _figure()
    rows = [r for r in choice.rows if r.values]
    _dots(axes, rows, lambda r: (r.values["lm_calls"], r.values["f1"]), "#1f5fa8", "trial")
    front = sorted((r.values["lm_calls"], r.values["f1"]) for r in rows if r.number in choice.front)
    if front:
        axes.plot(*zip(*front, strict=True), color="#1f5fa8", alpha=0.4, label="front")
    for row in rows:
        if row.number == 0:
            axes.annotate(
                "default",
                (row.values["lm_calls"], row.values["f1"]),
                xytext=(6, -12),
                textcoords="offset points",
                fontsize=9,
            )
    _ring(axes, choice, lambda r: (r.values["lm_calls"], r.values["f1"]))
    axes.set_xlabel("LM calls a question")
    axes.set_ylabel("F1 on dev")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    axes.set_title("Quality against cost", fontsize=11)
    return figure


def _figure() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def _dots(axes: Any, rows: list[TrialRow], place: Any, colour: str, label: str) -> None:
    whole = [place(r) for r in rows if r.state == "complete"]
    dropped = [place(r) for r in rows if r.state == "pruned"]
    if whole:
        axes.scatter(*zip(*whole, strict=True), color=colour, s=28, label=label, zorder=3)
    if dropped:
        axes.scatter(
            *zip(*dropped, strict=True),
            facecolors="none",
            edgecolors=colour,
            s=28,
            label=f"{label}, dropped early",
            zorder=3,
        )


def _ring(axes: Any, choice: BudgetChoice, place: Any) -> None:
    for row in choice.rows:
        if row.number == choice.trial and row.values:
            x, y = place(row)
            axes.scatter(
                [x], [y], s=150, facecolors="none", edgecolors="black", label="chosen", zorder=4
            )


def _label(name: str) -> str:
    return {"f1": "F1", "hop_recall": "hop recall", "lm_calls": "LM calls"}.get(name, name)
