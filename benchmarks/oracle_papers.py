"""The oracle's answers for PAR²-RAG and Hi-Q, from the gold chain."""

from __future__ import annotations

from typing import Any

import signatures
from benchmarks.needs import depends, worded
from benchmarks.oracle import Asked, OracleError, answers
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
        if hop.passage in asked.shown and set(depends(asked.gold, i)) <= known:
            known.add(i)
    return frozenset(known)


@answers(signatures.PlanCoverage)
def _coverage(asked: Asked) -> dict[str, Any]:
    """Each hop's sub-question, with earlier hops described and not answered."""
    gold = chain_of(asked.gold)
    queries = [worded(gold, i) for i in range(len(gold.hops))]
    return {"sub_queries": queries[: int(asked.inputs["limit"])]}


@answers(signatures.Sufficiency)
def _sufficiency(asked: Asked) -> dict[str, Any]:
    """Enough when all gold passages are shown; else the first hop that isn't, its references
    filled from those that are. That of a question without an answer is asked for for ever."""
    if asked.covered():
        return {"missing": "", "sufficient": True, "follow_up": None}
    gold = chain_of(asked.gold)
    known = read(asked)
    lacking = [i for i in range(len(gold.hops)) if i not in known]
    follow_up = worded(gold, lacking[0], known) if lacking else None
    return {"missing": follow_up or "", "sufficient": False, "follow_up": follow_up}


@answers(signatures.Condense)
def _condense(asked: Asked) -> dict[str, Any]:
    """Gold passages as they are, the others dropped."""
    shown = asked.inputs["context"]
    blocks = zip(shown.ids, shown.blocks, strict=True)
    return {"notes": [b if i in asked.gold.supporting else "" for i, b in blocks]}
