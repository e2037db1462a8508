"""How results look on a terminal: hop trees and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from metrics import DEFAULT, attribution_table
from optimize.estimate import RunEstimate
from optimize.routes import route_line
from optimize.rows import HopRow
from optimize.saved import SavedRun
from optimize.tables import Table as Cells
from optimize.tables import broken_table, ledger_table, number
from retrieval import Passage

REPORT = "report.html"
out = Console(soft_wrap=True)


def print_json(value: object) -> None:
    """Exactly one JSON object on stdout."""
    print(json.dumps(value, ensure_ascii=False, default=str))


def passage_json(passage: Passage) -> dict[str, Any]:
    """A passage as JSON values; ``metadata`` where it has any."""
    row = {"id": passage.id, "title": passage.title, "text": passage.text}
    return {**row, "metadata": dict(passage.metadata)} if passage.metadata else row


def hop_tree(
    question: str, hops: Sequence[HopRow], titles: Mapping[str, str], answer: str | None, stop: str
) -> Tree:
    """query → passages → answer, each hop below the one that led to it."""
    tree = Tree(f"[bold]{escape(question)}[/bold]")
    nodes: dict[int, Tree] = {}
    for hop in hops:
        parent = nodes.get(hop.parent, tree) if hop.parent is not None else tree
        found = f"[green]{escape(hop.answer)}[/green]" if hop.answer else f"[dim]{hop.status}[/dim]"
        origin = " [dim]· graph[/dim]" if hop.source == "graph" else ""
        node = parent.add(f"{escape(hop.refined)} → {found}{origin}")
        if hop.refined != hop.query:
            node.add(f"[dim]asked as: {escape(hop.query)}[/dim]")
        shown = ", ".join(escape(titles.get(p) or p) for p in hop.passages)
        if shown:
            node.add(f"[dim]read: {shown}[/dim]")
        if hop.note:
            node.add(f"[dim]{escape(hop.note)}[/dim]")
        if hop.error:
            node.add(f"[red]{escape(hop.error)}[/red]")
        nodes[hop.id] = node
    tree.add(f"[bold]answer: {escape(answer or '(none)')}[/bold]  [dim]{stop}[/dim]")
    return tree


def metric_table(rows: Mapping[str, Mapping[str, Any]], title: str = "") -> Table:
    """Metrics down, runs across."""
    table = Table(title=title or None, title_justify="left")
    table.add_column("metric")
    for name in rows:
        table.add_column(name, justify="right")
    names = list(dict.fromkeys(m for values in rows.values() for m in values))
    for name in names:
        cells = [number(values.get(name)) for values in rows.values()]
        if any(cells):
            table.add_row(name, *cells)
    return table


def print_table(cells: Cells) -> None:
    """A table with its note below."""
    table = Table(title=escape(cells.title), title_justify="left")
    for place, column in enumerate(cells.columns):
        words = place == 0 or column in cells.words
        whole = place == 0 and all(len(row[0]) <= 24 for row in cells.rows)
        justify: Literal["left", "right"] = "left" if words else "right"
        table.add_column(escape(column), justify=justify, overflow="fold", no_wrap=whole)
    for row in cells.rows:
        table.add_row(*map(escape, row))
    out.print(table)
    if cells.note:
        out.print(f"[dim]{escape(cells.note)}[/dim]", highlight=False)


def print_run(run: SavedRun, stopped: str | None = None, advice: Sequence[str] = ()) -> None:
    """A run's numbers, where its chains broke, what it took, and what to do about it."""
    about = run.header
    label = f"{about.method} (ceiling)" if about.ceiling else about.method
    values = {name: s.value for name, s in run.metrics(DEFAULT).items()}
    title = f"{about.benchmark} {about.split}, n={len(run.rows)}, questions {about.questions_hash}"
    out.print(metric_table({label: values}, title))
    print_table(broken_table({label: attribution_table(run.records)}).unnamed)
    routes = route_line(list(run.rows.values()))
    if routes is not None:
        out.print(routes, highlight=False)
    if run.lm:
        print_table(ledger_table({label: run.ledger.by_role}).unnamed)
    for line in advice:
        out.print(line, highlight=False)
    if stopped:
        print(
            f"{stopped} is reached: {len(run.rows)} of {len(run.questions)} questions are "
            "answered and kept; the same command with a higher limit goes on",
            file=sys.stderr,
        )
    out.print(f"[dim]{run.folder}; its questions: {run.folder / REPORT}[/dim]", highlight=False)


def print_estimate(estimates: Mapping[str, RunEstimate]) -> None:
    """What is still to come, method by method and in all."""
    rows = []
    for label, e in estimates.items():
        rows.append((label, f"{e.questions:,}", f"{e.sample}", *_estimated(e)))
    if len(estimates) > 1:
        every = list(estimates.values())
        money = [e.cost for e in every]
        total = RunEstimate(
            sum(e.questions for e in every),
            sum(e.sample for e in every),
            sum(e.lm_calls for e in every),
            sum(e.prompt_tokens for e in every),
            sum(e.completion_tokens for e in every),
            None if None in money else sum(m for m in money if m is not None),
            sum(e.seconds for e in every),
            max(e.most_calls for e in every),
        )
        rows.append(("all", f"{total.questions:,}", f"{total.sample}", *_estimated(total)))
    columns = ("run", "to ask", "asked", "LM calls", "tokens read", "tokens written", "money")
    note = (
        "An estimate by the mean of the questions asked, as if nothing were cached. Their answers "
        "are kept: the run goes on from them."
    )
    print_table(Cells("Still to come", (*columns, "time"), tuple(rows), note))


def _estimated(e: RunEstimate) -> tuple[str, ...]:
    return (
        f"{e.lm_calls:,.0f}",
        f"{e.prompt_tokens:,.0f}",
        f"{e.completion_tokens:,.0f}",
        "unknown (--price)" if e.cost is None else f"${e.cost:,.2f}",
        duration(e.seconds),
    )


def duration(seconds: float) -> str:
    """In the unit that reads best."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


__all__ = [
    "REPORT",
    "duration",
    "hop_tree",
    "metric_table",
    "number",
    "out",
    "print_estimate",
    "print_json",
    "print_run",
    "print_table",
]
