"""MultiHop-RAG (Tang and Yang 2024): questions over news articles, with evidence sentences. The
articles are a corpus of their own (``--corpus corpus.json``, or the hub's); without it gold
articles go by their address. Null queries have no answer in the corpus."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field

from benchmarks.errors import BadRow
from benchmarks.frames import digest
from benchmarks.places import MISSING, Places
from benchmarks.question import GoldHop, Question
from benchmarks.rows import Hub, Row
from benchmarks.wiki_rows import parsed

HUB = Hub("yixuantt/MultiHopRAG", "MultiHopRAG", {"dev": "train"})
HUB_CORPUS = Hub("yixuantt/MultiHopRAG", "corpus", {"corpus": "train"})
ANSWER_RULE = "hotpotqa"
KINDS = {
    "inference_query": "inference",
    "comparison_query": "comparison",
    "temporal_query": "temporal",
    "null_query": "null",
}


class Evidence(BaseModel):
    title: str = Field(min_length=1)
    url: str = ""
    fact: str = ""
    source: str = ""
    published_at: str = ""


class NewsRow(BaseModel):
    """A row of the official layout; ``ground_truth`` of another one is unfolded before."""

    id: str = ""
    question: str = Field(min_length=1)
    question_type: str
    answer: str = Field(min_length=1)
    evidence_list: list[Evidence] = []


def question(row: Row, places: Places, notes: list[str]) -> Question:
    """Raises ``BadRow``."""
    truth = row.data.get("ground_truth")
    data = {**row.data, **(truth if isinstance(truth, Mapping) else {})}
    if "question" not in data and "query" in data:
        data["question"] = data["query"]
    data["id"] = str(data.get("id") or "")
    found: NewsRow = parsed(NewsRow, data)
    answerable = found.question_type != "null_query"
    if answerable and not found.evidence_list:
        raise BadRow("there is no evidence")
    ids = [place(evidence, places) for evidence in found.evidence_list]
    return Question.of(
        id=f"multihop-rag-{found.id or digest(found.question)}",
        question=found.question.strip(),
        answer=found.answer if answerable else None,
        supporting=ids,
        hops=[GoldHop(i) for i in dict.fromkeys(ids)],
        kind=KINDS.get(found.question_type, "bridge"),
        answerable=answerable,
        meta={
            "type": found.question_type,
            "answer": found.answer,
            "evidence": [e.model_dump() for e in found.evidence_list],
        },
    )


def place(evidence: Evidence, places: Places) -> str:
    """The corpus's id for an article, else its address."""
    found = places.titled(evidence.title)
    if not found.startswith(MISSING):
        return found
    return evidence.url or found
