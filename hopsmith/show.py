"""How results look on a terminal: hop trees and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from optimize.rows import HopRow
from retrieval import Passage

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
        node = parent.add(f"{escape(hop.refined)} → {found}")
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


def number(value: Any) -> str:
    """Three digits behind the point for shares, one for large numbers; empty for N/A."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return str(value)
