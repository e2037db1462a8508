"""Follow-up: the next question to ask on the way to an answer, or the answer (Self-Ask)."""

from __future__ import annotations

import dspy


class FollowUp(dspy.Signature):  # type: ignore[misc]
    """Ask the one follow-up question that is needed next, or give the final answer.

    The facts are the follow-up questions asked so far with their answers, in order. If the
    original question can't be answered from them yet, write one follow-up question: simple enough
    for a single document, understandable by itself, with the answers found so far written out in
    it, and not asked before; leave the answer null. Where a fact says that nothing was found, ask
    for it in other words or go another way. If the facts are enough, the follow-up is null and
    the answer is the shortest wording that answers the original question: a name, date, number,
    place, or yes or no; no sentence.
    """

    facts: list[str] = dspy.InputField(desc="follow-up questions so far with their answers")
    question: str = dspy.InputField(desc="the original question")
    follow_up: str | None = dspy.OutputField(desc="the next follow-up question, or null")
    answer: str | None = dspy.OutputField(desc="short final answer, or null while one is needed")
