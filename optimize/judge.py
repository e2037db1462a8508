"""An LM as a judge of answers: correctness beyond matching strings (PAR²-RAG, equation 2).

Verdicts are kept beside a run's rows, by question, answer and judge, so that nothing is judged
twice. What no judge is needed for isn't asked: no answer is wrong, an exact match is right.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dspy

from metrics.normal import best_against
from metrics.record import Record
from optimize.lines import whole_lines
from optimize.run import write_json
from programs import MeteredAdapter, Step, fan_out
from programs.fingerprint import digest, lm_identity
from signatures import signature_hash
from signatures.judge import JudgeAnswer

VERDICTS = "verdicts.jsonl"
"""Of a run folder: what a judge said, an answer a line."""
JUDGED = "judged.json"
"""Of a run folder: the verdict on each question, by the judge asked last."""
BATCH = 16
"""Answers that are judged before progress is told."""


@dataclass(frozen=True)
class Agreement:
    """A judge beside string matching, on the answers that both score."""

    n: int
    judged: float
    """Share that the judge called right."""
    em: float
    f1: float
    same: float
    """Share in which judge and EM agree."""
    kappa: float | None
    """Cohen's kappa of judge and EM; None when one of them says the same of all."""
    judge_alone: int
    """Answers that the judge calls right and EM wrong."""
    em_alone: int
    """Answers that EM calls right and the judge wrong; 0, since those aren't asked."""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


class Judge:
    """Verdicts of one LM, kept in a file. Thread-safe for one ``judge`` call at a time."""

    def __init__(self, lm: dspy.LM, path: Path | None = None) -> None:
        self.lm = lm
        self.path = path
        self.step = Step(JudgeAnswer, role="judge", fallback={"correct": False})
        self.mark = digest([lm_identity(lm), signature_hash(JudgeAnswer)])[:16]
        self.failed = 0
        """Answers for which the judge gave no verdict; they stay unjudged."""
        self._lock = threading.Lock()
        self._known: dict[str, bool] = {}
        for _, line in whole_lines(path) if path is not None else ():
            row = json.loads(line)
            self._known[row["key"]] = row["correct"]

    def judge(
        self, records: Sequence[Record], progress: Callable[[int, int], None] | None = None
    ) -> dict[str, bool]:
        """Verdicts by question id, of answerable questions; asked with the adapter of
        ``dspy.settings``. Questions for which the judge failed are missing."""
        found: dict[str, bool] = {}
        ask: list[Record] = []
        for record in records:
            verdict = self._told(record)
            if verdict is None and record.answerable:
                ask.append(record)
            elif verdict is not None:
                found[record.id] = verdict
        adapter = MeteredAdapter(dspy.settings.adapter or dspy.JSONAdapter())
        with dspy.context(adapter=adapter):
            for start in range(0, len(ask), BATCH):
                batch = ask[start : start + BATCH]
                replies = fan_out([partial(self._ask, record) for record in batch])
                for record, reply in zip(batch, replies, strict=True):
                    if reply.get("error"):
                        self.failed += 1
                        continue
                    found[record.id] = bool(reply.correct)
                    self._keep(record, found[record.id])
                if progress is not None:
                    progress(min(start + BATCH, len(ask)), len(ask))
        return found

    def _told(self, record: Record) -> bool | None:
        """A verdict that needs no asking, or is known."""
        if not record.answerable:
            return None
        if record.answer is None or record.error is not None:
            return False
        if best_against(record.answer, record.answers, record.answer_rule).em:
            return True
        return self._known.get(self._key(record))

    def _ask(self, record: Record) -> dspy.Prediction:
        return self.step(
            question=record.question,
            references=list(record.answers),
            answer=str(record.answer),
            lm=self.lm,
        )

    def _key(self, record: Record) -> str:
        told = json.dumps([record.question, record.answer, list(record.answers), self.mark])
        return hashlib.sha256(told.encode()).hexdigest()[:32]

    def _keep(self, record: Record, verdict: bool) -> None:
        key = self._key(record)
        self._known[key] = verdict
        if self.path is None:
            return
        line = json.dumps({"key": key, "id": record.id, "correct": verdict}) + "\n"
        with self._lock, self.path.open("ab") as file:
            file.write(line.encode())


def write_judged(folder: Path, judge: str, verdicts: Mapping[str, bool], failed: int) -> None:
    """``judged.json``."""
    write_json(folder / JUDGED, {"judge": judge, "failed": failed, "verdicts": dict(verdicts)})


def read_judged(folder: Path) -> dict[str, bool]:
    """Verdicts by question id; empty where no judge was asked."""
    path = folder / JUDGED
    if not path.is_file():
        return {}
    found: dict[str, bool] = json.loads(path.read_text())["verdicts"]
    return found


def agreement(records: Sequence[Record], verdicts: Mapping[str, bool]) -> Agreement | None:
    """Judge and EM side by side; None where nothing was judged."""
    pairs = []
    for record in records:
        if record.id in verdicts and record.answerable:
            scores = best_against(record.answer, record.answers, record.answer_rule)
            pairs.append((verdicts[record.id], bool(scores.em), scores.f1))
    if not pairs:
        return None
    n = len(pairs)
    judged = sum(j for j, _, _ in pairs) / n
    em = sum(e for _, e, _ in pairs) / n
    same = sum(j == e for j, e, _ in pairs) / n
    chance = judged * em + (1 - judged) * (1 - em)
    return Agreement(
        n=n,
        judged=judged,
        em=em,
        f1=sum(f for _, _, f in pairs) / n,
        same=same,
        kappa=None if chance >= 1.0 else (same - chance) / (1 - chance),
        judge_alone=sum(j and not e for j, e, _ in pairs),
        em_alone=sum(e and not j for j, e, _ in pairs),
    )
