"""The oracle's answers for the methods that write code: programs that search for what is missing
and print it, and submit the answer once all gold passages have been printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dspy

import signatures
from benchmarks.oracle import Asked, answers, final_answer
from benchmarks.oracle_guide import next_need
from benchmarks.oracle_papers import read

RLM_ACTION = dspy.Signature("variables_info, repl_history, iteration -> code")
RLM_EXTRACT = dspy.Signature("variables_info, repl_history -> answer")
"""By their fields those of dspy.RLM."""
PROGRAM = """\
for passage in search({query!r}):
    print(f"[{{passage['id']}}] {{passage['title']}}: {{passage['text']}}")"""


@dataclass(frozen=True)
class Printed:
    """What a transcript shows."""

    ids: tuple[str, ...]


def reading(asked: Asked) -> Asked:
    """With the gold passages that the transcript has printed as those shown."""
    text = " ".join(_text(value) for value in asked.inputs.values())
    ids = tuple(i for i in asked.gold.supporting if f"[{i}]" in text)
    return Asked(asked.gold, {"printed": Printed(ids)})


def _text(value: Any) -> str:
    return str(value.format()) if hasattr(value, "entries") else str(value)


def program(asked: Asked) -> tuple[str, str]:
    """A thought and the next step's code."""
    seen = reading(asked)
    need = None if seen.covered() else next_need(seen, read(seen))
    if need is None:
        return "All is known.", f"SUBMIT({asked.gold.answer!r})"
    return need, PROGRAM.format(query=need)


@answers(signatures.WriteCode)
def _write_code(asked: Asked) -> dict[str, Any]:
    thought, code = program(asked)
    return {"thought": thought, "code": code}


@answers(RLM_ACTION)
def _rlm_action(asked: Asked) -> dict[str, Any]:
    return {"code": program(asked)[1]}


@answers(signatures.AnswerFromCode)
def _answer_from_code(asked: Asked) -> dict[str, Any]:
    return {"answer": final_answer(reading(asked))}


@answers(RLM_EXTRACT)
def _rlm_extract(asked: Asked) -> dict[str, Any]:
    return {"answer": final_answer(reading(asked))}
