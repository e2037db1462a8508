"""report.html of a run: its numbers, where its chains broke, what it took, and every question with
its tree of hops, to be filtered by right, wrong and broken stage.

One file that asks no address. What lies below a question is packed in chunks and unpacked when it
is opened, so that thousands of questions stay light.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from hopsmith import page
from hopsmith.tree_html import answer_html, badge, hops_html, passages_html
from metrics import (
    GROUPINGS,
    STAGES,
    Broken,
    attribute,
    attribution,
    attribution_table,
    metric,
    resolved_hops,
)
from metrics.record import Record
from optimize.rows import PredictionRow, ledger_of
from optimize.saved import SavedRun
from optimize.tables import (
    ACCOUNT_COLUMNS,
    account_cells,
    broken_table,
    groups_table,
    ledger_table,
    metrics_table,
    without_empty,
)

NAME = "report.html"
SURE = ("em", "f1", "support_recall@5", "hop_recall", "lm_calls")
"""Metrics shown with an interval, and by groups of questions."""


def write_report(run: SavedRun, path: Path | None = None) -> Path:
    """Write the page, into the run's folder unless ``path`` says where."""
    target = path or run.folder / NAME
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(report(run))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def report(run: SavedRun) -> Iterator[str]:
    """The page, piece by piece."""
    script = page.part("report.js")
    about = run.header
    title = f"{about.method} on {about.benchmark} {about.split}"
    yield page.opening(title, script)
    yield f"<h1>{escape(title)}</h1>\n"
    if about.ceiling:
        yield (
            '<p class="ceiling">Ceiling: the oracle answered from the gold chain, seeing only what '
            "was retrieved. No model would reach these numbers.</p>\n"
        )
    if run.left:
        yield (
            f'<p class="ceiling">{run.left} of {len(run.questions)} questions were not asked yet; '
            "the numbers are of the others.</p>\n"
        )
    yield _facts(run)
    yield page.table_html(metrics_table(run, SURE))
    for by in GROUPINGS:
        table = groups_table(run, by, SURE)
        if len(table.rows) > 1:
            yield page.table_html(table)
    yield page.table_html(broken_table({about.method: attribution_table(run.records)}).unnamed)
    rules = (attribution.__doc__ or "").replace("``", "")
    yield (
        f"<details><summary>The rules by which a stage is blamed</summary><pre>{escape(rules)}"
        "</pre></details>\n"
    )
    if about.told is None or "lm_calls" in about.told:
        yield page.table_html(ledger_table({about.method: run.ledger.by_role}).unnamed)
    yield from _questions(run)
    yield page.closing(script)


def _facts(run: SavedRun) -> str:
    about = run.header
    program = about.identity.get("program", {})
    budget = program.get("budget") or {}
    told = {
        "questions": f"{len(run.rows)} of {len(run.questions)}, hash {about.questions_hash}",
        "LM": run.lm,
        "budget": ", ".join(f"{k}={_plain(v)}" for k, v in budget.items()),
        "retriever": run.engine,
        "corpus": (about.corpus_hash or "")[:16],
        "fingerprint": about.fingerprint[:16],
        "answer rule": about.answer_rule,
        "versions": ", ".join(f"{k} {v}" for k, v in about.versions.items()),
        "started": about.created,
    }
    pairs = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in told.items() if value
    )
    return f'<dl class="facts">{pairs}</dl>\n'


def _plain(value: Any) -> str:
    return "+".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _questions(run: SavedRun) -> Iterator[str]:
    records = run.records
    broken = [attribute(record) for record in records]
    lines = [
        _line(place, record, told, run)
        for place, (record, told) in enumerate(zip(records, broken, strict=True))
    ]
    yield "<section><h2>Questions</h2>\n"
    yield _filters(lines)
    yield f'<ol class="questions" id="questions" data-chunk="{page.CHUNK}"></ol>\n'
    yield '<button type="button" id="more" hidden>More</button></section>\n'
    yield page.data("rows", lines)
    for number_, start in enumerate(range(0, len(records), page.CHUNK)):
        places = range(start, min(start + page.CHUNK, len(records)))
        rows = [run.rows[records[p].id] for p in places]
        yield page.packed(
            number_,
            {
                "bodies": [
                    _body(records[p], row, broken[p], run)
                    for p, row in zip(places, rows, strict=True)
                ],
                "passages": {
                    i: run.passages[i].text for row in rows for i in row.ranked if i in run.passages
                },
            },
        )


def _line(place: int, record: Record, broken: Broken | None, run: SavedRun) -> dict[str, Any]:
    """What the list shows of a question, and what it is filtered by."""
    f1 = metric("f1").score(record)
    told = [] if f1 is None else [f"F1 {f1:.2f}"]
    if run.applies(metric("lm_calls")):
        told.append(f"{record.usage.lm_calls} LM calls")
    if run.applies(metric("seconds")):
        told.append(f"{record.seconds:.1f} s")
    return {
        "place": place,
        "id": record.id,
        "question": record.question,
        "answer": record.answer,
        "gold": record.answers[0] if record.answerable and record.answers else None,
        "kind": record.kind,
        "hops": len(record.gold),
        "verdict": verdict(record, broken),
        "stage": broken.stage if broken else "",
        "hop": broken.hop if broken else None,
        "f1": f1,
        "calls": record.usage.lm_calls,
        "seconds": record.seconds,
        "told": told,
    }


def verdict(record: Record, broken: Broken | None) -> str:
    """right, wrong or failed."""
    return "right" if broken is None else "failed" if record.error is not None else "wrong"


def _filters(lines: list[dict[str, Any]]) -> str:
    def counted(name: str, values: list[str]) -> list[tuple[str, str]]:
        totals = [(v, sum(str(line[name]) == v for line in lines)) for v in values]
        return [("", "all"), *((v, f"{v} ({n})") for v, n in totals if n)]

    wrong = sum(line["verdict"] != "right" for line in lines)
    verdicts = counted("verdict", ["right", "failed"])
    verdicts.insert(1, ("wrong", f"wrong ({wrong})"))
    hops = sorted({line["hops"] for line in lines})
    orders = [
        ("file", "as asked"),
        ("f1", "F1, lowest first"),
        ("calls", "LM calls"),
        ("seconds", "time"),
    ]
    return (
        '<form class="filters"><label>Search <input type="search" id="text"></label>'
        + page.options("verdict", "Answer", verdicts)
        + page.options("stage", "Broke at", counted("stage", list(STAGES)))
        + page.options("hops", "Gold hops", counted("hops", [str(n) for n in hops]))
        + page.options("kind", "Kind", counted("kind", sorted({line["kind"] for line in lines})))
        + page.options("order", "Order", orders)
        + '<output id="count"></output></form>\n'
    )


def _body(record: Record, row: PredictionRow, broken: Broken | None, run: SavedRun) -> str:
    """All about one question: verdict, gold chain, tree, ledger."""
    outcome = verdict(record, broken)
    parts = [
        f"<p>{answer_html(row.answer, right=broken is None)} {badge(outcome, outcome)} "
        f'{badge(row.stop_reason)} <span class="faint">{escape(record.id)}</span></p>'
    ]
    if broken is not None:
        at = f", hop {broken.hop}" if broken.hop else ""
        stage = f"<strong>{broken.stage}{at}</strong>"
        parts.append(f'<p class="broke">broke at {stage}: {escape(broken.why)}</p>')
    parts.append(_gold(record, broken, run))
    marks = gold_marks(record)
    if row.hops:
        parts.append("<h3>Hops</h3>")
        parts.append(hops_html(row.hops, run.passages, marks, texts=False))
    elif row.ranked:
        parts.append("<h3>Passages</h3>")
        parts.append(passages_html(row.ranked, run.passages, marks, texts=False))
    accounts = ledger_of(row).by_role
    if accounts:
        rows = [(role, *account_cells(a)) for role, a in sorted(accounts.items())]
        ledger = without_empty("Ledger", ("role", *ACCOUNT_COLUMNS), rows)
        parts.append(page.table_html(ledger, "h3"))
    return "".join(parts)


def filled(record: Record, question: str) -> str:
    """A gold sub-question with the gold answers that it refers to."""
    for n, hop in enumerate(record.gold, 1):
        question = question.replace(f"{{answer_{n}}}", hop.answer or "…")
    return question


def gold_marks(record: Record) -> Mapping[str, str]:
    """Badge by passage id: which gold hop it belongs to."""
    marks = dict.fromkeys(record.supporting, "gold")
    for n, hop in enumerate(record.gold, 1):
        if hop.passage is not None:
            marks[hop.passage] = f"gold {n}"
    return marks


def _gold(record: Record, broken: Broken | None, run: SavedRun) -> str:
    """The gold chain beside what became of it."""
    answers = "; ".join(record.answers) if record.answerable else "no answer in the corpus"
    told = f'<h3>Gold: <span class="answer">{escape(answers)}</span></h3>'
    if not record.gold:
        return told
    found = {p for step in record.steps for p in step.passages} | set(record.ranked)
    resolved = resolved_hops(record) if record.ordered and record.steps else []
    items = []
    for place, hop in enumerate(record.gold):
        marks = []
        if hop.passage is not None:
            marks.append(
                badge("retrieved", "right")
                if hop.passage in found
                else badge("never retrieved", "wrong")
            )
        if place < len(resolved) and resolved[place] is not None:
            marks.append(badge("resolved", "right") if resolved[place] else badge("not resolved"))
        here = broken is not None and broken.hop == place + 1
        if here:
            marks.append(badge("broke here", "wrong"))
        passage = run.passages.get(hop.passage or "")
        where = passage.cited if passage else (hop.passage or "not in the corpus")
        asked = f"{escape(filled(record, hop.question))} " if hop.question else ""
        answer = answer_html(hop.answer) if hop.answer is not None else ""
        items.append(
            f"<li{' class=broke' if here else ''}>{asked}{answer} "
            f'<span class="faint">in: {escape(where)}</span> {" ".join(marks)}</li>'
        )
    return f'{told}<ol class="gold">{"".join(items)}</ol>'
