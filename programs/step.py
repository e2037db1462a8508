"""Step: one question to the LM, asked in a role, retried once, and with a documented fallback."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from programs.errors import ProgramError
from programs.faults import StopRun, is_configuration_fault, may_pass
from programs.scope import current, entering

ROLE_LMS = "hopsmith_role_lms"
"""Key in ``dspy.settings``: LMs by role, used instead of the default one. They are never stored on
a predictor (``get_lm`` would raise, ``reset`` would wipe them, a saved state would hold them)."""
ROLES = frozenset(
    {
        "actor",
        "asker",
        "coder",
        "condenser",
        "controller",
        "expander",
        "extractor",
        "judge",
        "planner",
        "question_writer",
        "reader",
        "reasoner",
        "reranker",
        "resolver",
        "rewriter",
        "router",
        "searcher",
        "sub",
        "sufficiency",
        "synthesizer",
        "verifier",
        "walker",
        "writer",
    }
)
"""Roles in which our steps ask; own methods may have others."""


class Step(dspy.Predict):  # type: ignore[misc]
    """A predictor with a role.

    A reply that does not parse is asked for once more, with an account of what was wrong in the
    prompt (else the cache would replay the bad reply) and without thresholds. When that fails too,
    or the LM itself does (``EndpointLM`` and DSPy have asked it again by then), the step returns
    ``fallback`` with ``error`` set; it raises only what must stop
    the whole run (``StopRun``: a wrong key, an unknown model) and the signals of meter and cancel
    flag.
    """

    def __init__(
        self,
        signature: type[dspy.Signature],
        role: str,
        fallback: Mapping[str, Any],
        last: bool = False,
    ) -> None:
        """``last``: it ends the question wherever it is asked from, and so may take the meter's
        reserve."""
        super().__init__(signature)
        missing = set(signature.output_fields) - set(fallback)
        if missing:
            raise ProgramError(f"step {role}: the fallback lacks {sorted(missing)}")
        self.role = role
        self.fallback = dict(fallback)
        self.last = last

    def forward(self, *, think: bool = False, **inputs: Any) -> dspy.Prediction:
        """Ask. ``think`` asks for reasoning before the outputs (ChainOfThought)."""
        scope = current()
        if self.last and scope is not None and not scope.final:
            with entering(replace(scope, final=True)):
                return self._ask(think, inputs)
        return self._ask(think, inputs)

    def _ask(self, think: bool, inputs: dict[str, Any]) -> dspy.Prediction:
        signature = inputs.pop("signature", self.signature)
        if think and "reasoning" not in signature.output_fields:
            signature = signature.prepend("reasoning", _REASONING, type_=str)
        lm = (dspy.settings.get(ROLE_LMS) or {}).get(self.role)
        if lm is not None and "lm" not in inputs:
            inputs["lm"] = lm
        try:
            return super().forward(signature=signature, **inputs)
        except Exception as first:
            problem = _problem(first)
            if may_pass(first):
                return self._instead(problem)
        retry = signature.append("format_problem", _FORMAT_PROBLEM, type_=str)
        try:
            return dspy.Predict.forward(
                self._plain(), signature=retry, format_problem=problem, **inputs
            )
        except Exception as second:
            return self._instead(_problem(second))

    def _instead(self, problem: str) -> dspy.Prediction:
        """The fallback, with the failure kept by the question under way."""
        scope = current()
        if scope is not None:
            scope.failures.append((self.role, problem))
        return dspy.Prediction(**self.fallback, error=problem)

    def _plain(self) -> Step:
        """This step without thresholds: an LM that can't state a probability is asked for a plain
        yes or no."""
        if not self.fields:
            return self
        plain = copy.copy(self)
        plain.fields = {}
        return plain


_REASONING = dspy.OutputField(desc="think step by step, briefly, before the outputs below")
_FORMAT_PROBLEM = dspy.InputField(desc="why the previous reply could not be used; avoid it")


def _problem(fault: Exception) -> str:
    """One line about a failed call; raises ``StopRun`` for faults that no retry mends."""
    mend = is_configuration_fault(fault)
    if mend is not None:
        raise StopRun(mend) from fault
    if isinstance(fault, AdapterParseError):
        reply = " ".join(str(getattr(fault, "lm_response", "")).split())
        return f"the reply did not have the fields asked for: {reply[:200]}"
    return f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
