"""MuSiQue (Trivedi et al. 2022), Ans and Full: a decomposition of 2 to 4 sub-questions, each with
its paragraph. Sub-questions of the form ``A >> relation`` are put into words, and state facts of
their paragraphs; ``meta`` keeps the data's wording.

Full adds questions whose context lacks a paragraph. They are unanswerable in their own context; in
a pooled corpus another question may bring the paragraph, and such questions are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.errors import BadRow
from benchmarks.places import MISSING, Places
from benchmarks.question import GoldHop, Question
from benchmarks.relations import asked
from benchmarks.rows import Hub, Row
from benchmarks.wiki_rows import parsed
from signatures import Triple

HUB = Hub("dgslibisey/MuSiQue", None, {"train": "train", "dev": "validation"})
ANSWER_RULE = "squad"


class Paragraph(BaseModel):
    idx: int
    title: str
    paragraph_text: str
    is_supporting: bool = False


class SubQuestion(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = ""
    question: str = Field(min_length=1)
    answer: str
    paragraph_support_idx: int | None = None


class MusiqueRow(BaseModel):
    """A row; official and hub layouts are the same."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    answer_aliases: list[str] = []
    answerable: bool = True
    paragraphs: list[Paragraph]
    question_decomposition: list[SubQuestion] = Field(min_length=1)


def question(row: Row, places: Places, notes: list[str]) -> Question:
    """Raises ``BadRow``."""
    found: MusiqueRow = parsed(MusiqueRow, row.data)
    ids = {p.idx: places.paragraph(p.title, p.paragraph_text) for p in found.paragraphs}
    steps = found.question_decomposition
    for place, step in enumerate(steps, 1):
        if any(not 1 <= int(n) < place for n in re.findall(r"#(\d+)", step.question)):
            raise BadRow(f"sub-question {place} refers to one that is not before it")
        index = step.paragraph_support_idx
        if index is not None and index not in ids:
            raise BadRow(f"sub-question {place} names paragraph {index}, which is not there")
        if index is None and found.answerable:
            raise BadRow(f"sub-question {place} of an answerable question names no paragraph")
    hops = [
        GoldHop(
            None if s.paragraph_support_idx is None else ids[s.paragraph_support_idx],
            in_words(s.question),
            s.answer,
        )
        for s in steps
    ]
    return Question.of(
        id=found.id if found.answerable else f"{found.id}-unanswerable",
        question=found.question.strip(),
        answer=found.answer if found.answerable else None,
        answers=found.answer_aliases if found.answerable else (),
        supporting=[h.passage for h in hops if h.passage is not None],
        hops=hops,
        kind="bridge" if found.answerable else "null",
        answerable=found.answerable,
        meta={
            "shape": found.id.split("__")[0],
            "sub_questions": [s.question for s in steps],
            "sub_question_ids": [s.id for s in steps],
            "context": list(dict.fromkeys(ids.values())),
        },
    )


def in_words(sub_question: str) -> str:
    """``#1 >> capital`` becomes "What is the capital of {answer_1}?"."""
    text = sub_question.strip()
    if stated := subject_and_relation(text):
        text = asked(*stated)
    return _joined(re.sub(r"#(\d+)", r"{answer_\1}", text))


def subject_and_relation(sub_question: str) -> tuple[str, str] | None:
    """The sides of ``A >> relation``; None for a sub-question in words."""
    subject, arrow, relation = (side.strip() for side in sub_question.rpartition(">>"))
    return (subject, relation) if arrow and subject else None


def triples(asked: Question) -> list[Triple]:
    """What the data state as triples: a third of the sub-questions, each with the paragraph that
    answers it. Those in words give none."""
    found = []
    answers = [hop.answer or "" for hop in asked.hops]
    for hop, wording in zip(asked.hops, asked.meta["sub_questions"], strict=True):
        stated = subject_and_relation(wording)
        if stated is None or hop.passage is None or not hop.answer:
            continue
        subject = re.sub(r"#(\d+)", lambda place: answers[int(place[1]) - 1], stated[0])
        if subject.strip():
            found.append(Triple(_joined(subject), stated[1], hop.answer, hop.passage))
    return found


def _joined(text: str) -> str:
    """Without the data's spaces in front of punctuation marks."""
    return re.sub(r"\s+([?,.')])", r"\1", text)


def answered_elsewhere(questions: Iterable[Question]) -> dict[str, str]:
    """Unanswerable questions that the pooled corpus does answer: id → why. All their missing
    sub-questions have a paragraph with some other question."""
    known: dict[str, str] = {}
    unanswerable: list[Question] = []
    for q in questions:
        if not q.answerable:
            unanswerable.append(q)
        for identifier, hop in zip(q.meta["sub_question_ids"], q.hops, strict=True):
            if identifier and hop.passage is not None and not hop.passage.startswith(MISSING):
                known.setdefault(identifier, q.id)
    found = {}
    for q in unanswerable:
        lacking: Sequence[str] = [
            identifier
            for identifier, hop in zip(q.meta["sub_question_ids"], q.hops, strict=True)
            if hop.passage is None
        ]
        if lacking and all(identifier in known for identifier in lacking):
            found[q.id] = f"{known[lacking[0]]} brings its missing paragraph into the pooled corpus"
    return found
