"""decompose: plan the sub-questions, resolve them in dependency order, synthesize (guide,
approach 1)."""

from __future__ import annotations

from typing import Literal

import dspy

from programs.budget import HopBudget, Knob, think
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence, Hop
from programs.plans import PlanStep, parse_plan, waves
from programs.program import MethodInfo, MultiHopProgram
from programs.step import Step
from retrieval import Retriever
from signatures import (
    Decompose as DecomposeQuestion,
)
from signatures import (
    RepairPlan,
    Resolve,
    SynthesizeEvidence,
    SynthesizeFacts,
)

Synthesis = Literal["facts", "evidence"]


class Decompose(MultiHopProgram):
    """Query decomposition with sequential retrieval.

    The planner classifies the question and lists its sub-questions with ``{answer_1}``
    placeholders; answers found are put in their places before each retrieval, so that a
    dependent sub-question is searched with names and not with descriptions. Sub-questions that
    don't wait for each other are one batched search and are asked at once. The final answer
    comes from the resolved facts alone, as in the guide, or from facts and passages
    (``synthesis="evidence"``).

    Decisions of ours: a plan is checked as data and repaired once; what still can't be carried
    out falls back to the question itself as the only sub-question; a single sub-question that is
    resolved needs no synthesis; a plan of which nothing was resolved is answered from the pooled
    passages, since there are no facts to answer from.
    """

    info = MethodInfo(
        "decompose",
        "guide: approach 1, query decomposition with sequential retrieval",
        "plan sub-questions, resolve each in dependency order, synthesize",
    )
    knobs = (
        Knob("passages", (2, 3, 5, 8)),
        Knob("sub_queries", (2, 3, 4, 6)),
        *think("planner", "resolver", "synthesizer"),
    )

    def __init__(
        self,
        retriever: Retriever,
        budget: HopBudget | None = None,
        synthesis: Synthesis = "facts",
    ) -> None:
        if synthesis not in ("facts", "evidence"):
            raise ProgramError(f"synthesis is 'facts' or 'evidence', got {synthesis!r}")
        super().__init__(retriever, budget, synthesis=synthesis)
        self.planner = Step(
            DecomposeQuestion, "planner", fallback={"kind": "single", "sub_questions": []}
        )
        self.repairer = Step(RepairPlan, "planner", fallback={"sub_questions": []})
        self.resolver = Step(Resolve, "resolver", fallback={"answer": None})
        signature = SynthesizeFacts if synthesis == "facts" else SynthesizeEvidence
        self.synthesizer = Step(signature, "synthesizer", fallback={"answer": ""})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        plan, kind, fault = self.plan(question)
        hops: dict[int, Hop] = {}
        for wave in waves(plan):
            self.resolve(plan, wave, hops, evidence)
        answer = self.synthesize(question, evidence)
        return Conclusion(answer, extra={"kind": kind, "plan_fault": fault})

    def plan(self, question: str) -> tuple[tuple[PlanStep, ...], str, str | None]:
        """``(steps, kind, fault)``: a plan that can be carried out, whatever the LM wrote."""
        limit = self.budget.sub_queries
        reply = self.ask(self.planner, question=question)
        steps, fault = parse_plan(reply.sub_questions, limit)
        if fault and not reply.get("error"):
            repaired = self.ask(
                self.repairer,
                question=question,
                plan=[str(s) for s in reply.sub_questions or []],
                fault=fault,
            )
            steps, still = parse_plan(repaired.sub_questions, limit)
            fault = f"{fault}; {'not mended: ' + still if still else 'repaired'}"
        return steps or (PlanStep(question),), reply.kind, reply.get("error") or fault

    def resolve(
        self, plan: tuple[PlanStep, ...], wave: list[int], hops: dict[int, Hop], evidence: Evidence
    ) -> None:
        """Search and ask all sub-questions of a wave at once; equal ones are searched once."""
        answers = {i: hop.answer for i, hop in hops.items()}
        filled = {i: plan[i].filled(answers) for i in wave}
        fresh = [i for i in wave if not evidence.asked(filled[i])]
        for i, found in zip(fresh, self.search([filled[i] for i in fresh]), strict=True):
            needs = plan[i].needs
            hops[i] = evidence.add(
                role="planner",
                query=plan[i].text,
                refined=filled[i],
                passages=found,
                parent=hops[needs[-1]].id if needs and needs[-1] in hops else None,
            )
        inputs = [{"context": self.context(hops[i].passages), "question": filled[i]} for i in fresh]
        for i, reply in zip(fresh, self.ask_each(self.resolver, inputs), strict=True):
            hops[i] = evidence.update(hops[i], **outcome(reply))

    def synthesize(self, question: str, evidence: Evidence) -> str | None:
        facts = evidence.facts()
        resolved = [h for h in evidence.hops if h.answer is not None]
        if not facts:
            return self.write(question, evidence)
        if len(evidence.hops) == 1 and resolved:
            return resolved[0].answer
        inputs: dict[str, object] = {"facts": facts, "question": question}
        if "context" in self.synthesizer.signature.input_fields:
            inputs["context"] = self.context(evidence.ranked())
        reply = self.ask_final(self.synthesizer, **inputs)
        return reply.answer or (evidence.best_answer() if reply.get("error") else None)


def outcome(reply: dspy.Prediction) -> dict[str, object]:
    """What a resolver's reply makes of its hop."""
    answer = " ".join(str(reply.answer).split()) if reply.answer is not None else ""
    if answer.casefold() in ("", "null", "none", "unknown", "n/a"):
        answer = ""
    error = reply.get("error")
    status = "error" if error else "resolved" if answer else "unresolved"
    return {"answer": answer or None, "status": status, "error": error}
