"""The oracle's answers for graph, router and extraction, from gold chains and given facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import signatures
from benchmarks.needs import depends, normal
from benchmarks.oracle import READERS, Asked, answers
from benchmarks.oracle_guide import next_need
from benchmarks.oracle_papers import chain_of
from signatures.roles import field_key


@answers(signatures.Classify)
def _classify(asked: Asked) -> dict[str, Any]:
    """What a comparison compares it must name: of things that are described it is a bridge."""
    kind = asked.gold.kind
    return {"kind": kind if kind in ("single", "comparison") else "bridge"}


@answers(signatures.FollowEdges)
def _follow(asked: Asked) -> dict[str, Any]:
    """The edges that state the hops whose subjects are known; the gold answer when all hops are."""
    gold = chain_of(asked.gold)
    known = walked(asked, asked.inputs["facts"])
    ready = [
        i for i in range(len(gold.hops)) if i not in known and known >= {*depends(gold.hops, i)}
    ]
    lines = asked.inputs["edges"].lines
    follow = [n for n, line in enumerate(lines, 1) if any(states(asked, line, i) for i in ready)]
    known |= walked(asked, [*asked.inputs["facts"], *(lines[n - 1] for n in follow)])
    whole = gold.answerable and len(known) == len(gold.hops)
    return {
        "follow": follow,
        "answer": gold.answer if whole else None,
        "look_up": None if follow or whole else next_need(asked, known),
    }


def walked(asked: Asked, facts: Sequence[str]) -> set[int]:
    """The hops that edges state. One whose subject the gold chain calls by another name stands for
    the first hop that has its object for an answer and no edge of its own."""
    hops = range(len(asked.gold.hops))
    known = {i for i in hops if any(states(asked, fact, i) for fact in facts)}
    for fact in facts:
        if not any(states(asked, fact, i) for i in hops):
            known |= {*[i for i in hops if i not in known and _end(asked, fact, i)][:1]}
    return known


def states(asked: Asked, line: str, hop: int) -> bool:
    """Whether an edge gives a hop's answer for the subject that its sub-question names, either
    way round; or, for a subject by another name, from the hop's own passage."""
    gold, text = asked.chain()[hop]
    end = _end(asked, line, hop)
    shown = asked.inputs["edges"]
    stated = dict(zip(shown.lines, shown.ids, strict=False)).get(line)
    if end is None:
        return False
    return normal(end) in normal(text) or stated == gold.passage is not None


def _end(asked: Asked, line: str, hop: int) -> str | None:
    """The name at the other end of an edge from a hop's answer, if it has that."""
    answer = asked.gold.hops[hop].answer
    subject, _, rest = line.partition(" | ")
    found = rest.partition(" | ")[2]
    wanted = {normal(part) for part in (answer or "").split(", ")} | {normal(answer or "")}
    if normal(found) in wanted:
        return subject
    return found if normal(subject) in wanted else None


def _read_triples(facts: Sequence[signatures.Triple]) -> dict[str, Any]:
    return {
        "triples": [
            signatures.Statement(
                subject=t.subject,
                subject_type=t.subject_type,
                relation=t.relation,
                object=t.object,
                object_type=t.object_type,
            )
            for t in facts
        ]
    }


def _read_propositions(facts: Sequence[signatures.Triple]) -> dict[str, Any]:
    return {
        "propositions": [
            signatures.Claim(
                text=f"{t.subject}: {t.relation} {t.object}.", entities=[t.subject, t.object]
            )
            for t in facts
        ]
    }


READERS[field_key(signatures.ExtractTriples)] = _read_triples
READERS[field_key(signatures.ExtractPropositions)] = _read_propositions
