"""A question's REPL: the interpreter of code that an LM writes, and the search tools in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dspy.primitives.code_interpreter import (
    CodeExecutionError,
    CodeInterpreter,
    CodeInterpreterError,
    FinalOutput,
)

from programs.interpreter import Factory
from programs.searching import under_way
from retrieval import Passage
from signatures import tokens

LEFT_OUT = "(left out: too long to be shown again)"
KILLED = "The code was stopped, and all variables are gone: {why}"
NONE_LEFT = "no search is left: answer from what was found"
NO_QUERY = "a query has no word in it: name the fact that is missing"
_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL | re.IGNORECASE)


def search(query: str) -> list[dict[str, str]]:
    """Passages of the corpus that fit the query best, best first: dicts with "id", "title" and
    "text"."""
    return search_batched([query])[0]


def search_batched(queries: list[str]) -> list[list[dict[str, str]]]:
    """The same for several queries at once; use it when they don't wait for each other."""
    if not isinstance(queries, (list, tuple)):
        raise TypeError("search_batched takes a list of queries")
    here = under_way()
    found = here.find([str(query) for query in queries])
    if found and all(passages is None for passages in found):
        raise ValueError(NO_QUERY if here.left > 0 else NONE_LEFT)
    # One that nothing was searched for gives an empty list: what the others found is not lost.
    return [[plain(p) for p in passages or ()] for passages in found]


def plain(passage: Passage) -> dict[str, str]:
    """A passage as it crosses into the sandbox."""
    return {"id": passage.id, "title": passage.title, "text": passage.text}


class Repl:
    """One question's interpreter, with the search tools; made anew when its code was killed."""

    def __init__(self, factory: Factory) -> None:
        self.factory = factory
        self.rules = str(getattr(factory, "execution_instructions", ""))
        self._interpreter: CodeInterpreter | None = None

    def __enter__(self) -> Repl:
        """The interpreter starts while the LM writes the first step."""
        self._interpreter = equipped(self.factory())
        self._interpreter.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the interpreter."""
        if self._interpreter is not None:
            self._interpreter.shutdown()
            self._interpreter = None

    def run(self, code: str) -> str | FinalOutput:
        """What the code printed, its error in a line, or what it submitted."""
        if self._interpreter is None:
            self._interpreter = equipped(self.factory())
        try:
            ran = self._interpreter.execute(code)
        except SyntaxError as fault:
            return f"SyntaxError: {fault}"
        except CodeExecutionError as fault:
            return str(fault)
        except CodeInterpreterError as fault:
            self.close()
            return KILLED.format(why=fault)
        if isinstance(ran, FinalOutput):
            return ran
        text = "\n".join(map(str, ran)) if isinstance(ran, list) else str(ran or "")
        return text.strip() or "(nothing was printed)"


def equipped(interpreter: CodeInterpreter) -> CodeInterpreter:
    """With the search tools, and a SUBMIT that takes the answer."""
    interpreter.tools.update({"search": search, "search_batched": search_batched})
    if hasattr(interpreter, "output_fields"):
        interpreter.output_fields = [{"name": "answer"}]
    return interpreter


@dataclass(frozen=True, slots=True)
class Ran:
    """One step of code and what came of it."""

    thought: str
    code: str
    output: str


def bare(code: object) -> str:
    """Code without the Markdown fence that LMs put around it."""
    text = str(code or "").strip()
    fenced = _FENCE.search(text)
    return (fenced.group(1) if fenced else text).strip()


def within(outputs: Sequence[str], most: int) -> list[str]:
    """Outputs of at most ``most`` tokens in all: the oldest left out first and the last one
    shortened where it must be."""
    kept = list(outputs)
    for i in range(len(kept) - 1):
        if sum(map(tokens, kept)) > most:
            kept[i] = LEFT_OUT
    if kept and tokens(kept[-1]) > most:
        size = max(1, len(kept[-1]) * most // tokens(kept[-1]))
        kept[-1] = f"{kept[-1][:size]}\n(… {len(kept[-1]) - size:,} characters more)"
    return kept


def transcript(steps: Sequence[Ran], most: int) -> str:
    """Steps as prompt text, with outputs of at most ``most`` tokens (``within``)."""
    outputs = within([step.output for step in steps], most)
    return "\n\n".join(
        f"Step {n}\nThought: {step.thought}\nCode:\n{step.code}\nOutput:\n{output}"
        for n, (step, output) in enumerate(zip(steps, outputs, strict=True), 1)
    )
