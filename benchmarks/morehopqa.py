"""MoreHopQA (Schnitzler et al. 2024): HotpotQA-like questions with a generated last step. The
context is the gold paragraphs alone; the last steps need no passage, so that there is one gold hop
for each paragraph, in no order, and the data's own sub-questions are kept in ``meta``."""

from __future__ import annotations

from pydantic import Field

from benchmarks.errors import BadRow
from benchmarks.places import Places
from benchmarks.question import GoldHop, Question
from benchmarks.rows import Hub, Row
from benchmarks.wiki_rows import WikiRow, parsed, text_of

HUB = Hub("alabnii/morehopqa", "verified", {"dev": "test"})
ANSWER_RULE = "hotpotqa"


class MoreHopRow(WikiRow):
    """The columns that are read besides."""

    no_of_hops: int | None = None
    reasoning_type: str | None = None
    answer_type: str | None = None
    previous_question: str | None = None
    question_decomposition: list[dict[str, object]] = Field(default_factory=list)


def question(row: Row, places: Places, notes: list[str]) -> Question:
    """Raises ``BadRow``."""
    found: MoreHopRow = parsed(MoreHopRow, row.data)
    ids = [places.paragraph(t, text_of(s)) for t, s in found.context if text_of(s)]
    if not ids:
        raise BadRow("there is no context")
    return Question.of(
        id=found.id,
        question=found.question.strip(),
        answer=found.answer,
        supporting=ids,
        hops=[GoldHop(i) for i in dict.fromkeys(ids)],
        kind="bridge",
        meta={
            "hops": found.no_of_hops,
            "reasoning_type": found.reasoning_type,
            "answer_type": found.answer_type,
            "previous_question": found.previous_question,
            "sub_questions": [
                {k: step.get(k) for k in ("question", "answer", "paragraph_support_title")}
                for step in found.question_decomposition
            ],
        },
    )
