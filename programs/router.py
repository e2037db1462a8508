"""router: what kind of question it is decides the method (guide, "Combining approaches in
practice")."""

from __future__ import annotations

from typing import TypeVar

from programs.agentic import Agentic
from programs.arguments import check_part, is_number
from programs.budget import HopBudget, think
from programs.decompose import Decompose
from programs.direct import Direct
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence
from programs.graph import Graph
from programs.knowledge.graph import Knowledge
from programs.program import MethodInfo, MultiHopProgram
from programs.single_shot import SingleShot
from programs.step import Step
from retrieval import Retriever
from signatures import Classify

ROUTES = {"none": "direct", "single": "single_shot", "comparison": "decompose"}
"""Part by kind of question; a bridge goes to ``graph`` or ``agentic``."""
ENDS = ("answer", "evidence", "stop_reason", "error", "usage", "cap")
P = TypeVar("P", bound=MultiHopProgram)


class Router(MultiHopProgram):
    """One cheap call before any retrieval classifies the question; a part answers it.

    none → ``direct``, single → ``single_shot``, comparison → ``decompose``, whose independent
    sub-questions are one search and are asked at once; bridge → ``graph`` where it covers the type
    of an entity that the question names, ``agentic`` otherwise and where there is no graph. Each
    part may be another method, a compiled one say.

    Decisions of ours: a type is covered when at least the share ``coverage`` of its entities has
    an edge of its own; a question that can't be classified is taken for a bridge, and one that
    there is no call to classify for a single.
    """

    info = MethodInfo(
        "router",
        "guide: combining approaches in practice",
        "classify the question, then answer it by the method for its kind",
        parts=("direct", "single_shot", "decompose", "agentic", "graph"),
        graph="used",
    )
    knobs = think("router")
    defaults = {"hops": 4}
    """Of ``agentic``, so that another number is handed on to it."""

    def __init__(
        self,
        retriever: Retriever,
        budget: HopBudget | None = None,
        knowledge: Knowledge | None = None,
        coverage: float = 0.5,
        direct: MultiHopProgram | None = None,
        single_shot: MultiHopProgram | None = None,
        decompose: MultiHopProgram | None = None,
        agentic: MultiHopProgram | None = None,
        graph: MultiHopProgram | None = None,
    ) -> None:
        given = {"direct": direct, "single_shot": single_shot, "decompose": decompose}
        for part, program in {**given, "agentic": agentic, "graph": graph}.items():
            check_part("router", part, program)
        if not is_number(coverage) or not 0 <= coverage <= 1:
            raise ProgramError(f"coverage is a share from 0 to 1, got {coverage!r}")
        if graph is not None and knowledge is None:
            raise ProgramError("a router with a graph part needs that graph: give knowledge=…")
        super().__init__(retriever, budget, coverage=coverage)
        self.coverage = coverage
        self.knowledge = knowledge

        def own(method: type[P]) -> HopBudget | None:
            return budget and budget.handed_on(method.default_budget(), self.default_budget())

        self.direct = direct or Direct(retriever, own(Direct))
        self.single_shot = single_shot or SingleShot(retriever, own(SingleShot))
        self.decompose = decompose or Decompose(retriever, own(Decompose))
        self.agentic = agentic or Agentic(retriever, own(Agentic))
        self.graph = graph or (
            None if knowledge is None else Graph(retriever, own(Graph), knowledge)
        )
        self.router = Step(Classify, "router", fallback={"kind": "bridge"})

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        reply = self.ask(self.router, question=question)
        kind = str(reply.kind)
        route, why = ROUTES.get(kind, ""), ""
        if not route:
            route, why = self.bridge(question)
        hop = evidence.add(
            role="router",
            query=question,
            status="error" if reply.get("error") else "resolved",
            error=reply.get("error"),
            note=f"{kind} → {route}{why}",
        )
        return self.take(route, kind, question, evidence, hop.id)

    def bridge(self, question: str) -> tuple[str, str]:
        """The part for a question with a bridge, and why."""
        if self.knowledge is None or self.graph is None:
            return "agentic", ""
        named = self.knowledge.named_in(question)
        if not named:
            return "agentic", " (names no entity of the graph)"
        types = sorted({*self.knowledge.types([entity.key for entity in named]).values()})
        known = self.knowledge.coverage
        covered = [t for t in types if t in known and known[t].share >= self.coverage]
        if covered:
            return "graph", f" ({', '.join(covered)} covered)"
        return "agentic", f" ({', '.join(types)} not covered)"

    def take(
        self, route: str, kind: str, question: str, evidence: Evidence, hop: int | None = None
    ) -> Conclusion:
        """A part's conclusion; its hops hang below ``hop``."""
        made = self.parts[route](question=question)
        evidence.extend(made.evidence, hop)
        extra = {name: value for name, value in made.items() if name not in ENDS}
        told = {**extra, "route": route, "question_kind": kind}
        return Conclusion(made.answer, made.stop_reason, made.error, told, made.get("cap") or "")

    def at_cap(self, question: str, evidence: Evidence) -> Conclusion:
        """The part has spent all calls by itself; where there was none to classify, one reading is
        what is left."""
        if evidence.hops:
            return super().at_cap(question, evidence)
        return self.take("single_shot", "unknown", question, evidence)
