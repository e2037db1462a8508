"""What goes over the wire: requests checked, responses described, both with examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from optimize.rows import HopRow
from programs.budget import LIMITS
from programs.evidence import Hop, StopReason
from retrieval import Passage


def _cap(name: str, about: str) -> Any:
    low, high = LIMITS[name]
    return Field(None, ge=low, le=high, description=about)


class Caps(BaseModel):
    """Bounds for this question, below the pipeline's own; one above it changes nothing."""

    model_config = ConfigDict(extra="forbid")

    passages: int | None = _cap("passages", "Passages retrieved per query (k).")
    retrieve: int | None = _cap("retrieve", "Candidates scored per query.")
    sub_queries: int | None = _cap("sub_queries", "Breadth of a plan.")
    hops: int | None = _cap("hops", "Retrieval rounds after the first.")
    depth: int | None = _cap("depth", "Deepest level of a query tree.")
    expansions: int | None = _cap("expansions", "Splits in the whole tree.")
    candidates: int | None = _cap("candidates", "Answers carried from a hop to the next.")
    context_passages: int | None = _cap("context_passages", "Passages shown to the LM at once.")
    context_tokens: int | None = _cap("context_tokens", "Tokens of passages shown at once.")
    lm_calls: int | None = _cap("lm_calls", "LM calls in all.")

    def given(self) -> dict[str, int]:
        return self.model_dump(exclude_none=True)


class AnswerRequest(BaseModel):
    """A question."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"question": "Where was the founder of Norvale born?"},
                {
                    "question": "Where was the founder of Norvale born?",
                    "pipeline": "tuned",
                    "budget": {"hops": 2, "lm_calls": 8},
                    "seconds": 30,
                },
            ]
        },
    )

    question: str = Field(min_length=1)
    pipeline: str | None = Field(None, description="By name; by default the server's first.")
    budget: Caps = Field(default_factory=Caps)
    seconds: float | None = Field(
        None, gt=0, description="Until it must be answered; no longer than the server's own limit."
    )


class PassageOut(BaseModel):
    """A passage as it was found."""

    id: str
    title: str
    text: str
    name: str = Field(description="How to cite it: its title, with source and page if known.")
    score: float
    rank: int
    cited: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict, description="What came with it.")

    @classmethod
    def of(cls, passage: Passage, cited: bool = False) -> PassageOut:
        p = passage
        return cls(
            id=p.id,
            title=p.title,
            text=p.text,
            name=p.cited,
            score=p.score,
            rank=p.rank,
            cited=cited,
            metadata=dict(p.metadata),
        )


class PipelineOut(BaseModel):
    """A pipeline that is served."""

    name: str
    method: str
    fingerprint: str = Field(description="Of all that an answer depends on but the corpus.")
    corpus_hash: str | None = None


class Answered(BaseModel):
    """An answer with the hops that led to it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "q-6a1f0c2be1d94c7e",
                    "answer": "Tamsin",
                    "stop_reason": "answered",
                    "cited": ["p3", "p9"],
                    "passages": [
                        {
                            "id": "p3",
                            "title": "Norvale",
                            "text": "Norvale was founded by Ada Quill.",
                            "name": "Norvale (firms.pdf, p. 3)",
                            "score": 0.81,
                            "rank": 1,
                            "cited": True,
                        }
                    ],
                    "hops": [
                        {
                            "id": 0,
                            "parent": None,
                            "depth": 0,
                            "role": "planner",
                            "query": "Who founded Norvale?",
                            "refined": "Who founded Norvale?",
                            "passages": ["p3"],
                            "answer": "Ada Quill",
                            "candidates": [],
                            "status": "resolved",
                            "error": None,
                            "source": "search",
                            "note": "",
                        }
                    ],
                    "usage": {"planner": {"lm_calls": 1, "prompt_tokens": 210}},
                    "pipeline": {
                        "name": "tuned",
                        "method": "decompose",
                        "fingerprint": "9f2c…",
                        "corpus_hash": "41aa…",
                    },
                    "seconds": 2.1,
                    "error": None,
                }
            ]
        }
    )

    id: str = Field(description="Name it when you send feedback.")
    answer: str | None
    stop_reason: StopReason
    cited: list[str] = Field(description="Ids of the passages that the answer rests on.")
    passages: list[PassageOut] = Field(description="All that were found, best first.")
    hops: list[HopRow]
    usage: dict[str, dict[str, Any]] = Field(description="LM calls, tokens and money by role.")
    pipeline: PipelineOut
    seconds: float
    error: str | None = None


class HopEvent(BaseModel):
    """A hop, when it is taken and again when its answer is known."""

    program: int = Field(description="0 for the pipeline itself, others for programs inside it.")
    hop: HopRow
    passages: list[PassageOut] = Field(description="Those not sent before.")


class FeedbackRequest(BaseModel):
    """What somebody thinks of an answer."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"id": "q-6a1f0c2be1d94c7e", "thumb": "up"},
                {"id": "q-6a1f0c2be1d94c7e", "thumb": "down", "answer": "Tamsin"},
            ]
        },
    )

    id: str = Field(pattern=r"^q-[0-9a-f]{16}$", description="Of the answer.")
    thumb: Literal["up", "down"]
    answer: str | None = Field(None, max_length=500, description="The right answer, if known.")
    comment: str | None = Field(None, max_length=2000)


class Kept(BaseModel):
    """What was kept of a feedback."""

    feedback: bool
    request: bool = Field(description="Whether the question and its answer are kept with it.")


class ReloadRequest(BaseModel):
    """Which pipeline to load anew."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})

    pipeline: str | None = Field(None, description="By name; by default all.")
    export: str | None = Field(
        None, description="Another export folder or models:/NAME@ALIAS; by default the same again."
    )


class Reloaded(BaseModel):
    """A pipeline after a reload."""

    pipeline: PipelineOut
    before: str = Field(description="The fingerprint until now.")
    canary: str = Field(description="What the canary question came to.")


def hop_row(hop: Hop) -> HopRow:
    from optimize.rows import hop_rows
    from programs.evidence import Evidence

    return hop_rows(Evidence([hop]))[0]


def by_role(ledger: Any) -> Mapping[str, dict[str, Any]]:
    """A ledger's accounts as JSON values."""
    told: dict[str, dict[str, Any]] = ledger.to_json()
    return told
