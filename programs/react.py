"""react: reasoning and acting in turns (Yao et al., 2023), by dspy.ReAct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from programs.budget import HopBudget, Knob
from programs.evidence import Conclusion, Evidence, ended
from programs.program import MethodInfo, MultiHopProgram
from programs.searching import Acting, searching, under_way
from programs.step import Step
from retrieval import Retriever
from signatures import Act, AnswerFromSteps, tokens

SEARCHED_BEFORE = "This was searched before, and its passages stand above: search for another fact."
NONE_LEFT = "No search is left: finish."
NO_QUERY = "The query has no word in it: name the fact that is missing."
LEFT_OUT = "(left out: too long to be shown again)"
FINISH = "finish"


class ReAct(MultiHopProgram):
    """ReAct with a search tool.

    The actor thinks, and searches or finishes; what a search brings is its next observation. A
    last step answers from the trajectory. Each search is a hop that follows from the one before
    it, with the thought that led to it as its note.

    Decisions of ours: ``hops`` + 1 searches at most; an actor that goes on after them, or whose
    steps run out, ends with ``budget``. A query that was searched before is refused, with a word
    to the actor. Prompts are ours and not dspy.ReAct's, steps are retried and fall back (an actor
    that fails finishes), and the trajectory is bounded by ``context_tokens``: the oldest
    observations go first.
    """

    info = MethodInfo(
        "react",
        "Yao et al. 2023, ReAct; a baseline of PAR²-RAG",
        "think, search or finish, in turns; answer from the trajectory",
    )
    knobs = (Knob("passages", (2, 3, 5, 8)), Knob("hops", (1, 2, 3, 4, 5)))
    defaults = {"context_tokens": 4800}

    def __init__(self, retriever: Retriever, budget: HopBudget | None = None) -> None:
        super().__init__(retriever, budget)
        self.agent = Turns()

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        searches = self.budget.hops + 1
        with searching(self, evidence, "actor", searches) as here:
            end = self.agent(question=question, max_iters=searches + 1)
        steps = len([name for name in end.trajectory if name.startswith("tool_name_")])
        finished = end.trajectory.get(f"tool_name_{steps - 1}") == FINISH
        error = end.get("error") or here.error
        return ended(end.answer, "answered" if finished else "budget", error)


class Turns(dspy.ReAct):  # type: ignore[misc]
    """dspy.ReAct with our steps in place of its predictors."""

    def __init__(self) -> None:
        super().__init__(AnswerFromSteps.delete("trajectory").delete("reasoning"), [search])
        self.tools[FINISH] = dspy.Tool(finish)
        self.react = Acting(
            Act,
            "actor",
            {"next_thought": "", "next_tool_name": FINISH, "next_tool_args": {"query": ""}},
            thought="next_thought",
        )
        self.extract = Step(AnswerFromSteps, "writer", {"reasoning": "", "answer": ""}, last=True)

    def _format_trajectory(self, trajectory: Mapping[str, Any]) -> Trajectory:
        return Trajectory.of(trajectory, under_way().program.budget.context_tokens)


class Trajectory(str):
    """A trajectory as prompt text that remembers which passages it shows."""

    ids: tuple[str, ...]

    def __new__(cls, text: str, ids: Sequence[str] = ()) -> Trajectory:
        made = super().__new__(cls, text)
        made.ids = tuple(ids)
        return made

    @classmethod
    def of(cls, trajectory: Mapping[str, Any], most: int) -> Trajectory:
        """From dspy.ReAct's ``thought_0``, ``tool_name_0``, ``tool_args_0``, ``observation_0``, …;
        observations of at most ``most`` tokens, the oldest left out first."""
        steps = [name.removeprefix("thought_") for name in trajectory if "thought_" in name]
        seen = {n: trajectory.get(f"observation_{n}", "") for n in steps}
        for n in steps[:-1]:
            if sum(tokens(str(text)) for text in seen.values()) > most:
                seen[n] = LEFT_OUT
        lines = [
            f"Step {place}\nThought: {trajectory[f'thought_{n}']}\n"
            f"{trajectory.get(f'tool_name_{n}')}: {_query(trajectory.get(f'tool_args_{n}'))}\n"
            f"{seen[n]}"
            for place, n in enumerate(steps, 1)
        ]
        shown = [i for text in seen.values() for i in getattr(text, "ids", ())]
        return cls("\n\n".join(lines), tuple(dict.fromkeys(shown)))


def search(query: str) -> str:
    """Search the corpus; the passages that fit the query best come back."""
    here = under_way()
    if here.known(query) is not None:
        return SEARCHED_BEFORE
    if here.left < 1:
        return NONE_LEFT
    (found,) = here.find([query])
    return NO_QUERY if found is None else here.program.context(found)


def finish(query: str = "") -> str:
    """End the search: the answer is written from what was found."""
    return "Done."


def _query(arguments: Any) -> str:
    return str(arguments.get("query", "")) if isinstance(arguments, Mapping) else ""
