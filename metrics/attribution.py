"""Where the chain broke: one stage for each wrong answer, by these rules, the first that applies.

An answerable question is *wrong* when its EM is 0, an unanswerable one when it got an answer or
failed. Gold hops are the data set's; where it has none, one a supporting passage. A hop is
*retrieved* when any query found its passage, and *resolved* when some step answered with its
entity (token F1 of at least 0.8). A program *resolves hops* when it searched more than once and
asked a resolver or noted an answer at a step.

1. ``error``: the question failed. When the failure names the budget: ``budget``.
2. The question has no answer, yet got one: ``reading`` when the program resolves hops and resolved
   all that it searched (it read an answer out of passages that don't hold it), ``synthesis`` when
   it answered over an unresolved hop; ``reading`` when it resolves no hops.
3. No gold passage is known: ``unknown``.
4. The budget stopped it before every gold hop was retrieved and, where the program resolves hops
   of a gold chain, resolved: ``budget``.
5. A gold hop was never retrieved; the first such hop in the chain counts:
   a. it waits for a hop that was retrieved and never resolved, by a program that resolves hops:
      ``reading`` (a wrong entity at one hop spoils the next whatever is retrieved);
   b. no query asked for it: ``planning``;
   c. a query asked for it: ``retrieval``.
   A query *asks* for a hop when it holds the entities that the hop refers to, or for a hop that
   refers to none, at least half of the words of its gold sub-question. Where the data has no
   sub-questions: when there were at least as many different queries as gold hops.
6. Everything was retrieved:
   a. the program resolves no hops: ``reading``;
   b. a gold hop was never resolved (the first counts): ``reading``;
   c. in data without sub-questions: no step answered with the gold answer and, for a comparison
      or a yes/no question (whose answer no step holds), a search was left without an answer:
      ``reading``;
   d. all else: ``synthesis`` (the facts were there; the answer made of them, or its wording,
      is not gold).
"""

from __future__ import annotations

from collections.abc import Sequence
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
    if missing:
        return _not_retrieved(record, missing[0], unresolved)
    if not resolves:
        return "reading", "all gold passages were retrieved and read at once", None
    if unresolved:
        first = unresolved[0]
        return "reading", f"hop {first + 1}'s passage was there and its answer not found", first
    if not record.ordered and not _facts_found(record, searched):
        return "reading", "all gold passages were retrieved and no step has the answer", None
    return "synthesis", "every hop was retrieved and resolved; the final answer is not gold", None


def _not_retrieved(record: Record, hop: int, unresolved: Sequence[int]) -> Verdict:
    misread = sorted(set(unresolved) & told_needs(record, hop)) if record.gold else []
    if misread:
        first = misread[0]
        return "reading", f"hop {first + 1} was retrieved and its entity not found", first
    if _asked(record, hop):
        return "retrieval", f"a query asked for hop {hop + 1} and its passage did not come", hop
    return "planning", f"no query asked for hop {hop + 1}", hop


def _gold(record: Record) -> tuple[GoldStep, ...]:
    return record.gold or tuple(GoldStep(p) for p in record.supporting)


def _searched(record: Record) -> list[Step]:
    return [step for step in record.steps if step.passages]


def _unresolved(record: Record) -> list[int]:
    """Gold hops of a chain that no step resolved, in order."""
    if not record.ordered:
        return []
    return [n for n, hit in enumerate(resolved_hops(record)) if hit is False]


def _facts_found(record: Record, searched: Sequence[Step]) -> bool:
    found = [step.answer for step in searched if step.answer]
    if any(same_entity(a, gold) for a in found for gold in record.answers):
        return True
    compares = "comparison" in record.kind or any(
        normal_answer(a) in YES_NO for a in record.answers
    )
    return compares and len(found) == len(searched)


def _asked(record: Record, place: int) -> bool:
    queries = {normal_answer(step.query) for step in record.steps}
    hop = _gold(record)[place]
    if not record.ordered or hop.question is None:
        return len(queries) >= len(_gold(record))
    words = [frozenset(query.split()) for query in queries]
    entities = [
        frozenset(normal_answer(record.gold[n].answer or "").split())
        for n in needs(hop.question)
        if 0 <= n < place
    ]
    if entities:
        return any(all(entity <= query for entity in entities) for query in words)
    asked = frozenset(normal_answer(hop.question).split())
    return any(2 * len(asked & query) >= len(asked) for query in words)
