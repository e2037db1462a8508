"""Decisions: the yes/no outputs of a program's steps, and the thresholds that they are read with.

A step's ``bool`` output is asked for as it stands. Given a threshold, the LM is asked for the
probability that it is true instead, and the answer is yes from the threshold on
(``dspy.experimental``'s decision outputs). Thresholds lie on the predictor, are saved with its
state and are part of the fingerprint. A step whose probability can't be read asks once more for
the plain answer (``programs.step``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import dspy

from programs.errors import ProgramError
from programs.program import MultiHopProgram
from programs.state import own_predictors


@dataclass(frozen=True)
class Decision:
    """One yes/no output: of which predictor, and how it is read."""

    path: str
    """The predictor's, parts' included."""
    field: str
    threshold: float | None
    """None while it is asked for as a plain yes or no."""


def decisions(program: MultiHopProgram) -> tuple[Decision, ...]:
    """The yes/no outputs of a program's predictors, its parts' included."""
    return tuple(
        Decision(path, name, predictor.fields.get(name, {}).get("threshold"))
        for path, predictor in _predictors(program)
        for name, field in predictor.signature.output_fields.items()
        if field.annotation is bool
    )


def set_threshold(program: MultiHopProgram, path: str, field: str, threshold: float | None) -> None:
    """Read a decision with a threshold from 0 to 1, or (None) as a plain yes or no, in place.
    Raises ``ProgramError``."""
    if not any((d.path, d.field) == (path, field) for d in decisions(program)):
        known = ", ".join(f"{d.path}.{d.field}" for d in decisions(program)) or "none"
        raise ProgramError(f"no decision {path}.{field}; there are: {known}")
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        raise ProgramError(f"a threshold is a probability from 0 to 1, got {threshold}")
    predictor = dict(_predictors(program))[path]
    if threshold is None:
        predictor.fields.pop(field, None)
    else:
        predictor.fields[field] = {"threshold": threshold}


def _predictors(program: MultiHopProgram, prefix: str = "") -> Iterator[tuple[str, dspy.Predict]]:
    for path, predictor in own_predictors(program).items():
        yield f"{prefix}{path}", predictor
    for name, part in program.parts.items():
        yield from _predictors(part, f"{prefix}{name}.")
