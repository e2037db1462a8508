"""Diagnostics of Hi-Q's trigger: does it fire where the evidence is truly insufficient, and does
splitting then find what was missing?

From the hops of a run of Hi-Q or a variant, and the questions' gold passages. A question is
*triggered* when its root, tried as a single hop first, was not read. Definitions follow the
paper's names (Main Findings, "unresolved-support trigger"); where its text leaves one open, ours is
written at the field.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.question import Question
from metrics.normal import best_against
from metrics.significance import Interval, mean_interval
from optimize.errors import RunError
from optimize.rows import HopRow, PredictionRow
from optimize.saved import SavedRun
from programs.trigger import fit_threshold, stated

CAUSES = (
    "granularity mismatch",
    "annotation error",
    "malformed sub-query",
    "false abstention",
    "reader failure",
)
"""By which triggered cases are labelled."""
MEASURES: Mapping[str, str] = {
    "triggered": "share of questions whose root was not read at its first try",
    "precision": "triggered: the root's k passages truly lack a gold passage, or the question has "
    "no answer",
    "missed": "not triggered: the root's k passages lack a gold passage",
    "root@k": "triggered: all gold passages are among the root's k",
    "leaf@k": "triggered: all gold passages are among the k best of the leaves' passages, by best "
    "rank within a leaf",
    "leaf@all": "triggered: all gold passages are among the leaves' passages",
    "recovery": "triggered and answerable: the final answer is an exact match",
    "false_rejection": "answerable: no answer was given",
    "false_acceptance": "unanswerable: an answer was given",
    "repaired": "of splits that were carried out: the verifier had them repaired",
}


@dataclass(frozen=True)
class Case:
    """One question of a Hi-Q run, as the trigger saw it."""

    question: Question
    row: PredictionRow
    k: int

    @property
    def root(self) -> HopRow:
        return self.row.hops[0]

    @property
    def nodes(self) -> list[HopRow]:
        """Nodes of the tree below the root; wider readings of a node are none."""
        return [h for h in self.row.hops[1:] if h.source != "wider"]

    @property
    def triggered(self) -> bool:
        """The root was split, read wider, or left null."""
        later = any(h.parent == self.root.id for h in self.row.hops[1:])
        return later or self.root.status != "resolved"

    @property
    def gold(self) -> frozenset[str]:
        return frozenset(self.question.supporting)

    def covered(self, passages: Collection[str]) -> bool:
        return self.gold <= set(passages)

    @property
    def leaves(self) -> list[list[str]]:
        """Passages of each leaf, wider readings after the node's own."""
        parents = {h.parent for h in self.nodes}
        leaves = [h for h in self.nodes if h.id not in parents] or [self.root]
        wider = {
            leaf.id: [
                p
                for h in self.row.hops
                if h.source == "wider" and h.parent == leaf.id
                for p in h.passages
            ]
            for leaf in leaves
        }
        return [[*leaf.passages, *wider[leaf.id]] for leaf in leaves]

    def leaf_ranking(self) -> list[str]:
        """The leaves' passages by best rank within a leaf, then in order of the leaves."""
        best: dict[str, tuple[int, int]] = {}
        for order, leaf in enumerate(self.leaves):
            for rank, passage in enumerate(leaf):
                best[passage] = min(best.get(passage, (rank, order)), (rank, order))
        return sorted(best, key=lambda p: best[p])

    @property
    def splits(self) -> tuple[int, int]:
        """Splits that were carried out, and those of them that had been repaired."""
        parents = {h.parent for h in self.nodes}
        split = [h for h in self.row.hops if h.id in parents]
        return len(split), sum("split, repaired" in h.note for h in split)

    @property
    def reading(self) -> tuple[float, bool] | None:
        """The root's stated P(unresolved), and whether its k passages truly lack a gold passage;
        None where either is not known."""
        probability = stated(self.root.note)
        if probability is None or (self.question.answerable and not self.gold):
            return None
        lacks = not (self.question.answerable and self.covered(self.root.passages[: self.k]))
        return probability, lacks

    def measured(self) -> dict[str, float | None]:
        """Each measure of this question; None where it doesn't apply."""
        fired, question = self.triggered, self.question
        answered = self.row.answer is not None
        answerable = question.answerable
        gold = bool(self.gold) and answerable
        if fired and answerable:
            exact = best_against(self.row.answer, question.answers, "squad").em
        at_root = self.covered(self.root.passages[: self.k]) if gold else None
        ranking = self.leaf_ranking()
        return {
            "triggered": float(fired),
            "precision": float(not at_root) if fired and (gold or not answerable) else None,
            "missed": float(not at_root) if not fired and gold else None,
            "root@k": float(bool(at_root)) if fired and gold else None,
            "leaf@k": float(self.covered(ranking[: self.k])) if fired and gold else None,
            "leaf@all": float(self.covered(ranking)) if fired and gold else None,
            "recovery": float(exact) if fired and answerable else None,
            "false_rejection": float(not answered) if answerable else None,
            "false_acceptance": None if answerable else float(answered),
        }


@dataclass(frozen=True)
class TriggerReport:
    """Measures over a run, with intervals; by hop count too."""

    n: int
    excluded: int
    k: int
    measures: Mapping[str, Interval | None]
    """None where a measure applies to no question."""
    by_hops: Mapping[str, Mapping[str, Interval | None]]

    def to_json(self) -> dict[str, Any]:
        def plain(found: Mapping[str, Interval | None]) -> dict[str, Any]:
            return {name: value and asdict(value) for name, value in found.items()}

        return {
            "n": self.n,
            "excluded": self.excluded,
            "k": self.k,
            "definitions": dict(MEASURES),
            "measures": plain(self.measures),
            "by_hops": {hops: plain(found) for hops, found in self.by_hops.items()},
        }


def cases_of(run: SavedRun, exclude: Collection[str] = ()) -> list[Case]:
    """A run's questions as the trigger saw them; those that failed or are in ``exclude`` (known
    annotation errors) left out. Raises ``RunError`` for a run of no Hi-Q method, or ids that it
    doesn't have."""
    if not run.header.method.startswith("hiq"):
        raise RunError(
            f"{run.folder} is a run of {run.header.method}: trigger diagnostics are of hiq and its "
            "variants"
        )
    unknown = sorted(set(exclude) - {q.id for q in run.questions})
    if unknown:
        raise RunError(
            f"{len(unknown)} ids to exclude are not in {run.folder}, the first: {unknown[0]!r}"
        )
    program = run.header.identity.get("program") or {}
    k = int((program.get("budget") or {}).get("passages", 5))
    return [
        Case(question, row, k)
        for question in run.questions
        if question.id not in exclude
        and (row := run.rows.get(question.id)) is not None
        and row.hops
        and row.stop_reason != "error"
    ]


def trigger_report(cases: Sequence[Case], excluded: int = 0, seed: int = 0) -> TriggerReport:
    """Measures with 95 % bootstrap intervals by question. Raises ``RunError`` without cases."""
    if not cases:
        raise RunError("no question is left to diagnose the trigger on")
    hops = sorted({len(c.question.hops) for c in cases})
    return TriggerReport(
        len(cases),
        excluded,
        cases[0].k,
        _measures(cases, seed),
        {str(n): _measures([c for c in cases if len(c.question.hops) == n], seed) for n in hops},
    )


def _measures(cases: Sequence[Case], seed: int) -> dict[str, Interval | None]:
    rows = [case.measured() for case in cases]
    found: dict[str, Interval | None] = {}
    for name in MEASURES:
        if name == "repaired":
            pairs = [case.splits for case in cases]
            values = [x for n, fixed in pairs for x in [1.0] * fixed + [0.0] * (n - fixed)]
        else:
            values = [v for row in rows if (v := row[name]) is not None]
        found[name] = mean_interval(values, seed=seed) if values else None
    return found


def fitted_threshold(cases: Sequence[Case], expand: float, fail: float) -> tuple[float, int]:
    """The threshold that would have cost least at the roots of a run of ``hiq_threshold``, and the
    number of readings it was fitted to. Raises ``RunError`` when no reading stated a probability.
    """
    readings = [reading for case in cases if (reading := case.reading) is not None]
    if not readings:
        raise RunError(
            "no reading stated P(unresolved): a threshold is fitted to a run of hiq_threshold"
        )
    return fit_threshold(readings, expand, fail), len(readings)


def sample_cases(
    cases: Sequence[Case], n: int, run: SavedRun, seed: int = 0
) -> list[dict[str, Any]]:
    """``n`` triggered cases to label by cause: one JSON object each, with ``cause`` to fill in
    from ``CAUSES``."""
    fired = [case for case in cases if case.triggered]
    chosen = random.Random(seed).sample(fired, min(n, len(fired)))
    return [
        {
            "id": case.question.id,
            "cause": None,
            "causes": list(CAUSES),
            "question": case.question.question,
            "answers": list(case.question.answers),
            "predicted": case.row.answer,
            "gold_hops": [
                {"question": h.question, "answer": h.answer, "passage": h.passage}
                for h in case.question.hops
            ],
            "root_covers_gold": case.covered(case.root.passages[: case.k]),
            "root_passages": [_text(run, p) for p in case.root.passages],
            "tree": [
                {
                    "id": h.id,
                    "parent": h.parent,
                    "query": h.refined,
                    "answer": h.answer,
                    "status": h.status,
                    "note": h.note,
                }
                for h in case.row.hops
            ],
        }
        for case in chosen
    ]


def _text(run: SavedRun, passage: str) -> dict[str, str]:
    known = run.passages.get(passage)
    if known is None:
        return {"id": passage}
    return {"id": passage, "title": known.title, "text": known.text}


def causes(labelled: Sequence[Mapping[str, Any]]) -> dict[str, Interval]:
    """Shares of the causes among labelled cases. Raises ``RunError`` that names the first case
    without a known cause."""
    for case in labelled:
        if case.get("cause") not in CAUSES:
            raise RunError(
                f"case {case.get('id')!r} has the cause {case.get('cause')!r}: it is one of "
                f"{', '.join(CAUSES)}"
            )
    return {
        cause: mean_interval([float(case["cause"] == cause) for case in labelled])
        for cause in CAUSES
    }
