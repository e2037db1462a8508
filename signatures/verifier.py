"""Verifier: does a split still ask what the query asked?"""

from __future__ import annotations

import dspy


class VerifySplit(dspy.Signature):  # type: ignore[misc]
    """Check whether two queries, asked one after the other, recover a query.

    Suppose that the first is answered, and then the second with that answer at hand. Do the two
    answers settle the query? Compare condition by condition: names, dates, relations, what is
    compared, what is asked for. Say which condition was added, dropped or put out of order, or
    leave that empty when there is none. Wording doesn't matter.
    """

    query: str = dspy.InputField(desc="the query that was split")
    needs: list[str] = dspy.InputField(desc="the two queries, in the order in which they are asked")
    fault: str = dspy.OutputField(desc="what was added, dropped or reordered; empty when nothing")
    covers: bool = dspy.OutputField(desc="true when the two recover the query")
