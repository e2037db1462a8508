"""rlm: a recursive language model (Zhang, Kraska and Khattab, 2025), by dspy.RLM."""

from __future__ import annotations

import copy
from typing import Any

import dspy
from dspy.primitives.code_interpreter import CodeInterpreterError
from dspy.primitives.repl_types import REPLHistory

from programs.budget import HopBudget, Knob
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence, StopReason, ended
from programs.interpreter import Kind, Sandbox
from programs.program import MethodInfo, MultiHopProgram
from programs.repl import search, search_batched, within
from programs.searching import Acting, searching, under_way
from programs.step import Step
from retrieval import Retriever
from signatures import Delegate, ExploreCorpus

DELEGATE = "hopsmith_delegate"
"""Key in ``dspy.settings``: the step that answers the code's own questions to an LM."""
SUB_CALLS = 20
"""LM calls that the code of one question may make itself; ``lm_calls`` bounds them too."""


class RLM(MultiHopProgram):
    """A recursive language model with the corpus behind a search.

    The LM writes Python in a REPL as in ``code_agent``, and its code may ask an LM too
    (``llm_query``, ``llm_query_batched``): role ``sub``, so that ``--role-lm sub=NAME`` gives it
    a cheaper one. Queries are hops as in ``code_agent``, and its bounds are the same ones.

    Decisions of ours: the corpus is reached by search() and not a variable; predictors of DSPy
    can't be built inside the sandbox, so that every LM call is metered as one of a role; code
    that is killed ends the loop, and the answer is written from the passages found (``budget``).
    """

    info = MethodInfo(
        "rlm",
        "Zhang et al. 2025, Recursive Language Models; a baseline of Hi-Q",
        "write Python that searches and asks a sub-LM, submit",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8)),
        Knob("hops", (1, 2, 3, 4, 5)),
        Knob("sub_queries", (1, 3, 5)),
    )
    defaults = {"context_tokens": 4800}

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, sandbox: Kind = "auto"
    ) -> None:
        super().__init__(retriever, budget, sandbox=sandbox)
        self.sandbox = Sandbox(sandbox)
        self.agent = Loop(self.sandbox)
        self.delegate = Step(Delegate, "sub", {"reply": ""})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        rounds = self.budget.hops + 1
        agent = copy.copy(self.agent)
        agent.max_iters = rounds + 1
        queries = rounds * self.budget.sub_queries
        factory = dspy.settings.get("interpreter_factory") or self.sandbox
        with searching(self, evidence, "coder", queries, **{DELEGATE: self.delegate}) as here:
            try:
                end = agent(question=question, interpreter_factory=factory)
            except CodeInterpreterError as fault:
                answer = self.write(question, evidence)
                return Conclusion(answer, "budget", str(fault), cap="code was stopped")
        stop: StopReason = "budget" if end.get("forced") and not here.failed else "answered"
        return ended(end.answer, stop, here.error)


class Loop(dspy.RLM):  # type: ignore[misc]
    """dspy.RLM with our steps in place of its predictors."""

    _initial_interpreter_rules: str
    _initial_sub_agent_rules: str

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(
            ExploreCorpus,
            max_llm_calls=SUB_CALLS,
            tools=[search, search_batched],
            sub_lm=ask_sub,
            interpreter_factory=sandbox,
        )
        action, extract = self._build_signatures()
        given = sandbox.execution_instructions
        theirs = self._format_interpreter_rules(given, self._initial_sub_agent_rules)
        ours = self._format_interpreter_rules(given, "")
        self._initial_interpreter_rules, self._initial_sub_agent_rules = ours, ""
        action = action.with_instructions(action.instructions.replace(theirs, ours))
        nothing = {"reasoning": "", "code": ""}
        self.generate_action = Acting(action, "coder", nothing, thought="reasoning")
        self.extract = Step(extract, "writer", {"answer": ""}, last=True)

    def _setup_facade(self, *_: Any) -> str:
        return ""

    def _execute_iteration(
        self, repl: Any, variables: Any, history: REPLHistory, *more: Any
    ) -> dspy.Prediction | REPLHistory:
        return super()._execute_iteration(repl, variables, bounded(history), *more)

    def _extract_fallback(
        self, variables: Any, history: REPLHistory, *more: Any
    ) -> dspy.Prediction:
        end = super()._extract_fallback(variables, bounded(history), *more)
        end.forced = True
        return end


def bounded(history: REPLHistory) -> REPLHistory:
    """A history whose outputs have no more than the budget's ``context_tokens`` in all."""
    most = under_way().program.budget.context_tokens
    outputs = within([entry.output for entry in history], most)
    entries = [
        entry.model_copy(update={"output": output})
        for entry, output in zip(history, outputs, strict=True)
    ]
    return REPLHistory(entries=entries, max_output_chars=history.max_output_chars)


def ask_sub(prompt: str) -> list[str]:
    """The code's own question to an LM: metered, and by the LM of its role."""
    step = dspy.settings.get(DELEGATE)
    if not isinstance(step, Step):
        raise ProgramError("the sub-LM answers inside an rlm question only")
    reply = step(prompt=str(prompt))
    error = reply.get("error")
    return [f"[error] {error}" if error else str(reply.reply)]
