"""HotpotQA (Yang et al. 2018), distractor and fullwiki. No decomposition: one gold hop for each
supporting paragraph, with its supporting sentences, in no order. In fullwiki the context is what a
retriever found; gold paragraphs that it lacks are looked for in ``--corpus`` by title."""

from __future__ import annotations

from benchmarks.errors import BadRow
from benchmarks.places import Places
from benchmarks.question import GoldHop, Question
from benchmarks.rows import Hub, Row
from benchmarks.wiki_rows import WikiRow, context_ids, parsed, support

HUB = Hub("hotpotqa/hotpot_qa", "distractor", {"train": "train", "dev": "validation"})
ANSWER_RULE = "hotpotqa"
KINDS = {"bridge": "bridge", "comparison": "comparison"}


def question(row: Row, places: Places, notes: list[str]) -> Question:
    """Raises ``BadRow``."""
    found: WikiRow = parsed(WikiRow, row.data)
    ids, sentences, wrong = support(found, places)
    notes += wrong
    if not ids:
        raise BadRow("there are no supporting facts")
    return Question.of(
        id=found.id,
        question=found.question.strip(),
        answer=found.answer,
        supporting=list(ids.values()),
        hops=[GoldHop(ids[t], sentences=sentences[t]) for t in ids],
        kind=KINDS.get(found.type, "bridge"),
        meta={
            "type": found.type,
            "level": row.data.get("level"),
            "context": context_ids(found, places),
        },
    )
