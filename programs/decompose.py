"""decompose: plan the sub-questions, resolve them in dependency order, synthesize (guide,
approach 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import dspy

from programs.answers import stated
from programs.budget import HopBudget, Knob, think
from programs.carried import Carried, carry, variants
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence, normal_query
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
    ResolveCandidates,
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

    With ``candidates`` above 1 a hop may find several valid answers (guide, FAQ): up to that many
    go on, the next sub-question is searched for each of them in one batch, and the synthesizer
    keeps those that agree with the rest of the question.

    Decisions of ours: a plan is checked as data and repaired once; what still can't be carried
    out falls back to the question itself as the only sub-question; a single sub-question that is
    resolved to one answer needs no synthesis; answers that rest on different candidates of a hop
    are not put into one sub-question, and no sub-question is asked in more than ``candidates``
    ways; a plan of which nothing was resolved is answered from the pooled
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
        Knob("candidates", (1, 2, 3)),
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
        self.lister = Step(ResolveCandidates, "resolver", fallback={"answers": []})
        signature = SynthesizeFacts if synthesis == "facts" else SynthesizeEvidence
        self.synthesizer = Step(signature, "synthesizer", fallback={"answer": ""})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        plan, kind, fault = self.plan(question)
        found: dict[int, list[Carried]] = {}
        for wave in waves(plan):
            self.resolve(plan, wave, found, evidence)
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
        self,
        plan: tuple[PlanStep, ...],
        wave: list[int],
        found: dict[int, list[Carried]],
        evidence: Evidence,
    ) -> None:
        """Search and ask all sub-questions of a wave at once; equal ones are searched once."""
        limit = self.budget.candidates
        ways = [way for i in wave for way in variants(i, plan[i], found, limit)]
        first = {normal_query(way.query): way for way in reversed(ways)}
        fresh = [
            w for w in ways if first[normal_query(w.query)] is w and not evidence.asked(w.query)
        ]
        hops = [
            evidence.add(
                role="planner",
                query=plan[way.step].text,
                refined=way.query,
                passages=passages,
                parent=way.parent,
            )
            for way, passages in zip(fresh, self.search([w.query for w in fresh]), strict=True)
        ]
        inputs = [{"context": self.context(h.passages), "question": h.refined} for h in hops]
        self.read(inputs, lambda place, found: evidence.update(hops[place], **found))
        asked = {normal_query(hop.refined): hop for hop in evidence.hops}
        for i in wave:
            ends = [(way, asked[normal_query(way.query)]) for way in ways if way.step == i]
            found[i] = carry(
                i,
                [
                    (way, hop.id, [hop.answer, *hop.candidates] if hop.answer else [])
                    for way, hop in ends
                ],
            )

    def read(
        self,
        inputs: Sequence[Mapping[str, object]],
        write: Callable[[int, dict[str, object]], object],
    ) -> None:
        """What the resolver finds for each (context, question): its place and a hop's fields."""
        limit = self.budget.candidates
        if limit == 1:
            self.ask_each(self.resolver, inputs, lambda n, reply: write(n, outcome(reply)))
            return
        listed = [{**given, "limit": limit} for given in inputs]
        self.ask_each(self.lister, listed, lambda n, reply: write(n, outcomes(reply, limit)))

    def synthesize(self, question: str, evidence: Evidence) -> str | None:
        facts = evidence.facts()
        resolved = [h for h in evidence.hops if h.answer is not None]
        if not facts:
            return self.write(question, evidence)
        if len(evidence.hops) == 1 and not resolved[0].candidates:
            return resolved[0].answer
        inputs: dict[str, object] = {"facts": facts, "question": question}
        if "context" in self.synthesizer.signature.input_fields:
            inputs["context"] = self.context(evidence.ranked())
        reply = self.ask_final(self.synthesizer, **inputs)
        return reply.answer or (evidence.best_answer() if reply.get("error") else None)


def outcome(reply: dspy.Prediction) -> dict[str, object]:
    """What a resolver's reply makes of its hop."""
    answer = stated(reply.answer)
    error = reply.get("error")
    status = "error" if error else "resolved" if answer else "unresolved"
    return {"answer": answer or None, "status": status, "error": error}


def outcomes(reply: dspy.Prediction, limit: int) -> dict[str, object]:
    """What a reply with several answers makes of its hop: the best ``limit`` of them, each once."""
    answers: dict[str, str] = {}
    for text in reply.answers or ():
        answer = stated(text)
        if answer:
            answers.setdefault(normal_query(answer), answer)
    best = [*answers.values()][:limit]
    error = reply.get("error")
    return {
        "answer": best[0] if best else None,
        "candidates": tuple(best[1:]),
        "status": "error" if error else "resolved" if best else "unresolved",
        "error": error,
    }
