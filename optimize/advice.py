"""Advice: what a run says about budget and corpus, in sentences that name what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from metrics.record import Record
from programs import MultiHopProgram

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
    share = f"{len(capped) / len(records):.0%} of the questions ended at a cap"
    bounds = Counter(bound_of(program, record) for record in capped)
    (bound, count), *others = bounds.most_common()
    most = f"{share}, {count} of {len(capped)} at" if others else f"{share}, all at"
    name, _, value = bound.partition("=")
    if name == "lm_calls":
        return (
            f"{most} {bound}: raise it (--budget lm_calls={2 * int(value)}), or see with hopsmith "
            "show what the calls go into"
        )
    if name == "hops":
        return f"{most} {_about_hops(int(value))}"
    return f"{most} {bound}: see with hopsmith show what came before it"


def bound_of(program: MultiHopProgram, record: Record) -> str:
    """The bound that a question ran into; of a run that doesn't say, the likeliest."""
    budget = program.budget
    if record.cap:
        return record.cap
    if record.usage.lm_calls >= budget.lm_calls - 1:
        return f"lm_calls={budget.lm_calls}"
    if "hops" in {knob.name for knob in program.knobs}:
        return f"hops={budget.hops}"
    return "a bound that the run doesn't name"


def _about_hops(hops: int) -> str:
    """What the guide says of a hop cap that is hit: raise it up to 6, then mend the corpus."""
    low, high = GUIDE
    retrievals = hops + 1
    told = f"hops={hops} ({retrievals} retrievals with the first)"
    if retrievals < low:
        return f"{told}: try --budget hops={low - 1} to {high - 1}"
    mend = (
        "what needs more hops than that mostly has a corpus that is too fragmented: link its "
        "documents, cut it into larger passages, or build a graph (hopsmith graph)"
    )
    if retrievals < high:
        return f"{told}: try --budget hops={high - 1}, and no more; {mend}"
    return f"{told}, where the guide caps at {low} to {high}: {mend}"
