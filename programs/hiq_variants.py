"""Hi-Q's ablations and settings, each a method by name."""

from __future__ import annotations

from programs.budget import Knob, think
from programs.hiq import HiQ
from programs.program import MethodInfo

PASSAGES = Knob("passages", (3, 5, 8))
PLANNED = (PASSAGES, Knob("sub_queries", (2, 3, 4, 6)), *think("resolver", "synthesizer"))


class HiQDepth1(HiQ):
    """Cost-matched: one split at most, as many LM calls as IRCoT makes."""

    info = MethodInfo("hiq_depth1", "Hi-Q, cost profile", "Hi-Q with one split at most")
    defaults = {**HiQ.defaults, "depth": 1}
    knobs = (PASSAGES, Knob("candidates", (1, 3)), *think("resolver", "expander", "synthesizer"))


class HiQStatic(HiQ):
    """Without hierarchy: an unresolved question is decomposed once, all needs at a time."""

    info = MethodInfo("hiq_static", "Hi-Q, ablations", "Hi-Q with one-shot decomposition")
    preset = {"decomposition": "static"}
    knobs = PLANNED


class HiQIndependent(HiQ):
    """Without hierarchy and without dependency: the paper's row is cumulative."""

    info = MethodInfo(
        "hiq_independent", "Hi-Q, ablations", "one-shot decomposition, each need asked as written"
    )
    preset = {"decomposition": "independent"}
    knobs = PLANNED


class HiQAlways(HiQ):
    """Without the trigger: whatever can be split is split, unread."""

    info = MethodInfo("hiq_always", "Hi-Q, trigger", "Hi-Q that always decomposes")
    preset = {"trigger": "always"}


class HiQUnverified(HiQ):
    """Without the semantic coverage verifier."""

    info = MethodInfo("hiq_unverified", "Hi-Q, verifier", "Hi-Q whose splits aren't checked")
    preset = {"verify": False}


class HiQThreshold(HiQ):
    """The soft trigger: split where P(unresolved) exceeds the cost of expanding against failing.

    ``threshold`` gives the bar itself; without it, it is ``expand_cost / fail_cost``.
    ``hopsmith trigger RUN --fit`` fits one to what readings stated, and ``hopsmith compile
    --thresholds`` does so on train.
    """

    info = MethodInfo(
        "hiq_threshold", "Hi-Q, Appendices B and C", "Hi-Q with a cost-sensitive soft trigger"
    )
    preset = {"trigger": "threshold"}
    knobs = tuple(knob for knob in HiQ.knobs if knob.name != "candidates")
