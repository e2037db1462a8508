"""Training questions from documents: written by an LM from linked passages, then checked.

A question is kept for review only if a reader with both passages answers it, and no reader with
one of them does: such a question takes both hops. What was rejected is kept too, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import dspy

from metrics.normal import best_against
from optimize.errors import OptimizeError
from optimize.lines import whole_lines
from optimize.linked import Pair
from programs import Account, Ledger, MeteredAdapter, Step, fan_out
from programs.ledger import LEDGER
from retrieval import Passage
from signatures import Answer, render
from signatures.question_writer import WriteBridge, WriteComparison

SAME = 0.8
"""Token F1 from which a reader's answer counts as the question's."""
ATTEMPTS = 6
"""Pairs tried for each question wanted."""
BATCH = 4
TOKENS = 3000


@dataclass
class Written:
    """What came of it."""

    kept: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    """Numbers by reason."""
    known: int = 0
    """Pairs that the file held before."""
    spent: Account = field(default_factory=Account)
    exhausted: bool = False
    """No linked passages are left."""


class QuestionWriter:
    """Writes and checks questions with the LM and adapter of ``dspy.settings``."""

    def __init__(self) -> None:
        bridge = {"question": "", "answer": "", "first_step": "", "second_step": ""}
        compared = {**bridge, "first_answer": "", "second_answer": ""}
        self.bridge = Step(WriteBridge, "question_writer", fallback=bridge)
        self.comparison = Step(WriteComparison, "question_writer", fallback=compared)
        self.reader = Step(Answer, "reader", fallback={"answer": ""})

    def line(self, pair: Pair) -> dict[str, Any]:
        """A line of ``questions.jsonl``: ``review``, or ``rejected`` with its reason."""
        made = self._written(pair)
        reason = self._fault(pair, made) or self._unread(pair, made)
        return {
            **made,
            "id": f"written-{pair.key}",
            "kind": pair.kind,
            "status": "rejected" if reason else "review",
            "meta": {"pair": pair.key, **({"reason": reason} if reason else {})},
        }

    def _written(self, pair: Pair) -> dict[str, Any]:
        texts = {"first": _text(pair.first), "second": _text(pair.second)}
        if pair.kind == "bridge":
            reply = self.bridge(**texts, link=pair.link)
            answers = (pair.link, reply.answer)
        else:
            reply = self.comparison(**texts)
            answers = (reply.first_answer, reply.second_answer)
        steps = (reply.first_step, reply.second_step)
        passages = (pair.first.id, pair.second.id)
        return {
            "question": _clean(reply.question),
            "answer": _clean(reply.answer),
            "hops": [
                {"passage": p, "question": _clean(q), "answer": _clean(a)}
                for p, q, a in zip(passages, steps, answers, strict=True)
            ],
        }

    def _fault(self, pair: Pair, made: dict[str, Any]) -> str:
        """What is wrong with it as it stands; empty when nothing is."""
        question, answer = made["question"], made["answer"]
        if not question or not answer:
            return "no question was found in these passages"
        folded = question.casefold()
        if pair.kind == "bridge":
            if pair.link.casefold() in folded:
                return "it names the link"
            if answer.casefold() in folded:
                return "it contains its answer"
            if "{answer_1}" not in made["hops"][1]["question"]:
                return "its second step does not use the first one's answer"
            if answer.casefold() not in _text(pair.second).casefold():
                return "the second passage does not state its answer"
        elif any(p.title.casefold() not in folded for p in (pair.first, pair.second)):
            return "it does not name what it compares"
        if any(not hop["question"] or not hop["answer"] for hop in made["hops"]):
            return "a step is missing"
        return ""

    def _unread(self, pair: Pair, made: dict[str, Any]) -> str:
        """Whether readers with both passages and with one do as they should."""
        if not self._reads(made, (pair.first, pair.second)):
            return "a reader with both passages does not answer it so"
        for place, passage in (("first", pair.first), ("second", pair.second)):
            if self._reads(made, (passage,)):
                return f"the {place} passage alone answers it"
        return ""

    def _reads(self, made: dict[str, Any], passages: tuple[Passage, ...]) -> bool:
        shown = render(passages, max_passages=2, max_tokens=TOKENS)
        reply = self.reader(context=shown, question=made["question"])
        return best_against(reply.answer, (made["answer"],), "squad").f1 >= SAME


def write_questions(
    pairs: Iterable[Pair],
    out: Path,
    n: int,
    *,
    told: Callable[[dict[str, Any], int], None] | None = None,
) -> Written:
    """Add lines to ``out`` until it holds ``n`` written questions to review, at most ``ATTEMPTS``
    pairs a question. Lines that are there stay, whatever a reviewer made of them; their pairs are
    not asked about again. Raises ``OptimizeError`` for a file that can't be read."""
    writer, done = QuestionWriter(), Written()
    known = _known(out)
    done.known = len(known)
    done.kept = sum(status != "rejected" for status in known.values())
    fresh = (pair for pair in pairs if pair.key not in known)
    left = ATTEMPTS * max(0, n - done.kept)
    ledger = Ledger()
    adapter = MeteredAdapter(dspy.settings.adapter or dspy.JSONAdapter())
    outer = dspy.settings.get(LEDGER) or ledger
    with dspy.context(adapter=adapter, **{LEDGER: outer}):
        while done.kept < n and left > 0:
            batch = list(islice(fresh, min(BATCH, left, n - done.kept)))
            if not batch:
                done.exhausted = True
                break
            left -= len(batch)
            for line in fan_out([partial(writer.line, pair) for pair in batch]):
                _append(out, line)
                reason = line["meta"].get("reason")
                if reason:
                    done.rejected[reason] = done.rejected.get(reason, 0) + 1
                else:
                    done.kept += 1
                if told is not None:
                    told(line, done.kept)
    done.spent = outer.total
    return done


def _known(path: Path) -> dict[str, str]:
    """Statuses of the pairs that a file holds."""
    found: dict[str, str] = {}
    for number, line in whole_lines(path):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as fault:
            raise OptimizeError(f"{path}:{number} is no JSON ({fault.msg})") from fault
        pair = (row.get("meta") or {}).get("pair") if isinstance(row, dict) else None
        if pair:
            found[pair] = row.get("status") or "accepted"
    return found


def _append(path: Path, line: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if line["status"] == "rejected" and not line["answer"]:
        line = {**line, "answerable": False, "answer": None}
    if not line["question"]:
        line = {**line, "question": "(none)"}
    with path.open("ab") as file:
        file.write((json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass"))


def _text(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def _clean(text: object) -> str:
    return " ".join(str(text or "").split())
