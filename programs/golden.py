"""golden: single_shot over the gold passages. What is still wrong is the reader's."""

from __future__ import annotations

from programs.budget import think
from programs.program import MethodInfo
from programs.single_shot import SingleShot


class Golden(SingleShot):
    """The diagnostic that separates reading errors from retrieval errors: ``single_shot``, given a
    retriever that returns a question's gold passages (``benchmarks.golden``), which ``hopsmith
    eval`` puts in the place of the index. The difference to another method's score is what its
    retrieval costs.

    ``passages`` is no knob: gold passages are few, and all are shown.
    """

    info = MethodInfo(
        "golden",
        "diagnostic: reading apart from retrieval",
        "one reading of the gold passages; in hopsmith eval and compare only",
        gold=True,
    )
    knobs = think("writer")
    defaults = {"passages": 20, "context_passages": 20, "context_tokens": 6000}
