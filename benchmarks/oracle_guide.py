"""The oracle's answers for the guide's methods and the baselines, from the gold chain."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import signatures
from benchmarks.needs import worded
from benchmarks.oracle import Asked, answers, final_answer
from benchmarks.oracle_papers import chain_of, read, solved


def next_need(asked: Asked, known: Collection[int]) -> str | None:
    """The first hop that isn't known, with known answers filled in; None when all are."""
    gold = chain_of(asked.gold)
    lacking = [i for i in range(len(gold.hops)) if i not in known]
    return worded(gold.hops, lacking[0], known) if lacking else None


@answers(signatures.NextSearch)
def _next_search(asked: Asked) -> dict[str, Any]:
    """Done when all gold passages are shown. What an unanswerable question lacks is asked for
    again, which the method must notice."""
    if asked.covered():
        return {"done": True, "answer": asked.gold.answer, "next_query": None}
    return {"done": False, "answer": None, "next_query": next_need(asked, read(asked))}


@answers(signatures.FollowUp)
def _follow_up(asked: Asked) -> dict[str, Any]:
    """The first hop that no fact answers; the gold answer when all are answered."""
    need = next_need(asked, solved(asked))
    if need is None and asked.gold.answerable:
        return {"follow_up": None, "answer": asked.gold.answer}
    return {"follow_up": need, "answer": None}


@answers(signatures.NextThought)
def _next_thought(asked: Asked) -> dict[str, Any]:
    """The next need in words in place of a guess at its answer: the oracle invents no facts."""
    if asked.covered():
        return {"thought": f"So the answer is: {asked.gold.answer}.", "done": True}
    return {"thought": next_need(asked, read(asked)) or "", "done": False}


@answers(signatures.Act)
def _act(asked: Asked) -> dict[str, Any]:
    """A search for the first hop that the trajectory doesn't answer."""
    need = None if asked.covered() else next_need(asked, read(asked))
    return {
        "next_thought": need or "All is known.",
        "next_tool_name": "search" if need else "finish",
        "next_tool_args": {"query": need or ""},
    }


@answers(signatures.AnswerFromSteps)
def _answer_from_steps(asked: Asked) -> dict[str, Any]:
    return {"answer": final_answer(asked)}


@answers(signatures.Rerank)
def _rerank(asked: Asked) -> dict[str, Any]:
    """The passage of the hop that the query asks for, then the question's others, then the rest."""
    hop = asked.hop_for(asked.inputs["query"])
    own = hop.passage if hop else None
    shown = list(enumerate(asked.inputs["context"].ids, 1))
    shown.sort(key=lambda pair: (pair[1] != own, pair[1] not in asked.gold.supporting))
    return {"order": [number for number, _ in shown]}
