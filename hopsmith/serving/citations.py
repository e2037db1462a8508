"""Which passages an answer rests on, for footnotes and for training questions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from programs.evidence import Evidence, Hop
from retrieval import Passage


def support(hop: Hop) -> Passage | None:
    """The passage that a hop's answer rests on: the best-ranked one that states it, word for word;
    when none does, the best-ranked. None for a hop without an answer or without passages."""
    if hop.answer is None or not hop.passages:
        return None
    wanted = words(hop.answer)
    stating = (p for p in hop.passages if wanted and wanted in words(f"{p.title} {p.text}"))
    return next(stating, hop.passages[0])


def cited(evidence: Evidence, answer: str | None, named: Iterable[str] = ()) -> tuple[str, ...]:
    """Ids of the passages to cite, in reading order.

    Those that the program itself names; else the support of each hop that found something, and
    where no hop did, the best-ranked passage that states the answer.
    """
    pool = {p.id: p for p in evidence.passages}
    chosen = [i for i in named if i in pool]
    if not chosen:
        chosen = [p.id for hop in evidence.hops if (p := support(hop)) is not None]
    if not chosen and answer:
        whole = Hop(0, None, 0, "", "", "", passages=evidence.ranked(), answer=answer)
        found = support(whole)
        chosen = [found.id] if found is not None else []
    return tuple(dict.fromkeys(chosen))


def words(text: str) -> str:
    """Lower-cased words with single spaces around each, so that ``in`` compares whole words."""
    found = re.findall(r"\w+", text.casefold())
    return f" {' '.join(found)} " if found else ""
