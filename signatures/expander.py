"""Expander: splits a query that the corpus did not answer into a need and what depends on it."""

from __future__ import annotations

import dspy


class Expand(dspy.Signature):  # type: ignore[misc]
    """Split a query into two simpler ones, asked one after the other.

    The first finds a fact that the query takes for granted (a person, work, place, date, or one
    side of a comparison) and makes sense by itself. The second asks for the rest and may refer to
    what the first one finds, as in "that company". Asked in this order they must give all that the
    query asks for: keep every name and condition, add none, and keep their order in time and
    cause. Split off one fact only; the second may still be complex. Where one look-up in a
    document would answer the query, return an empty list.

    "In which year did the employer of the painter of Blue Harbour close?" becomes "Who is the
    employer of the painter of Blue Harbour?" and "In which year did that employer close?".
    """

    query: str = dspy.InputField(desc="the query that could not be answered from what was found")
    needs: list[str] = dspy.OutputField(desc="exactly two queries in order, or an empty list")


class RepairSplit(dspy.Signature):  # type: ignore[misc]
    """Correct a split of a query into two.

    Return both queries again with the fault mended. The first makes sense by itself, the second
    asks for the rest and may refer to what the first one finds. Together, in this order, they must
    give all that the query asks for: no name or condition added, dropped or moved.
    """

    query: str = dspy.InputField(desc="the query that was split")
    split: list[str] = dspy.InputField(desc="the two queries, with a fault")
    fault: str = dspy.InputField(desc="what is wrong with them")
    needs: list[str] = dspy.OutputField(desc="the two corrected queries in order")
