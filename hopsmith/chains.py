"""A run's questions on the terminal: a list with verdicts, and one question's chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.markup import escape

from hopsmith.errors import HopsmithError
from hopsmith.report import filled
from hopsmith.show import hop_tree, out, print_table
from metrics import Broken, attribute, metric
from metrics.record import Record
from optimize.rows import PredictionRow, ledger_of
from optimize.saved import SavedRun
from optimize.tables import ACCOUNT_COLUMNS, Table, account_cells, ledger_table, without_empty
from programs import Account


@dataclass(frozen=True)
class Chain:
    """One question of a run: its record, its row and where it broke."""

    record: Record
    row: PredictionRow
    broken: Broken | None
    titles: dict[str, str]

    @property
    def verdict(self) -> str:
        """right, wrong or failed."""
        if self.broken is None:
            return "right"
        return "failed" if self.record.error is not None else "wrong"

    @property
    def account(self) -> Account:
        return ledger_of(self.row).total

    def to_json(self) -> dict[str, Any]:
        record = self.record
        return {
            "id": record.id,
            "question": record.question,
            "answer": record.answer,
            "answers": list(record.answers),
            "verdict": self.verdict,
            "broken": self.broken and asdict(self.broken),
            "em": metric("em").score(record),
            "f1": metric("f1").score(record),
            "hop_recall": metric("hop_recall").score(record),
            "gold": [asdict(hop) for hop in record.gold],
            "hops": [hop.model_dump() for hop in self.row.hops],
            "ranked": list(record.ranked),
            "stop_reason": record.stop_reason,
            "error": record.error,
            "usage": self.row.usage,
            "seconds": self.row.seconds,
        }


def chain(run: SavedRun, identifier: str) -> Chain:
    """One question. Raises ``HopsmithError`` for an id that isn't there, or has no answer yet."""
    found = next((r for r in run.records if r.id == identifier), None)
    if found is None:
        if any(q.id == identifier for q in run.questions):
            raise HopsmithError(f"{identifier} was not asked yet in {run.folder}")
        first = run.questions[0].id if run.questions else "none"
        raise HopsmithError(
            f"{run.folder} has no question {identifier!r} (its first is {first!r}): hopsmith show "
            f"{run.folder} lists them"
        )
    titles = {i: p.cited for i, p in run.passages.items()}
    return Chain(found, run.rows[identifier], attribute(found), titles)


def listed(run: SavedRun, verdict: str | None = None, stage: str | None = None) -> list[Chain]:
    """Those of a verdict and a broken stage, in the questions' order. ``wrong`` holds failed ones
    too: a failed question is a wrong one."""
    found = [Chain(r, run.rows[r.id], attribute(r), {}) for r in run.records]
    return [
        one
        for one in found
        if (
            verdict is None
            or one.verdict == verdict
            or (verdict == "wrong" and one.verdict == "failed")
        )
        and (stage is None or (one.broken is not None and one.broken.stage == stage))
    ]


def lines(found: Sequence[Chain], limit: int) -> Table:
    """A line a question."""
    rows = []
    for one in found[:limit]:
        record, broken = one.record, one.broken
        f1 = metric("f1").score(record)
        where = "" if broken is None else broken.stage + (f" {broken.hop}" if broken.hop else "")
        rows.append(
            (
                record.id,
                one.verdict,
                where,
                "" if f1 is None else f"{f1:.2f}",
                _short(record.question),
                _short(record.answer or "(none)", 40),
                _short(record.answers[0] if record.answers else "(none)", 40),
            )
        )
    columns = ("id", "verdict", "broke at", "F1", "question", "said", "gold")
    note = f"{len(found)} questions" + (f", the first {limit}" if len(found) > limit else "")
    return Table("Questions", columns, tuple(rows), note, frozenset(columns) - {"F1"})


def ledger_lines(run: SavedRun, found: Sequence[Chain], limit: int) -> Table:
    """What each question took, the dearest first: by money where it is known, else by tokens, else
    by calls."""

    def dear(one: Chain) -> tuple[float, int, int]:
        account = one.account
        tokens = account.prompt_tokens + account.completion_tokens
        return ((account.cost or 0.0) + (account.saved or 0.0), tokens, account.lm_calls)

    rows = [
        (one.record.id, one.verdict, *account_cells(one.account), f"{one.row.seconds:.1f}")
        for one in sorted(found, key=dear, reverse=True)[:limit]
    ]
    total = run.ledger.total
    rows.append(("all", "", *account_cells(total), ""))
    columns = ("id", "verdict", *ACCOUNT_COLUMNS, "seconds")
    return without_empty("What each question took", columns, rows)


def print_chain(one: Chain) -> None:
    """The tree of hops, the gold chain beside it, and what was spent."""
    record, row, broken = one.record, one.row, one.broken
    colour = "green" if broken is None else "red"
    out.print(f"[{colour}]{one.verdict}[/{colour}]  [dim]{escape(record.id)}[/dim]")
    if broken is not None:
        at = f", hop {broken.hop}" if broken.hop else ""
        out.print(f"[red]broke at {broken.stage}{at}[/red]: {escape(broken.why)}", highlight=False)
    answers = "; ".join(record.answers) if record.answerable else "no answer in the corpus"
    out.print(f"gold: [bold]{escape(answers)}[/bold]", highlight=False)
    read = {p for step in record.steps for p in step.passages} | set(record.ranked)
    for place, hop in enumerate(record.gold, 1):
        where = one.titles.get(hop.passage or "") or hop.passage or "not in the corpus"
        found = hop.passage in read
        mark = "[green]retrieved[/green]" if found else "[red]never retrieved[/red]"
        here = " [red]← broke here[/red]" if broken is not None and broken.hop == place else ""
        asked = f"{escape(filled(record, hop.question))} → " if hop.question else ""
        asked += f"{escape(hop.answer)}  " if hop.answer is not None else ""
        out.print(f"  {place}. {asked}[dim]in: {escape(where)}[/dim] {mark}{here}", highlight=False)
    tree = hop_tree(record.question, row.hops, one.titles, row.answer, row.stop_reason)
    out.print(tree, soft_wrap=False)
    if not row.hops and row.ranked:
        shown = ", ".join(escape(one.titles.get(p) or p) for p in row.ranked)
        out.print(f"[dim]read: {shown}[/dim]")
    if record.error:
        out.print(f"[red]{escape(record.error)}[/red]")
    accounts = ledger_of(row).by_role
    if accounts:
        print_table(ledger_table({record.id: accounts}).unnamed)


def _short(text: str, most: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
