"""MultiHopProgram: what every method is. ``tests/contracts`` holds each of them to this docstring.

A method is a ``dspy.Module`` over a retriever, with a budget and named parts. It is called with a
question and returns a ``dspy.Prediction`` with ``answer``, ``evidence`` and ``stop_reason``:

- it ends within its budget on any LM output, and never makes more than ``lm_calls`` LM calls;
- ``stop_reason`` is one of ``STOP_REASONS``; ``answer`` is None only with ``unanswerable`` or
  ``error``; at a cap it gives the best answer so far with ``budget``;
- every retrieval is a hop of the evidence, with the hop that it followed from as its parent;
- per-question state lives in ``solve``'s arguments and the scope, never on ``self``;
- its state is predictors, budget and parts, recursively (``programs.state``).

A subclass writes ``solve(question, evidence)``, which reads like its paper's algorithm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any, ClassVar, Literal

import dspy

from programs.answers import stated
from programs.budget import HopBudget, Knob
from programs.errors import BudgetError, OutOfBudget, QuestionError, WriterFailed
from programs.evidence import HOPS, Conclusion, Evidence, ended
from programs.fan_out import fan_out
from programs.faults import StopRun
from programs.ledger import Ledger
from programs.metered import MeteredAdapter
from programs.scope import Meter, Scope, current, entering
from programs.state import dump_program, load_program
from programs.step import Step
from retrieval import Passage, RetrievalError, Retriever
from signatures import Answer, Context, render

DEADLINE = "hopsmith_deadline"
"""Key in ``dspy.settings``: seconds that one question may take, None for no limit."""
CANCEL = "hopsmith_cancel"
"""Key in ``dspy.settings``: a ``threading.Event`` that ends the question at its next LM call."""
LISTENER = "hopsmith_listener"
"""Key in ``dspy.settings``: a ``programs.scope.Listener``, told of each hop as it happens."""
SHARED = ("self", "retriever", "budget", "knowledge")
"""What constructors of methods are given by whoever builds them."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What ``hopsmith methods`` says of a method."""

    name: str
    source: str
    """Paper and section, or the guide's approach."""
    summary: str
    parts: tuple[str, ...] = ()
    """Named parts that its constructor takes besides retriever and budget."""
    graph: Literal["", "used", "needed"] = ""
    """Whether its constructor takes a graph of the corpus (``knowledge``), and can't do without."""
    oracle: bool = True
    """Whether the oracle can answer for it: its answers pass through our signatures."""
    gold: bool = False
    """Whether it reads the gold passages of a benchmark's questions instead of searching."""


class MultiHopProgram(dspy.Module):  # type: ignore[misc]
    """Base of every method; see the module docstring for the contract."""

    info: ClassVar[MethodInfo]
    knobs: ClassVar[tuple[Knob, ...]] = ()
    """The bounds that this method reads, each with the values that a search tries."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Where this method's default budget differs from HopBudget's."""

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, **arguments: Any
    ) -> None:
        """``arguments`` are what a subclass's constructor was given besides; they are part of the
        fingerprint and of an export, and must be JSON values."""
        super().__init__()
        self.retriever = retriever
        self.budget = budget if budget is not None else self.default_budget()
        self.arguments = dict(arguments)
        self.tunable: frozenset[str] | None = None
        self.final = Step(Answer, role="writer", fallback={"answer": ""})

    @classmethod
    def default_budget(cls) -> HopBudget:
        """The budget that this method has when it is given none."""
        return replace(HopBudget(), **cls.defaults)

    @classmethod
    def takes(cls) -> dict[str, Parameter]:
        """The constructor's own arguments by name: without ``SHARED`` and parts."""
        if cls.__init__ is MultiHopProgram.__init__:
            return {}
        every = signature(cls.__init__).parameters
        return {n: p for n, p in every.items() if n not in (*SHARED, *cls.info.parts)}

    @property
    def reads(self) -> frozenset[str]:
        """Bounds on which it depends besides its knobs and defaults."""
        return frozenset()

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        """The method. Grows ``evidence``; raises ``OutOfBudget`` when a bound stops it."""
        raise TypeError(f"{type(self).__name__} must define solve(question, evidence)")

    def forward(self, question: str) -> dspy.Prediction:
        """Answer one question. Opens the question's scope unless an outer program has."""
        if not isinstance(question, str) or not question.strip():
            raise QuestionError("the question is empty: give it at least one word")
        outer = current()
        if outer is not None:
            return self._within(question, outer)
        seconds = dspy.settings.get(DEADLINE)
        deadline = None if seconds is None else time.monotonic() + seconds
        meter = Meter(self.budget.lm_calls, deadline, dspy.settings.get(CANCEL))
        scope = Scope(question, meter, Ledger(), dspy.settings.get(LISTENER))
        scope.tell("started", ledger=scope.ledger)
        adapter = dspy.settings.adapter or dspy.JSONAdapter()
        with entering(scope, adapter=MeteredAdapter(adapter)):
            made = self._within(question, scope)
        keep_failures(made, question, scope)
        return made

    def _within(self, question: str, scope: Scope) -> dspy.Prediction:
        evidence = Evidence(listener=scope.hop_listener())
        try:
            end = self.solve(question, evidence)
        except OutOfBudget as bound:
            end = self.at_cap(question, evidence)
            end = replace(end, cap=scope.meter.bound(str(bound)))
        except WriterFailed as fault:
            end = Conclusion(None, "error", str(fault))
        except RetrievalError as fault:
            if getattr(fault, "stops_run", False):
                raise StopRun(str(fault)) from fault
            raise
        answer, stop = stated(end.answer) or None, end.stop_reason
        cap = end.cap or (HOPS if stop == "budget" else "")
        if answer is None and stop == "budget":
            stop, end = "error", replace(end, error=end.error or "the budget left no answer")
        elif answer is None and stop != "error":
            stop = "unanswerable"
        if cap:
            told = f"{HOPS}={self.budget.hops}" if cap == HOPS else cap
            end = replace(end, extra={**end.extra, "cap": told})
        return dspy.Prediction(
            answer=answer,
            evidence=evidence,
            stop_reason=stop,
            error=end.error,
            usage=scope.ledger,
            **end.extra,
        )

    def at_cap(self, question: str, evidence: Evidence) -> Conclusion:
        """The best answer so far: the reserved LM call over the evidence, or when even that is
        gone (deadline passed, reserve spent) the latest answer of any hop."""
        try:
            return ended(self.write(question, evidence), "budget", None)
        except OutOfBudget:
            return Conclusion(evidence.best_answer(), "budget")
        except WriterFailed as fault:
            return Conclusion(None, "error", str(fault))

    def ask(self, step: Step, **inputs: Any) -> dspy.Prediction:
        """Ask one step, thinking first where the budget says so for its role."""
        return step(think=step.role in self.budget.think, **inputs)

    def ask_final(self, step: Step, **inputs: Any) -> dspy.Prediction:
        """Ask a step whose answer ends the question: it may take the meter's reserve."""
        scope = current()
        if scope is None:
            return self.ask(step, **inputs)
        with entering(replace(scope, final=True)):
            return self.ask(step, **inputs)

    def ask_each(
        self,
        step: Step,
        inputs: Sequence[Mapping[str, Any]],
        keep: Callable[[int, dspy.Prediction], object] | None = None,
    ) -> list[dspy.Prediction]:
        """Ask one step several independent things at once; replies in order. ``keep`` is given
        each reply's place and the reply, also where a bound stops the others."""
        tasks = [partial(self.ask, step, **given) for given in inputs]
        return fan_out(tasks, keep=keep)

    def search(self, queries: Sequence[str]) -> list[list[Passage]]:
        """One batched search at the budget's k and pool."""
        return self.retriever.search(list(queries), self.budget.passages, pool=self.budget.retrieve)

    def context(self, passages: Sequence[Passage], protected: Sequence[str] = ()) -> Context:
        """Passages as prompt text within the budget's bounds."""
        return render(
            passages,
            max_passages=self.budget.context_passages,
            max_tokens=self.budget.context_tokens,
            protected=protected,
        )

    def write(self, question: str, evidence: Evidence) -> str | None:
        """The final answer from the pooled passages, by the writer; the latest answer of any hop
        where the writer fails. Raises ``WriterFailed`` where there is none either."""
        reply = self.ask_final(
            self.final, context=self.context(evidence.ranked()), question=question
        )
        if not reply.get("error"):
            return stated(reply.answer) or None
        best = evidence.best_answer()
        if best is None:
            raise WriterFailed(str(reply.error))
        return best

    def with_budget(self, budget: HopBudget) -> MultiHopProgram:
        """A copy with another budget; its parts keep theirs, but for the bounds and thinking roles
        that differ from this program's. Raises ``BudgetError`` where it isn't one."""
        if not isinstance(budget, HopBudget):
            raise BudgetError(f"a HopBudget is wanted, got {type(budget).__name__}")
        copied: MultiHopProgram = self.deepcopy()
        changed = budget.changes(self.budget)
        think, before = set(budget.think), set(self.budget.think)
        for _, program in copied.named_sub_modules(MultiHopProgram):
            roles = set(program.budget.think) - (before - think) | (think - before)
            program.budget = replace(program.budget, **changed, think=tuple(roles))
        copied.budget = budget
        return copied

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        """Predictors by path, parts' included. While ``tunable`` is set, those that it names:
        optimizers then see and change nothing else."""
        found: list[tuple[str, dspy.Predict]] = super().named_predictors()
        if self.tunable is None:
            return found
        return [(path, p) for path, p in found if path in self.tunable]

    @property
    def parts(self) -> dict[str, MultiHopProgram]:
        """Sub-programs by attribute name."""
        return {n: v for n, v in self.__dict__.items() if isinstance(v, MultiHopProgram)}

    @property
    def steps(self) -> dict[str, Step]:
        """Own steps by attribute name, parts left out."""
        return {n: v for n, v in self.__dict__.items() if isinstance(v, Step)}

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """``{"predictors", "budget", "parts"}``, parts recursively; no key, no LM."""
        return dump_program(self, json_mode=json_mode)

    def load_state(self, state: Mapping[str, Any], **_: Any) -> None:
        """Take on a dumped state. Raises ``StateError`` field by field where it doesn't fit."""
        load_program(self, state)


def keep_failures(made: dspy.Prediction, question: str, scope: Scope) -> None:
    """Write into the last hop the failures of steps that no hop has kept, so that a question which
    got an answer all the same shows them; into a hop of its own where there is none."""
    evidence: Evidence = made.evidence
    kept = [hop.error for hop in evidence.hops if hop.error]
    lost = [(role, why) for role, why in scope.failures if not any(why in told for told in kept)]
    if not lost or made.stop_reason == "error":
        return
    if not evidence.hops:
        evidence.add(role=lost[0][0], query=question, status="error")
    last = evidence.hops[-1]
    told = [last.error or "", *dict.fromkeys(f"{role}: {why}" for role, why in sorted(lost))]
    evidence.update(last, error="; ".join(filter(None, told)))
