"""The oracle's answers for PAR²-RAG and Hi-Q, from the gold chain."""

from __future__ import annotations

from typing import Any

import signatures
from benchmarks.needs import Need, depends, joined, need_of, normal, worded
from benchmarks.oracle import Asked, OracleError, answers, resolve
from benchmarks.question import Question


def chain_of(gold: Question) -> Question:
    """The question, if it has a decomposition. Raises ``OracleError``."""
    if not gold.ordered:
        raise OracleError(
            "this data set has no decomposition: the oracle can't plan its questions; use musique, "
            "2wikimultihopqa or synthetic"
        )
    return gold


def read(asked: Asked) -> frozenset[int]:
    """Hops whose answers the shown passages give: their own passage and those of the hops that
    they wait for."""
    known: set[int] = set()
    for i, hop in enumerate(asked.gold.hops):
        if hop.passage in asked.shown and set(depends(asked.gold.hops, i)) <= known:
            known.add(i)
    return frozenset(known)


@answers(signatures.PlanCoverage)
def _coverage(asked: Asked) -> dict[str, Any]:
    """Each hop's sub-question, with earlier hops described and not answered, and the question."""
    gold = chain_of(asked.gold)
    queries = [worded(gold.hops, i) for i in range(len(gold.hops))]
    return {"sub_queries": [*queries, gold.question][: int(asked.inputs["limit"])]}


@answers(signatures.Sufficiency)
def _sufficiency(asked: Asked) -> dict[str, Any]:
    """Enough when all gold passages are shown; else the first hop that isn't, its references
    filled from those that are. That of a question without an answer is asked for for ever."""
    if asked.covered():
        return {"missing": "", "sufficient": True, "follow_up": None}
    gold = chain_of(asked.gold)
    known = read(asked)
    lacking = [i for i in range(len(gold.hops)) if i not in known]
    follow_up = worded(gold.hops, lacking[0], known) if lacking else None
    return {"missing": follow_up or "", "sufficient": False, "follow_up": follow_up}


@answers(signatures.Condense)
def _condense(asked: Asked) -> dict[str, Any]:
    """Gold passages as they are, the others dropped."""
    shown = asked.inputs["context"]
    blocks = zip(shown.ids, shown.blocks, strict=True)
    return {"notes": [b if i in asked.gold.supporting else "" for i, b in blocks]}


@answers(signatures.ResolveScored)
def _resolve_scored(asked: Asked) -> dict[str, Any]:
    """Certain either way: the passages state the answer or they don't."""
    answer = resolve(asked)["answer"]
    return {"answer": answer, "unresolved": float(answer is None)}


@answers(signatures.Expand)
def _expand(asked: Asked) -> dict[str, Any]:
    need = need_of(chain_of(asked.gold), asked.inputs["query"])
    return {"needs": need.halves(asked.gold.hops) if need else []}


@answers(signatures.RepairSplit)
def _repair_split(asked: Asked) -> dict[str, Any]:
    return _expand(asked)


@answers(signatures.VerifySplit)
def _verify(asked: Asked) -> dict[str, Any]:
    """Whether the split is the gold one."""
    covers = [*asked.inputs["needs"]] == _expand(asked)["needs"]
    return {"fault": "" if covers else "not what the question asks", "covers": covers}


@answers(signatures.Rewrite)
def _rewrite(asked: Asked) -> dict[str, Any]:
    """With every answer that facts or passages give; what they don't give stays described."""
    query = asked.inputs["query"]
    before = query_of(asked.inputs["previous"])[0]
    prerequisite = need_of(asked.gold, before)
    just_found = prerequisite.targets[0] if prerequisite else None
    need = need_of(asked.gold, query, just_found)
    if need is None:
        return {"rewritten": query}
    known = need.known | solved(asked) | read(asked)
    return {"rewritten": joined(asked.gold.hops, need.targets, known)}


@answers(signatures.SynthesizeNeeds)
def _synthesize(asked: Asked) -> dict[str, Any]:
    """From facts, where each thing asked for is among them, or from the passages."""
    gold = asked.gold
    need = need_of(gold, asked.inputs["question"])
    if need is None:
        return {"answer": None}
    root = normal(asked.inputs["question"]) == normal(gold.question)
    if settled(asked, need, root):
        return {"answer": gold.answer if root else gold.hops[need.targets[0]].answer}
    return {"answer": None}


def settled(asked: Asked, need: Need, root: bool) -> bool:
    """Whether what a node asks for is known. Several things have one answer at the root alone."""
    gold = asked.gold
    if root and (asked.covered() or not gold.answerable):
        return bool(gold.answerable)
    known = solved(asked) | read(asked)
    return set(need.targets) <= known and (root or len(need.targets) == 1)


def solved(asked: Asked) -> frozenset[int]:
    """Hops whose right answers are among the facts."""
    found = set()
    for fact in asked.inputs.get("facts", ()):
        query, answer = query_of(fact)
        need = need_of(asked.gold, query)
        if need is None or len(need.targets) != 1:
            continue
        gold = asked.gold.hops[need.targets[0]].answer
        if gold and normal(gold) in map(normal, answer.split(" or ")):
            found.add(need.targets[0])
    return frozenset(found)


def query_of(fact: str) -> tuple[str, str]:
    """``(query, answers)`` of a fact line."""
    query, _, answer = str(fact).rpartition(" → ")
    return query, answer
