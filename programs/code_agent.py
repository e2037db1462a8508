"""code_agent: an agent that writes Python, with search() at hand (Hi-Q's coding-agent baseline)."""

from __future__ import annotations

import dspy
from dspy.primitives.code_interpreter import FinalOutput

from programs.answers import stated
from programs.budget import HopBudget, Knob, think
from programs.evidence import Conclusion, Evidence, StopReason, ended
from programs.interpreter import Factory, Kind, Sandbox
from programs.program import MethodInfo, MultiHopProgram
from programs.repl import Ran, Repl, bare, transcript
from programs.searching import Acting, searching
from programs.step import Step
from retrieval import Retriever
from signatures import AnswerFromCode, WriteCode


class CodeAgent(MultiHopProgram):
    """A coding agent with a REPL.

    The coder writes a step of Python, sees what it printed, and writes the next, until its code
    calls SUBMIT. Code runs in a sandbox and searches through us. Each query is a hop; hops of one
    step follow from the last hop of the step before.

    Decisions of ours: ``hops`` + 2 steps at most (the last to submit in), and ``sub_queries``
    queries a step on average, ``(hops + 1) × sub_queries`` in all; then the answer is written from
    what was printed (``budget``). A query that was searched before gives what it gave then and is
    no second hop. Code that is killed costs its variables and goes on with the next step. The
    transcript is bounded by ``context_tokens``: the oldest outputs go first.

    ``sandbox`` is ``auto``, ``bubblewrap``, ``deno``, or ``none`` for no sandbox at all;
    ``dspy.settings.interpreter_factory`` goes before it.
    """

    info = MethodInfo(
        "code_agent",
        "a coding agent with search; a baseline of Hi-Q",
        "write Python that searches, read what it prints, submit",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8)),
        Knob("hops", (1, 2, 3, 4, 5)),
        Knob("sub_queries", (1, 3, 5)),
        *think("coder", "writer"),
    )
    defaults = {"context_tokens": 4800}

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, sandbox: Kind = "auto"
    ) -> None:
        super().__init__(retriever, budget, sandbox=sandbox)
        self.sandbox = Sandbox(sandbox)
        self.coder = Acting(WriteCode, "coder", {"thought": "", "code": ""}, thought="thought")
        self.closer = Step(AnswerFromCode, "writer", {"answer": ""})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        rounds = self.budget.hops + 1
        queries = rounds * self.budget.sub_queries
        steps: list[Ran] = []
        with searching(self, evidence, "coder", queries) as here, Repl(self.factory) as repl:
            for left in range(rounds, -1, -1):
                reply = self.ask(
                    self.coder,
                    question=question,
                    environment=f"{repl.rules} Steps left after this one: {left}. Searches left: "
                    f"{here.left}.",
                    steps=transcript(steps, self.budget.context_tokens),
                )
                code = bare(reply.code)
                if reply.get("error"):
                    break
                ran = repl.run(code) if code else "There was no code."
                if isinstance(ran, FinalOutput):
                    submitted = stated(ran.output.get("answer"))
                    if submitted:
                        return Conclusion(submitted)
                    ran = "SUBMIT wants an answer."
                steps.append(Ran(str(reply.thought or ""), code, ran))
            error = reply.get("error")
        reply = self.ask_final(
            self.closer,
            question=question,
            steps=transcript(steps, self.budget.context_tokens),
        )
        stop: StopReason = "answered" if error else "budget"
        return ended(reply.answer, stop, reply.get("error") or error)

    @property
    def factory(self) -> Factory:
        """What makes the question's interpreter."""
        return dspy.settings.get("interpreter_factory") or self.sandbox
