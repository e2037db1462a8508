"""PredictionRow: one question's line in ``predictions.jsonl``; RunHeader: a run's ``run.json``.

These models are the written format: ``optimize/run.schema.json`` is generated from them
(``python -m optimize.rows``) and a test holds it to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.question import Question
from metrics.record import GoldStep, Record, Step, Usage
from programs import Account, Evidence, Ledger

FORMAT_VERSION = 1
SCHEMA_FILE = Path(__file__).with_name("run.schema.json")


class HopRow(BaseModel):
    """One hop; passages by id, best first."""

    model_config = ConfigDict(extra="forbid")

    id: int
    parent: int | None = None
    depth: int = 0
    role: str
    query: str
    refined: str
    passages: list[str] = Field(default_factory=list)
    answer: str | None = None
    candidates: list[str] = Field(default_factory=list)
    status: str
    error: str | None = None
    source: str = "search"
    note: str = ""


class PredictionRow(BaseModel):
    """What a program made of one question."""

    model_config = ConfigDict(extra="forbid")

    id: str
    """The question's id; (id, fingerprint) is the row's key."""
    fingerprint: str
    answer: str | None
    stop_reason: str
    hops: list[HopRow] = Field(default_factory=list)
    ranked: list[str] = Field(default_factory=list)
    """Ids of all passages seen, in the evidence's pooled ranking."""
    usage: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Accounts by role."""
    seconds: float = 0.0
    error: str | None = None
    cited: list[str] = Field(default_factory=list)
    extra: dict[str, Any] = Field(default_factory=dict)
    """What the method says besides (route, kind, …)."""


class RunHeader(BaseModel):
    """What a run was: one method on one split."""

    model_config = ConfigDict(extra="allow")

    format: int = FORMAT_VERSION
    method: str
    benchmark: str
    split: str
    answer_rule: str = "squad"
    questions: int
    questions_hash: str
    fingerprint: str
    identity: dict[str, Any]
    corpus_hash: str | None = None
    ceiling: bool = False
    """True when the oracle answered: a ceiling, never a result."""
    definitions: int = 1
    """``metrics.DEFINITION_VERSION`` under which ``metrics.json`` was computed."""
    told: list[str] | None = None
    """Of another system's predictions, what the file says besides answers (``passages``,
    ``lm_calls``, ``seconds``, …): what it doesn't say is not known, and no 0. None for our runs,
    which say all."""
    versions: dict[str, str] = Field(default_factory=dict)
    created: str = ""


def hop_rows(evidence: Evidence) -> list[HopRow]:
    """An evidence's hops as rows."""
    return [
        HopRow(
            id=hop.id,
            parent=hop.parent,
            depth=hop.depth,
            role=hop.role,
            query=hop.query,
            refined=hop.refined,
            passages=[p.id for p in hop.passages],
            answer=hop.answer,
            candidates=list(hop.candidates),
            status=hop.status,
            error=hop.error,
            source=hop.source,
            note=hop.note,
        )
        for hop in evidence.hops
    ]


def ledger_of(row: PredictionRow) -> Ledger:
    """A row's usage as a ledger."""
    return Ledger({role: Account(**account) for role, account in row.usage.items()})


def usage(account: Account) -> Usage:
    """An account as the metrics' plain record."""
    return Usage(
        lm_calls=account.lm_calls,
        cached_calls=account.cached_calls,
        prompt_tokens=account.prompt_tokens,
        cached_prompt_tokens=account.cached_prompt_tokens,
        completion_tokens=account.completion_tokens,
        cached_completion_tokens=account.cached_completion_tokens,
        cost=account.cost,
        saved=account.saved,
        parse_failures=account.parse_failures,
    )


def record(question: Question, row: PredictionRow, answer_rule: str) -> Record:
    """Question and row as the record that metrics look at."""
    ledger = ledger_of(row)
    return Record(
        id=question.id,
        question=question.question,
        answer=row.answer,
        answers=tuple(question.answers),
        answerable=question.answerable,
        kind=question.kind,
        supporting=tuple(question.supporting),
        gold=tuple(GoldStep(h.passage, h.question, h.answer, h.sentences) for h in question.hops),
        ordered=question.ordered,
        ranked=tuple(row.ranked),
        steps=tuple(
            Step(h.refined, tuple(h.passages), h.answer, h.role, h.status, h.depth)
            for h in row.hops
        ),
        stop_reason=row.stop_reason,
        at_cap=row.stop_reason == "budget" or any(row.extra.get(k) for k in ("cap", "at_cap")),
        cap=str(row.extra.get("cap") or ""),
        fallbacks=sum(1 for h in row.hops if h.error is not None),
        error=row.error if row.stop_reason == "error" else None,
        usage=usage(ledger.total),
        usage_by_role={role: usage(account) for role, account in ledger.by_role.items()},
        retrievals=sum(1 for h in row.hops if h.passages and h.source == "search"),
        passages_read=len(row.ranked),
        seconds=row.seconds,
        answer_rule=answer_rule,
        cited=tuple(row.cited),
    )


def schema() -> dict[str, Any]:
    """The JSON schema of both files."""
    return {
        "run.json": RunHeader.model_json_schema(),
        "predictions.jsonl (each line)": PredictionRow.model_json_schema(),
    }


if __name__ == "__main__":
    SCHEMA_FILE.write_text(json.dumps(schema(), indent=2) + "\n")
