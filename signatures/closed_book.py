"""Closed book: answers from what the model knows, without passages."""

from __future__ import annotations

import dspy


class Recall(dspy.Signature):  # type: ignore[misc]
    """Answer the question from what you know.

    Give the shortest wording that answers it: a name, date, number, place, or yes or no; no
    sentence. If you are not sure, give your best guess.
    """

    question: str = dspy.InputField(desc="the question to answer")
    answer: str = dspy.OutputField(desc="short final answer")


class RecallStepByStep(dspy.Signature):  # type: ignore[misc]
    """Answer the question from what you know, one fact after the other.

    Say first, in a sentence each, the facts that lead to the answer, in the order in which one
    needs the other. Then give the shortest wording that answers the question: a name, date,
    number, place, or yes or no; no sentence. If you are not sure, give your best guess.
    """

    question: str = dspy.InputField(desc="the question to answer")
    reasoning: str = dspy.OutputField(desc="the facts that lead to the answer, in order")
    answer: str = dspy.OutputField(desc="short final answer")
