"""Methods by name: ours, and those that installed packages add through the entry-point group
``hopsmith.methods`` (each a MultiHopProgram subclass), loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from programs.arguments import check_arguments
from programs.budget import HopBudget
from programs.errors import ProgramError
from programs.knowledge.graph import Knowledge
from programs.program import MethodInfo, MultiHopProgram
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


def names() -> tuple[str, ...]:
    """Every method's name, ours first; those of plug-ins whether they can be loaded or not."""
    return tuple(dict.fromkeys((*OURS, *(point.name for point in _points()))))


def method(name: str) -> type[MultiHopProgram]:
    """The class of a method; no other is loaded. Raises ``ProgramError``: no such name, with those
    there are, or a plug-in that can't be loaded."""
    if name in OURS:
        module, _, attribute = OURS[name].partition(":")
        ours: type[MultiHopProgram] = getattr(import_module(module), attribute)
        return ours
    points = [point for point in _points() if point.name == name]
    if not points:
        raise ProgramError(f"no method {name!r}; there are {', '.join(sorted(names()))}")
    if len(points) > 1:
        raise ProgramError(
            f"method {name} is brought by {' and '.join(map(_origin, points))}: uninstall all but "
            "one"
        )
    return _load(points[0])


def methods() -> Mapping[str, type[MultiHopProgram]]:
    """Every method that can be loaded by name, ours first; ``unloadable`` tells of the others."""
    return _loaded()[0]


def unloadable() -> tuple[str, ...]:
    """Of each plug-in that can't be had: why, and the mend."""
    return _loaded()[1]


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=ENTRY_POINTS), key=lambda p: (p.name, p.value)))


@cache
def _loaded() -> tuple[Mapping[str, type[MultiHopProgram]], tuple[str, ...]]:
    found: dict[str, type[MultiHopProgram]] = {}
    faults = [
        f"method {point.name} of {_origin(point)} has the name of one of ours: rename its entry "
        "point"
        for point in _points()
        if point.name in OURS
    ]
    for name in names():
        try:
            found[name] = method(name)
        except ProgramError as fault:
            faults.append(str(fault))
    return found, tuple(faults)


def _load(point: EntryPoint) -> type[MultiHopProgram]:
    about = f"method {point.name} of {_origin(point)}"
    try:
        made = point.load()
    except (Exception, SystemExit) as fault:
        why = " ".join(f"{type(fault).__name__}: {fault}".split())
        raise ProgramError(
            f"{about} can't be loaded ({why}): mend or uninstall that package"
        ) from fault
    if not (isinstance(made, type) and issubclass(made, MultiHopProgram)):
        raise ProgramError(
            f"{about} is not a MultiHopProgram class: mend or uninstall that package"
        )
    if not isinstance(getattr(made, "info", None), MethodInfo):
        raise ProgramError(f"{about} lacks its info: give the class info = MethodInfo(…)")
    return made


def _origin(point: EntryPoint) -> str:
    """Package and place of an entry point."""
    package = point.dist.name if point.dist is not None else "an unnamed package"
    return f"{package} ({point.value})"


def check_roles(names: Iterable[str]) -> None:
    """Raises ``ProgramError`` for a role in which no step asks. Where own methods are installed any
    role may be one of theirs."""
    unknown = sorted(set(names) - ROLES)
    if unknown and not _points():
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
