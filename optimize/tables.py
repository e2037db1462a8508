"""A comparison's tables: plain cells that Markdown, HTML, the terminal and CSV all show alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from metrics import DEFAULT, MEANING, STAGES, Grouping, breakdown, grouped, metric
from optimize.compare import Cell, Comparison, definition, grouped_names
from optimize.saved import SavedRun
from programs import Account


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: frozenset[str] = frozenset()
    """Columns of text rather than numbers, besides the first."""

    @property
    def unnamed(self) -> Table:
        """Without the first column: of tables that name the one run they are of in every row."""
        return replace(self, columns=self.columns[1:], rows=tuple(row[1:] for row in self.rows))


def tables(comparison: Comparison) -> list[Table]:
    """All of them, the most important first."""
    return [
        scores_table(comparison),
        differences_table(comparison),
        *(hops_table(comparison, name) for name in grouped_names(comparison.k)),
        broken_table({e.label: e.broken for e in comparison.entries}),
        ledger_table({e.label: e.run.ledger.by_role for e in comparison.entries}),
    ]


def scores_table(comparison: Comparison) -> Table:
    """Quality and cost side by side, a run a row; columns that no run fills are left out."""
    names = [n for n in comparison.names if _says_something(comparison, n)]
    rows = [
        (
            entry.label + (" (ceiling)" if entry.run.header.ceiling else ""),
            *(_value(entry.cells[name], sure=name == "f1") for name in names),
        )
        for entry in comparison.entries
    ]
    return Table(
        "Scores",
        ("run", *names),
        tuple(rows),
        f"F1 with its 95 % interval. support_recall@{comparison.k} compares at equal k, "
        "support_recall@equal at equal passages read.",
    )


def _says_something(comparison: Comparison, name: str) -> bool:
    """Whether any run has a value; of tokens and money, one that is not 0 (the oracle's is)."""
    values = [e.cells[name].value for e in comparison.entries]
    if name in ("prompt_tokens", "completion_tokens", "cost"):
        return any(value is not None and value.value for value in values)
    return any(value is not None for value in values)


def transposed(table: Table) -> Table:
    """Columns down, rows across: what fits a terminal when there are few rows."""
    head, *names = table.columns
    return Table(
        table.title,
        ("metric" if head == "run" else head, *(row[0] for row in table.rows)),
        tuple((name, *(row[n] for row in table.rows)) for n, name in enumerate(names, 1)),
        table.note,
    )


def title_of(comparison: Comparison) -> str:
    """What was asked, and the hash that says so."""
    about = comparison.first.header
    return f"{about.benchmark} {about.split}, n={comparison.n}, questions {about.questions_hash}"


def _value(cell: Cell, sure: bool) -> str:
    found = cell.value
    if found is None:
        return ""
    return number(found.value) + (f" [{found.low:.2f}, {found.high:.2f}]" if sure else "")


def differences_table(comparison: Comparison) -> Table:
    """Each run against the baseline, metric by metric."""
    rows = []
    for entry in comparison.entries:
        for name in comparison.names:
            cell = entry.cells[name]
            gap = cell.difference
            if gap is None or gap.low == gap.high == 0:
                continue
            rows.append(
                (
                    entry.label,
                    name,
                    f"{gap.n}",
                    number(gap.baseline),
                    number(gap.other),
                    signed(gap.difference),
                    f"{signed(gap.low)} to {signed(gap.high)}",
                    "" if cell.p is None else p_value(cell.p),
                    "" if gap.detectable is None else number(gap.detectable),
                )
            )
    head = ("run", "metric", "n", comparison.baseline, "run's")
    return Table(
        f"Differences to {comparison.baseline}",
        (*head, "difference", "95 % interval", "p (Holm)", "detectable"),
        tuple(rows),
        f"Paired bootstrap by question, {comparison.resamples:,} resamples, seed "
        f"{comparison.seed}; p corrected by Holm over the runs, metric by metric. Detectable: the "
        "smallest true difference that these questions would show (power 0.8, level 0.05). Metrics "
        "that are equal on every question are left out.",
    )


def hops_table(comparison: Comparison, name: str) -> Table:
    """One metric by the number of gold hops."""
    groups = list(dict.fromkeys(g for e in comparison.entries for g in e.by["hops"]))
    rows = []
    for entry in comparison.entries:
        cells = []
        for group in groups:
            found = entry.by["hops"].get(group, {}).get(name)
            cells.append(
                ""
                if found is None
                else f"{number(found.value)} [{found.low:.2f}, {found.high:.2f}] n={found.n}"
            )
        rows.append((entry.label, *cells))
    return Table(
        f"{name} by number of gold hops", ("run", *(_hops(g) for g in groups)), tuple(rows)
    )


def _hops(group: str) -> str:
    return f"{group} hop" if group == "1" else f"{group} hops"


def metrics_table(run: SavedRun, sure: Sequence[str]) -> Table:
    """Every metric of one run with what it means; intervals for those named."""
    rows = []
    for name, found in run.metrics(DEFAULT, sure).items():
        if found.value is None:
            continue
        around = found.interval
        rows.append(
            (
                name,
                number(found.value),
                "" if around is None else f"{around[0]:.3f} to {around[1]:.3f}",
                f"{found.n:,}",
                definition(name),
            )
        )
    return Table(
        "Scores",
        ("metric", "value", "95 % interval", "n", "what it is"),
        tuple(rows),
        "Intervals: bootstrap by question, 10,000 resamples. A question that failed counts as "
        "wrong. n: questions that a metric applies to.",
        frozenset({"what it is"}),
    )


def groups_table(run: SavedRun, by: Grouping, names: Sequence[str]) -> Table:
    """One run by groups of questions: by gold hops, required passages or kind."""
    found = breakdown(run.records, [metric(n) for n in names if run.applies(metric(n))], by)
    shown = [
        n for n in names if any(n in row and row[n].value is not None for row in found.values())
    ]
    sizes = {label: len(members) for label, members in grouped(run.records, by).items()}
    rows = [
        (label, f"{sizes[label]:,}", *(number(row[n].value) for n in shown))
        for label, row in found.items()
    ]
    return Table(f"By {GROUP_NAMES[by]}", (GROUP_NAMES[by], "n", *shown), tuple(rows))


GROUP_NAMES: Mapping[Grouping, str] = {
    "hops": "gold hops",
    "supporting": "required passages",
    "kind": "kind",
}


def broken_table(broken: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Table:
    """Where the chain broke: by run and number of gold hops; stages that never broke left out."""
    stages = [
        s for s in STAGES if any(row[s] for by_hops in broken.values() for row in by_hops.values())
    ]
    rows = [
        (label, group, str(row["n"]), str(row["wrong"]), *(str(row[s]) for s in stages))
        for label, by_hops in broken.items()
        for group, row in by_hops.items()
    ]
    return Table(
        "Where the chain broke",
        ("run", "hops", "n", "wrong", *stages),
        tuple(rows),
        "Each wrong answer is counted once. "
        + "; ".join(f"{stage}: {MEANING[stage]}" for stage in stages)
        + "."
        if stages
        else "",
    )


def ledger_table(ledgers: Mapping[str, Mapping[str, Account]]) -> Table:
    """Calls, tokens and money by run and role; spent, and saved by our cache."""
    rows = []
    for label, by_role in ledgers.items():
        total = sum(by_role.values(), Account())
        for role, account in (*sorted(by_role.items()), ("all", total)):
            rows.append((label, role, *account_cells(account)))
    return without_empty(
        "What it took",
        ("run", "role", *ACCOUNT_COLUMNS),
        rows,
        "Tokens are as if our cache had answered nothing; cached: what it did answer. Money, where "
        "a price is known (--price IN,OUT): spent, and saved by the cache.",
    )


def without_empty(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> Table:
    """A table without the columns that say nothing in any row."""
    kept = [
        place
        for place in range(len(columns))
        if any(row[place] not in ("", "0", "0.0") for row in rows)
    ]
    return Table(
        title,
        tuple(columns[p] for p in kept),
        tuple(tuple(row[p] for p in kept) for row in rows),
        note,
        frozenset({"role", "verdict"}),
    )


ACCOUNT_COLUMNS = (
    "LM calls",
    "cached",
    "tokens read",
    "cached tokens",
    "tokens written",
    "spent",
    "saved",
    "parse failures",
    "LM seconds",
)


def account_cells(account: Account) -> tuple[str, ...]:
    """An account under ``ACCOUNT_COLUMNS``."""
    return (
        f"{account.lm_calls:,}",
        f"{account.cached_calls:,}",
        f"{account.prompt_tokens:,}",
        f"{account.cached_prompt_tokens + account.cached_completion_tokens:,}",
        f"{account.completion_tokens:,}",
        dollars(account.cost),
        dollars(account.saved),
        f"{account.parse_failures:,}",
        f"{account.seconds:,.1f}",
    )


def csv_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A line for each run, metric and group of questions (``all``, ``hops=2``, …), unrounded."""
    rows = []
    for entry in comparison.entries:
        about = {
            "run": entry.label,
            "folder": str(entry.run.folder),
            "method": entry.run.header.method,
            "lm": entry.run.lm,
            "ceiling": entry.run.header.ceiling,
        }
        for name in comparison.names:
            cell = entry.cells[name]
            row: dict[str, Any] = {**about, "group": "all", "metric": name}
            if cell.value is not None:
                value = cell.value
                row |= {"value": value.value, "low": value.low, "high": value.high, "n": value.n}
            if cell.difference is not None:
                gap = cell.difference
                row |= {
                    "baseline": comparison.baseline,
                    "difference": gap.difference,
                    "difference_low": gap.low,
                    "difference_high": gap.high,
                    "p": gap.p,
                    "p_holm": cell.p,
                    "detectable": gap.detectable,
                }
            rows.append({**row, "definition": definition(name)})
        for by, groups in entry.by.items():
            for group, values in groups.items():
                for name, found in values.items():
                    rows.append(
                        {**about, "group": f"{by}={group}", "metric": name, "value": found.value}
                        | {"low": found.low, "high": found.high, "n": found.n}
                    )
    return rows


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows with whatever columns they have, in first-seen order."""
    rows = list(rows)
    columns = list(dict.fromkeys(c for row in rows for c in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def markdown(table: Table) -> str:
    """With a heading, and the note below."""
    lines = [f"## {table.title}", "", _line(table.columns)]
    lines += ["|" + "---|" + "---:|" * (len(table.columns) - 1)]
    lines += [_line(row) for row in table.rows]
    return "\n".join([*lines, "", *([table.note, ""] if table.note else [])])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def number(value: Any) -> str:
    """Three digits behind the point for shares, one for large numbers; empty for N/A."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return str(value)


def signed(value: float) -> str:
    """With its sign."""
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+,.1f}"


def p_value(p: float) -> str:
    """As many digits as mean anything."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def dollars(value: float | None) -> str:
    """Empty where no price is known."""
    return "" if value is None else f"${value:,.4f}" if value < 1 else f"${value:,.2f}"
