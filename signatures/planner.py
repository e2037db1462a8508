"""Planner: what has to be looked up before a question can be answered."""

from __future__ import annotations

from typing import Literal

import dspy

Kind = Literal["single", "bridge", "comparison"]


class Decompose(dspy.Signature):  # type: ignore[misc]
    """Break a question into the look-ups that answer it.

    Say first what kind of question it is: "single" when one document can answer it, "bridge" when
    a later look-up needs a name or fact that an earlier one finds, "comparison" when facts about
    several things are found independently and then compared.

    Then list the sub-questions in the order in which they must be answered. Each must be
    answerable from a single document and must make sense on its own. Where a sub-question needs
    the answer to an earlier one, write {answer_1}, {answer_2}, … in its place; never guess that
    answer. Keep every condition of the question and add none. A question of kind "single" is its
    own only sub-question. Leave the final comparing or combining out: it comes later.

    For "In which year did the employer of the painter of Blue Harbour close?" the kind is "bridge"
    and the sub-questions are "Who painted Blue Harbour?", "Who is the employer of {answer_1}?",
    "In which year did {answer_2} close?". For "Which bridge is longer, the Orla or the Tamm?" the
    kind is "comparison" and the sub-questions are "How long is the Orla bridge?", "How long is the
    Tamm bridge?".
    """

    question: str = dspy.InputField(desc="the question to plan for")
    kind: Kind = dspy.OutputField(desc="single, bridge or comparison")
    sub_questions: list[str] = dspy.OutputField(
        desc="sub-questions in order, with {answer_1} and so on for answers not known yet"
    )


class RepairPlan(dspy.Signature):  # type: ignore[misc]
    """Correct a plan of sub-questions that can't be carried out.

    Return the whole plan again with its fault mended: sub-questions in the order in which they
    must be answered, each answerable from a single document, with {answer_1}, {answer_2}, … only
    for answers of earlier sub-questions. Keep every condition of the question and add none.
    """

    question: str = dspy.InputField(desc="the question that the plan is for")
    plan: list[str] = dspy.InputField(desc="the faulty plan")
    fault: str = dspy.InputField(desc="what is wrong with it")
    sub_questions: list[str] = dspy.OutputField(desc="the corrected plan")


class PlanCoverage(dspy.Signature):  # type: ignore[misc]
    """Write searches that together cover everything the question touches.

    Nothing has been looked up yet, so don't guess at answers. Each search goes after another piece
    of the evidence: every person, work, place or event that is named, every link between them, and
    whatever the question compares or asks for at last. Make each search understandable by itself,
    with the names that the question gives; describe what is not yet known instead of pointing to
    another search. Where there is room, the question as it stands is a good last search. Don't say
    the same in other words, and write no more searches than the limit; fewer will do when they
    cover it all.
    """

    question: str = dspy.InputField(desc="the question to gather evidence for")
    limit: int = dspy.InputField(desc="the most searches to write")
    sub_queries: list[str] = dspy.OutputField(desc="complementary searches")
