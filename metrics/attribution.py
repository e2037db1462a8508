"""Where the chain broke: one stage for each wrong answer, by these rules, the first that applies.

An answerable question is *wrong* when its EM is 0, an unanswerable one when it got an answer or
failed. Gold hops are the data set's; where it has none, one a supporting passage. A hop is
*retrieved* when any query found its passage, and *resolved* when some step answered with its
entity (token F1 of at least 0.8) or with that of a hop that refers to it. A program *resolves
hops* when it searched more than once and asked a resolver or noted an answer at a step.

1. ``error``: the question failed. When the failure names the budget: ``budget``.
2. The question has no answer, yet got one: ``reading`` when the program resolves hops and resolved
   all that it searched (it read an answer out of passages that don't hold it), ``synthesis`` when
   it answered over an unresolved hop; ``reading`` when it resolves no hops.
3. No gold passage is known: ``unknown``.
4. The budget stopped it before every gold hop was retrieved and, where the program resolves hops
   of a gold chain, resolved: ``budget``.
5. A gold hop was never retrieved. Of another system, whose passages are known and whose queries
   aren't: ``retrieval``. Else the first such hop in the chain is to blame, or the first hop that
   it waits for and that is unresolved:
   a. no query asked for it: ``planning``;
   b. queries asked for it and none of them found its passage: ``retrieval``;
   c. one did: ``reading`` (a wrong entity at one hop spoils the next whatever is retrieved).
6. Everything was retrieved:
   a. the program resolves no hops: ``reading``;
   b. a hop of a gold chain is unresolved: the first is to blame, by 5 a to c;
   c. in data without sub-questions, no step answered with the gold answer and, for a comparison
      or a yes/no question (whose answer no step holds), a search was left without an answer:
      ``reading``;
   d. all else: ``synthesis`` (the facts were there; the answer made of them, or its wording,
      is not gold).

A query *asks* for a hop when it holds the entities that the hop refers to, or for a hop that refers
to none, at least half of the words that are its sub-question's own (no question word, and in no
other sub-question of the chain). Where the data has no sub-questions, all queries ask for a hop
when there are at least as many different ones as gold hops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from metrics.answer import EM
from metrics.breakdown import Grouping, grouped
from metrics.chain import needs, resolved_hops, same_entity, told_needs
from metrics.normal import YES_NO, normal_answer
from metrics.record import GoldStep, Record, Step

Stage = Literal["planning", "retrieval", "reading", "synthesis", "budget", "error", "unknown"]
STAGES: tuple[Stage, ...] = (
    "planning",
    "retrieval",
    "reading",
    "synthesis",
    "budget",
    "error",
    "unknown",
)
MEANING: Mapping[Stage, str] = {
    "planning": "no query asked for a gold hop",
    "retrieval": "a query asked for a gold hop and its passage did not come",
    "reading": "the passage was there and its fact was not read out of it",
    "synthesis": "all hops were found; the answer made of them is not gold",
    "budget": "a bound ended the question before its hops were done",
    "error": "the question failed",
    "unknown": "no gold passage is known, or not what was retrieved",
}
"""What each stage means, in one line; the rules are in this module's docstring."""
_QUESTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "what which who whom whose when where why how many much is are was were do does did has "
        "have had in on at of for to by from with and",
    )
)


@dataclass(frozen=True, slots=True)
class Broken:
    """Why an answer is wrong."""

    stage: Stage
    why: str
    """One sentence."""
    hop: int | None = None
    """The gold hop (1-based) at which it broke, where one can be named."""
    never_retrieved: tuple[int, ...] = ()
    """Gold hops (1-based) whose passage no query found."""


def is_wrong(record: Record) -> bool:
    """Whether the record counts as a wrong answer."""
    if record.error is not None:
        return True
    return record.answer is not None if not record.answerable else EM.score(record) != 1.0


def broken_stage(record: Record) -> Stage | None:
    """The stage that broke; None for a right answer."""
    broken = attribute(record)
    return None if broken is None else broken.stage


def attribute(record: Record) -> Broken | None:
    """The stage, the gold hop and why; None for a right answer."""
    if not is_wrong(record):
        return None
    gold = _gold(record)
    found = {p for step in record.steps for p in step.passages} | set(record.ranked)
    missing = tuple(
        n for n, hop in enumerate(gold) if hop.passage is not None and hop.passage not in found
    )
    stage, why, hop = _rule(record, gold, missing)
    return Broken(stage, why, None if hop is None else hop + 1, tuple(n + 1 for n in missing))


def attribution_table(
    records: Sequence[Record], by: Grouping = "hops"
) -> dict[str, dict[str, int]]:
    """``{group: {"n", "wrong", stage: count, …}}`` with a last group ``all``; the stages of a row
    add up to its ``wrong``."""
    groups = {**grouped(records, by), "all": list(records)}
    return {label: _counts(group) for label, group in groups.items()}


def _counts(records: Sequence[Record]) -> dict[str, int]:
    stages = [broken_stage(r) for r in records]
    return {
        "n": len(stages),
        "wrong": sum(s is not None for s in stages),
        **{stage: stages.count(stage) for stage in STAGES},
    }


Verdict = tuple[Stage, str, "int | None"]


def _rule(record: Record, gold: Sequence[GoldStep], missing: Sequence[int]) -> Verdict:
    if record.error is not None:
        if "budget" in record.error.casefold():
            return "budget", f"the budget left no answer: {record.error}", None
        return "error", f"the question failed: {record.error}", None
    searched = _searched(record)
    resolves = len(searched) > 1 and (
        "resolver" in record.usage_by_role or any(s.answer for s in searched)
    )
    if not record.answerable:
        if resolves and not all(s.answer for s in searched):
            return "synthesis", "it answered over a hop that was not resolved", None
        return "reading", "it read an answer out of passages that don't hold it", None
    if all(hop.passage is None for hop in gold):
        return "unknown", "no gold passage of this question is known", None
    unresolved = _unresolved(record) if resolves else []
    if record.stop_reason == "budget" and (missing or unresolved):
        first = min([*missing, *unresolved])
        return "budget", f"the budget ended before hop {first + 1} was done", first
    if missing and not record.steps and record.ranked:
        return "retrieval", f"hop {missing[0] + 1}'s passage was not retrieved", missing[0]
    if missing:
        return _blame(record, _first_to_blame(record, missing[0], unresolved))
    if not resolves:
        return "reading", "all gold passages were retrieved and read at once", None
    if unresolved:
        return _blame(record, unresolved[0])
    if not record.ordered and not _facts_found(record, searched):
        return "reading", "all gold passages were retrieved and no step has the answer", None
    return "synthesis", "every hop was retrieved and resolved; the final answer is not gold", None


def _first_to_blame(record: Record, missing: int, unresolved: Sequence[int]) -> int:
    waits = told_needs(record, missing) if record.gold else set()
    return min(waits.intersection(unresolved), default=missing)


def _blame(record: Record, place: int) -> Verdict:
    asking = _asking(record, place)
    if not asking:
        return "planning", f"no query asked for hop {place + 1}", place
    if any(_gold(record)[place].passage in step.passages for step in asking):
        return "reading", f"hop {place + 1} was retrieved and its entity not found", place
    return "retrieval", f"a query asked for hop {place + 1} and its passage did not come", place


def _gold(record: Record) -> tuple[GoldStep, ...]:
    return record.gold or tuple(GoldStep(p) for p in record.supporting)


def _searched(record: Record) -> list[Step]:
    return [step for step in record.steps if step.passages]


def _unresolved(record: Record) -> list[int]:
    """Gold hops of a chain that no step resolved, in order."""
    if not record.ordered:
        return []
    hits = resolved_hops(record)
    implied = {m for n, hit in enumerate(hits) if hit for m in needs(record.gold[n].question)}
    return [n for n, hit in enumerate(hits) if hit is False and n not in implied]


def _facts_found(record: Record, searched: Sequence[Step]) -> bool:
    found = [step.answer for step in searched if step.answer]
    if any(same_entity(a, gold) for a in found for gold in record.answers):
        return True
    compares = "comparison" in record.kind or any(
        normal_answer(a) in YES_NO for a in record.answers
    )
    return compares and len(found) == len(searched)


def _asking(record: Record, place: int) -> list[Step]:
    """The steps whose query asks for a gold hop."""
    hop = _gold(record)[place]
    said = [frozenset(normal_answer(step.query).split()) for step in record.steps]
    if not record.ordered or hop.question is None:
        return list(record.steps) if len(set(said)) >= len(_gold(record)) else []
    entities = [
        frozenset(normal_answer(record.gold[n].answer or "").split())
        for n in needs(hop.question)
        if 0 <= n < place
    ]
    own = _own_words(record.gold, place)
    return [
        step
        for step, words in zip(record.steps, said, strict=True)
        if (all(e <= words for e in entities) if entities else 2 * len(own & words) >= len(own))
    ]


def _own_words(gold: Sequence[GoldStep], place: int) -> frozenset[str]:
    """Of "In which year was Heat made?" beside "In which year was Ronin made?": ``{heat}``; all
    words of a sub-question that has none of its own."""
    said = [frozenset(normal_answer(hop.question or "").split()) for hop in gold]
    others = frozenset[str]().union(*(words for n, words in enumerate(said) if n != place))
    return said[place] - _QUESTION_WORDS - others or said[place]
