"""Classifier: what kind of question it is, before anything is looked up."""

from __future__ import annotations

from typing import Literal

import dspy

QuestionKind = Literal["none", "single", "bridge", "comparison"]


class Classify(dspy.Signature):  # type: ignore[misc]
    """Say what kind of look-up a question needs.

    "none": no document is needed, as for arithmetic, a definition or small talk. "single": one
    document that the question names states the answer. "comparison": facts about two or more
    things that the question names are found independently and then compared. "bridge": a name or
    fact must be found first, and only with it can the next document be looked for; a comparison of
    things that are only described is a bridge too. Between "single" and "bridge", choose "bridge"
    when the question describes something in place of naming it.

    "When did the Orla bridge open?" is single, "Which is longer, the Orla or the Tamm bridge?" a
    comparison, "When was the architect of the Orla bridge born?" a bridge.
    """

    question: str = dspy.InputField(desc="the question, not to be answered")
    kind: QuestionKind = dspy.OutputField(desc="none, single, bridge or comparison")
