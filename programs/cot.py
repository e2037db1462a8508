"""cot: the model's own knowledge, reasoned out step by step, nothing looked up."""

from __future__ import annotations

from programs.budget import HopBudget
from programs.direct import Direct
from programs.program import MethodInfo
from programs.step import Step
from retrieval import Retriever
from signatures import RecallStepByStep


class ChainOfThought(Direct):
    """Chain of thought without passages (the papers' "CoT" baseline): ``direct`` with the facts
    written out before the answer. It always reasons, so it has no knob."""

    info = MethodInfo(
        "cot",
        "the papers' chain-of-thought baseline",
        "one call that reasons first, no retrieval",
        oracle=False,
    )
    knobs = ()

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)
        self.final = Step(RecallStepByStep, "writer", fallback={"reasoning": "", "answer": ""})
