"""Methods by name: ours, and those that installed packages add through the entry-point group
``hopsmith.methods`` (each a MultiHopProgram subclass)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from programs.arguments import check_arguments
from programs.budget import HopBudget
from programs.errors import ProgramError
from programs.knowledge.graph import Knowledge
from programs.program import MultiHopProgram
from programs.step import ROLES
from retrieval import Retriever

ENTRY_POINTS = "hopsmith.methods"

OURS: dict[str, str] = {
    "single_shot": "programs.single_shot:SingleShot",
    "decompose": "programs.decompose:Decompose",
    "agentic": "programs.agentic:Agentic",
    "direct": "programs.direct:Direct",
    "cot": "programs.cot:ChainOfThought",
    "long_context": "programs.long_context:LongContext",
    "golden": "programs.golden:Golden",
    "react": "programs.react:ReAct",
    "code_agent": "programs.code_agent:CodeAgent",
    "rlm": "programs.rlm:RLM",
    "self_ask": "programs.self_ask:SelfAsk",
    "ircot": "programs.ircot:IRCoT",
    "graph": "programs.graph:Graph",
    "router": "programs.router:Router",
    "proprag": "programs.proprag:PropRAG",
    "coverage_anchor": "programs.par2:CoverageAnchor",
    "iterative_chain": "programs.par2:IterativeChain",
    "par2": "programs.par2:Par2",
    "hiq": "programs.hiq:HiQ",
    "hiq_depth1": "programs.hiq_variants:HiQDepth1",
    "hiq_static": "programs.hiq_variants:HiQStatic",
    "hiq_independent": "programs.hiq_variants:HiQIndependent",
    "hiq_always": "programs.hiq_variants:HiQAlways",
    "hiq_unverified": "programs.hiq_variants:HiQUnverified",
    "hiq_threshold": "programs.hiq_variants:HiQThreshold",
}


@cache
def methods() -> Mapping[str, type[MultiHopProgram]]:
    """Every method by name, ours first. Raises ``ProgramError`` for a plug-in that is none."""
    found = {name: _load(name, where) for name, where in OURS.items()}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
        if point.name in found:
            raise ProgramError(f"method {point.name} of {point.value} has a name that is taken")
        found[point.name] = _load(point.name, point.value)
    return found


def _load(name: str, where: str) -> type[MultiHopProgram]:
    module, _, attribute = where.partition(":")
    made = getattr(import_module(module), attribute, None)
    if not (isinstance(made, type) and issubclass(made, MultiHopProgram)):
        raise ProgramError(f"method {name}: {where} is not a MultiHopProgram class")
    return made


def method(name: str) -> type[MultiHopProgram]:
    """The class of a method. Raises ``ProgramError`` that lists the names there are."""
    if name not in methods():
        raise ProgramError(f"no method {name!r}; there are {', '.join(sorted(methods()))}")
    return methods()[name]


def check_roles(names: Iterable[str]) -> None:
    """Raises ``ProgramError`` for a role in which no step asks. Where own methods are installed any
    role may be one of theirs."""
    unknown = sorted(set(names) - ROLES)
    if unknown and set(methods()) == set(OURS):
        raise ProgramError(f"no step asks as {unknown[0]!r}; roles are {', '.join(sorted(ROLES))}")


def build(
    name: str,
    /,
    retriever: Retriever,
    budget: HopBudget | None = None,
    *,
    knowledge: Knowledge | None = None,
    **arguments: Any,
) -> MultiHopProgram:
    """A method over a retriever; ``arguments`` go to its constructor, and so does the graph of the
    corpus where the method takes one. Raises ``ProgramError``."""
    cls = method(name)
    check_arguments(name, cls, arguments)
    if cls.info.graph and knowledge is not None:
        arguments["knowledge"] = knowledge
    if cls.info.graph == "needed" and knowledge is None:
        raise ProgramError(
            f"method {name} needs a graph of the corpus: hopsmith graph --index DIR makes one, "
            "--graph names one that lies elsewhere"
        )
    try:
        return cls(retriever, budget, **arguments)
    except TypeError as fault:
        raise ProgramError(f"method {name}: {fault}") from fault
