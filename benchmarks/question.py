"""Question, GoldHop and Benchmark: every data set becomes these records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from retrieval import Passage
from signatures import Triple

KINDS = ("single", "bridge", "comparison", "bridge_comparison", "inference", "temporal", "null")
"""Kinds of questions that data sets here use; ``null`` has no answer in the corpus."""

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class GoldHop:
    """One step of a gold chain. ``question`` and ``answer`` are None where the data set has no
    decomposition (HotpotQA, MoreHopQA): there is then one hop per supporting passage, in no order.
    """

    passage: str | None
    """Id of the passage that holds the fact; None when it is not in the corpus."""
    question: str | None = None
    """The sub-question, with ``{answer_i}`` (1-based) where an earlier hop's answer goes."""
    answer: str | None = None
    sentences: tuple[int, ...] = ()
    """Supporting sentences within the passage (HotpotQA, 2Wiki); 0-based."""

    @property
    def depends_on(self) -> tuple[int, ...]:
        """Positions (1-based) of the hops whose answers this one needs."""
        import re

        found = re.findall(r"\{answer_(\d+)\}", self.question or "")
        return tuple(sorted({int(n) for n in found}))

    def filled(self, answers: Sequence[str | None]) -> str | None:
        """The sub-question with the earlier hops' answers in place of their references."""
        text = self.question
        if text is None:
            return None
        for i in self.depends_on:
            answer = answers[i - 1] if i - 1 < len(answers) else None
            text = text.replace(f"{{answer_{i}}}", answer or f"{{answer_{i}}}")
        return text


class Question(dspy.Example):  # type: ignore[misc]
    """A question with its gold: a ``dspy.Example`` whose input is ``question``.

    Fields: ``id``, ``question``, ``answer`` (None when unanswerable), ``answers`` (tuple: the
    answer and its aliases), ``supporting`` (tuple of passage ids), ``hops`` (tuple of GoldHop, in
    order where the data has one), ``kind`` (see KINDS), ``answerable``, ``ordered`` (whether the
    hops are a chain with sub-questions), ``meta`` (what else the data set says).
    """

    @classmethod
    def of(
        cls,
        *,
        id: str,
        question: str,
        answer: str | None,
        answers: Sequence[str] = (),
        supporting: Sequence[str] = (),
        hops: Sequence[GoldHop] = (),
        kind: str = "bridge",
        answerable: bool = True,
        meta: Mapping[str, Any] | None = None,
    ) -> Question:
        """Build one; ``answers`` gets ``answer`` in front, duplicates dropped."""
        every = ([] if answer is None else [answer]) + list(answers)
        made: Question = cls(
            id=id,
            question=question,
            answer=answer,
            answers=tuple(dict.fromkeys(every)),
            supporting=tuple(dict.fromkeys(supporting)),
            hops=tuple(hops),
            kind=kind,
            answerable=answerable,
            ordered=bool(hops) and all(h.question is not None for h in hops),
            meta=dict(meta or {}),
        ).with_inputs("question")
        return made


@dataclass(frozen=True)
class Benchmark:
    """Questions by split, and the corpus that they are asked of."""

    name: str
    questions: Mapping[str, Sequence[Question]]
    """By split: ``train``, ``dev``, ``test``; a split may be missing."""
    corpus: Sequence[Passage]
    """May be lazy (memory-mapped); iterating it twice gives the same passages."""
    answer_rule: str = "squad"
    """Which official F1 applies: ``squad`` (MuSiQue) or ``hotpotqa`` (HotpotQA, 2Wiki)."""
    faults: tuple[str, ...] = field(default=())
    """Records that could not be used, each with its reason: counted and named, never silent."""
    triples: Sequence[Triple] = field(default=())
    """Facts that the data set gives of its passages, where it does: a graph without an LM."""

    def split(self, name: str) -> Sequence[Question]:
        """The questions of a split; ``KeyError`` names those there are."""
        if name not in self.questions:
            raise KeyError(f"{self.name} has no split {name!r}; it has {sorted(self.questions)}")
        return self.questions[name]
