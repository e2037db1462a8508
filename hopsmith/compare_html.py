"""compare.html: a comparison's tables and plots, and what each run made of each question."""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from hopsmith import page
from hopsmith.report import NAME, verdict
from metrics import attribute, metric
from optimize.compare import Comparison, definition
from optimize.compare_figures import by_hops, pareto, svg
from optimize.run import write_text
from optimize.tables import Table, tables, title_of


def write_compare_html(comparison: Comparison, folder: Path) -> Path:
    """Write the page; it links to the runs' own reports where they are."""
    target = folder / "compare.html"
    write_text(
        target, "".join(compare_html(comparison, folder)).encode("utf-8", "replace").decode()
    )
    return target


def compare_html(comparison: Comparison, folder: Path) -> Iterator[str]:
    """The page, piece by piece; ``folder`` is where it will lie."""
    script = page.part("compare.js")
    title = f"Comparison on {title_of(comparison)}"
    yield page.opening(title, script)
    yield f"<h1>{escape(title)}</h1>\n"
    for warning in comparison.warnings:
        yield f'<p class="ceiling">{escape(warning)}.</p>\n'
    shown = tables(comparison)
    yield page.table_html(shown[0])
    for name, figure in (
        ("F1 against LM calls", pareto(comparison)),
        ("By number of gold hops", by_hops(comparison)),
    ):
        if figure is not None:
            yield f"<figure>{svg(figure)}<figcaption>{escape(name)}</figcaption></figure>\n"
    for table in shown[1:]:
        yield page.table_html(table)
    meanings = tuple((name, definition(name)) for name in comparison.names)
    yield page.table_html(
        Table(
            "What the metrics are",
            ("metric", "what it is"),
            meanings,
            "",
            frozenset({"what it is"}),
        )
    )
    yield from _questions(comparison, folder)
    yield page.closing(script)


def _questions(comparison: Comparison, folder: Path) -> Iterator[str]:
    """A line a question; what is to be filtered by is which run was right."""
    labels = [entry.label for entry in comparison.entries]
    links = []
    for entry in comparison.entries:
        report = entry.run.folder / NAME
        links.append(os.path.relpath(report, folder) if report.is_file() else "")
    by_run = [{r.id: r for r in entry.run.records} for entry in comparison.entries]
    rows = []
    for question in comparison.first.questions:
        records = [records[question.id] for records in by_run]
        told: list[dict[str, Any]] = []
        for record in records:
            broken = attribute(record)
            told.append(
                {
                    "answer": record.answer,
                    "verdict": verdict(record, broken),
                    "stage": broken.stage if broken else "",
                    "f1": metric("f1").score(record),
                }
            )
        rows.append(
            {
                "id": question.id,
                "question": question.question,
                "gold": question.answers[0] if question.answerable and question.answers else None,
                "hops": len(question.hops),
                "kind": question.kind,
                "runs": told,
            }
        )
    runs = [("", "any"), *((str(n), label) for n, label in enumerate(labels))]
    hops = sorted({row["hops"] for row in rows})
    yield "<section><h2>Question by question</h2>\n"
    yield (
        '<form class="filters"><label>Search <input type="search" id="text"></label>'
        + page.options("right", "Right", runs)
        + page.options("wrong", "Wrong", runs)
        + page.options("hops", "Gold hops", [("", "all"), *((str(n), str(n)) for n in hops)])
        + '<output id="count"></output></form>\n'
    )
    yield '<ol class="questions" id="questions"></ol>\n'
    yield '<button type="button" id="more" hidden>More</button></section>\n'
    yield page.data("rows", rows)
    yield page.data("runs", [{"label": x, "link": y} for x, y in zip(labels, links, strict=True)])
