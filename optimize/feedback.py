"""Feedback for GEPA, written from the hops: each predictor hears what its own replies did to the
chain, not only how the answer scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from benchmarks.needs import normal
from benchmarks.question import GoldHop, Question
from metrics.normal import best_against
from optimize.objective import Objective
from programs import Evidence, MultiHopProgram

SAME = 0.5
"""Token F1 from which an intermediate answer counts as the gold one."""


@dataclass(frozen=True)
class Call:
    """One reply of one predictor, with the question's gold and all that came of it."""

    question: Question
    evidence: Evidence
    answer: str | None
    """The program's final answer."""
    right: float
    """Its F1."""
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the passages in front of the step."""
        return frozenset(i for value in self.inputs.values() for i in getattr(value, "ids", ()))

    @property
    def retrieved(self) -> frozenset[str]:
        return frozenset(p.id for p in self.evidence.passages)

    def brought(self, query: str) -> frozenset[str]:
        """Ids of the passages that a search for ``query`` found."""
        return frozenset(
            p.id
            for hop in self.evidence.hops
            if normal(hop.refined) == normal(query)
            for p in hop.passages
        )

    def lacking(self, held: frozenset[str]) -> list[tuple[int, GoldHop]]:
        """Gold hops (1-based) whose passage is not held."""
        return [
            (n, hop)
            for n, hop in enumerate(self.question.hops, 1)
            if hop.passage is not None and hop.passage not in held
        ]

    def hop_of(self, query: str) -> tuple[int, GoldHop] | None:
        """The gold hop that a query is about: the one whose sub-question it is, else the one
        whose words it shares most, if it shares half of them."""
        answers = [hop.answer for hop in self.question.hops]
        best: tuple[float, int] | None = None
        for n, hop in enumerate(self.question.hops, 1):
            text = hop.filled(answers)
            if text is None:
                continue
            if normal(text) == normal(query):
                return n, hop
            shared = _overlap(text, query)
            if shared >= SAME and (best is None or shared > best[0]):
                best = (shared, n)
        return None if best is None else (best[1], self.question.hops[best[1] - 1])

    def named(self, n: int, hop: GoldHop) -> str:
        """A gold hop in words."""
        text = hop.filled([h.answer for h in self.question.hops])
        if text is None:
            return f"the passage that look-up {n} needs"
        return f"“{text}”" + (f" (answer: {hop.answer})" if hop.answer else "")

    def listed(self, hops: Sequence[tuple[int, GoldHop]]) -> str:
        return "; ".join(self.named(n, hop) for n, hop in hops)


Writer = Callable[[Call], str]


@dataclass(frozen=True)
class HopFeedback:
    """GEPA's metric: the objective as the score, and a text for the predictor that is reflected
    on."""

    objective: Objective
    roles: Mapping[str, str]
    """Roles by predictor path."""

    @classmethod
    def of(cls, program: MultiHopProgram, objective: Objective) -> HopFeedback:
        roles = {path: getattr(p, "role", "") for path, p in program.named_predictors()}
        return cls(objective, roles)

    def __call__(
        self,
        gold: Question,
        pred: dspy.Prediction,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> dspy.Prediction:
        record = self.objective.record(gold, pred)
        score = self.objective.of(record)
        right = best_against(record.answer, record.answers, record.answer_rule).f1
        lines = [_outcome(gold, pred.answer, pred.stop_reason)]
        for _, inputs, outputs in pred_trace or ():
            call = Call(gold, pred.evidence, pred.answer, right, inputs, dict(outputs))
            lines.append(told(self.roles.get(pred_name or "", ""), call))
            if inputs.get("format_problem"):
                lines.append(
                    f"An earlier reply could not be used ({inputs['format_problem']}): reply with "
                    "exactly the fields asked for."
                )
        return dspy.Prediction(score=score, feedback="\n".join(line for line in lines if line))


def told(role: str, call: Call) -> str:
    """What a reply in a role did, in words; empty where nothing is known of the role."""
    writer = WRITERS.get(role)
    return writer(call) if writer is not None and call.question.hops else ""


def _outcome(gold: Question, answer: str | None, stop: str) -> str:
    if not gold.answerable:
        said = "rightly gave no answer" if answer is None else f"answered {answer!r}"
        return f"The question has no answer in the corpus; the program {said}."
    wanted = " or ".join(map(repr, gold.answers[:3]))
    return f"The program answered {answer!r} (it stopped with {stop}); right is {wanted}."


def planner(call: Call) -> str:
    """Which gold hop no query covered."""
    missed = call.lacking(call.retrieved)
    if not missed:
        return "Each fact that is needed was found by one of the searches that followed this plan."
    return (
        f"No search that followed this plan found what answers {call.listed(missed)}. The plan "
        "should lead to a search for each of these, with the names that it takes."
    )


def resolver(call: Call) -> str:
    """What was answered, what gold is, and whether the gold passage was in front of it."""
    query = str(call.inputs.get("question") or call.inputs.get("query") or "")
    found = call.hop_of(query)
    answer = call.outputs.get("answer")
    if answer is None and call.outputs.get("answers"):
        answer = call.outputs["answers"][0]
    if found is None:
        return ""
    n, hop = found
    if hop.answer is None:
        return ""
    seen = hop.passage in call.shown
    same = answer is not None and best_against(str(answer), (hop.answer,), "squad").f1 >= SAME
    where = "the passage that states it was" + ("" if seen else " not") + " in front of you"
    if same:
        return f"{answer!r} is right for {call.named(n, hop)}; {where}."
    if answer is None or not str(answer).strip():
        if not seen:
            return f"Giving no answer was right: for {call.named(n, hop)} {where}."
        return f"You gave no answer, but {where}: {call.named(n, hop)}."
    if not seen:
        return f"You answered {answer!r} without support: {where}. Give no answer then."
    return f"You answered {answer!r}; right is {hop.answer!r}, and {where}."


def controller(call: Call) -> str:
    """Whether it stopped with a gold passage missing, or went on when all were there."""
    done = call.outputs.get("sufficient", call.outputs.get("done"))
    lacking = call.lacking(call.shown)
    query = call.outputs.get("follow_up") or call.outputs.get("next_query")
    if done and lacking:
        return f"You stopped, but nothing in front of you answers {call.listed(lacking)}."
    if done:
        return "Stopping was right: the passages held all that is needed."
    if not lacking:
        return "You went on although the passages in front of you held all that is needed."
    if not query:
        return f"You neither stopped nor asked on; still open: {call.listed(lacking)}."
    wanted = {hop.passage for _, hop in lacking}
    brought = call.brought(str(query))
    if wanted & brought:
        return f"Going on was right, and {query!r} found a passage that is needed."
    return (
        f"Going on was right, but {query!r} found nothing that is needed; still open: "
        f"{call.listed(lacking)}."
    )


def asker(call: Call) -> str:
    """Of a step that asks follow-up questions or writes thoughts that are searched."""
    query = call.outputs.get("follow_up") or call.outputs.get("thought")
    if "next_tool_args" in call.outputs:
        query = (call.outputs["next_tool_args"] or {}).get("query")
    missed = call.lacking(call.retrieved)
    if not query:
        if missed:
            return f"You ended, but nothing was ever found for {call.listed(missed)}."
        return "Ending was right: each fact that is needed had been found."
    brought = call.brought(str(query))
    gold = {hop.passage for hop in call.question.hops}
    if brought & gold:
        return f"{query!r} found a passage that is needed."
    return f"{query!r} found nothing that is needed. Never found: {call.listed(missed)}."


def expander(call: Call) -> str:
    """Which need a split dropped."""
    needs = call.outputs.get("needs") or []
    missed = call.lacking(call.retrieved)
    if not needs:
        if len(call.question.hops) > 1 and missed:
            return (
                f"You said that it can't be split, but it takes {len(call.question.hops)} "
                f"look-ups; never found: {call.listed(missed)}."
            )
        return ""
    if not missed:
        return "The split was sound: every fact that is needed was found below it."
    return f"The needs {list(needs)} left out, or did not lead to, {call.listed(missed)}."


def verifier(call: Call) -> str:
    """What it let pass, or stopped for nothing."""
    covers = call.outputs.get("covers")
    missed = call.lacking(call.retrieved)
    needs = call.inputs.get("needs")
    if covers and missed:
        return f"You let {needs} pass, and {call.listed(missed)} was never found below it."
    if not covers and not missed and call.right >= SAME:
        return f"You found fault with {needs}, although it leads to all that is needed."
    return "The verdict agrees with what was found afterwards."


def rewriter(call: Call) -> str:
    """Whether the rewritten query is the gold sub-question."""
    query = str(call.outputs.get("rewritten") or "")
    found = call.hop_of(query)
    if found is not None and found[1].passage in call.retrieved:
        return f"{query!r} asks for what is needed, and it was found."
    missed = call.lacking(call.retrieved)
    return (
        f"{query!r} does not ask for {call.listed(missed)}, which was not found." if missed else ""
    )


def writer(call: Call) -> str:
    """The final answer, and whether its evidence was in front of it."""
    lacking = call.lacking(call.shown) if call.shown else []
    answer = call.outputs.get("answer")
    if call.shown and lacking:
        return (
            f"You answered {answer!r} with part of the evidence missing "
            f"({call.listed(lacking)}): no wording mends that."
        )
    wanted = " or ".join(map(repr, call.question.answers[:3]))
    f1 = best_against(None if answer is None else str(answer), call.question.answers, "squad").f1
    if f1 >= 1.0:
        return f"{answer!r} is right."
    if f1 > 0:
        return f"{answer!r} is right in part: answer {wanted}, no more and no less."
    return f"{answer!r} is wrong although the evidence was there: it is {wanted}."


def router(call: Call) -> str:
    """Whether the kind of question was told right."""
    route = str(call.outputs.get("route", call.outputs.get("kind", "")))
    kind = call.question.kind
    return f"You took the question for {route!r}; it is of kind {kind!r}."


WRITERS: Mapping[str, Writer] = {
    "planner": planner,
    "resolver": resolver,
    "controller": controller,
    "sufficiency": controller,
    "actor": asker,
    "asker": asker,
    "coder": asker,
    "reasoner": asker,
    "expander": expander,
    "verifier": verifier,
    "rewriter": rewriter,
    "writer": writer,
    "synthesizer": writer,
    "router": router,
}


def _overlap(gold: str, query: str) -> float:
    """Share of the gold sub-question's words that a query has."""
    words = set(normal(gold).split())
    return len(words & set(normal(query).split())) / max(1, len(words))
