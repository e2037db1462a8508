"""Advice: what a run says about budget and corpus, in sentences that name what to do."""

from __future__ import annotations

from collections.abc import Sequence

from metrics.record import Record
from programs import HopBudget, MultiHopProgram

WORTH_SAYING = 0.1
"""Share of questions from which on a cap is spoken of."""
GUIDE = (4, 6)
"""Hops, the first retrieval included, within which the guide says to cap."""


def advice(program: MultiHopProgram, records: Sequence[Record]) -> list[str]:
    """Sentences about a run of ``program``, most important first; none when nothing stands out."""
    return [line for line in (_about_caps(program, records),) if line]


def _about_caps(program: MultiHopProgram, records: Sequence[Record]) -> str | None:
    capped = [record for record in records if record.at_cap]
    if not capped or len(capped) < WORTH_SAYING * len(records):
        return None
    budget = program.budget
    out_of_calls = sum(record.usage.lm_calls >= budget.lm_calls - 1 for record in capped)
    share = f"{len(capped) / len(records):.0%} of the questions ended at a cap"
    if 2 * out_of_calls > len(capped):
        return (
            f"{share}, most of them at lm_calls={budget.lm_calls}: raise it (--budget "
            f"lm_calls={2 * budget.lm_calls}), or see with hopsmith show what the calls go into"
        )
    if "hops" not in {knob.name for knob in program.knobs}:
        return f"{share}: see with hopsmith show at which one"
    return f"{share}, {_about_hops(budget)}"


def _about_hops(budget: HopBudget) -> str:
    """What the guide says of a hop cap that is hit: raise it up to 6, then mend the corpus."""
    low, high = GUIDE
    retrievals = budget.hops + 1
    told = f"hops={budget.hops} ({retrievals} retrievals with the first)"
    if retrievals < low:
        return f"{told}: try --budget hops={low - 1} to {high - 1}"
    mend = (
        "what needs more hops than that mostly has a corpus that is too fragmented: link its "
        "documents, cut it into larger passages, or build a graph (hopsmith graph)"
    )
    if retrievals < high:
        return f"{told}: try --budget hops={high - 1}, and no more; {mend}"
    return f"{told}, where the guide caps at {low} to {high}: {mend}"
