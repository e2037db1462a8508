"""Which predictors a stage may change: one part alone, or all of them."""

from __future__ import annotations

from collections.abc import Collection

import dspy

from optimize.errors import OptimizeError
from programs import MultiHopProgram
from programs.state import unfreeze


def predictor_paths(program: MultiHopProgram) -> dict[str, dspy.Predict]:
    """Predictors by dotted path, parts' included (``agentic.controller``)."""
    unfreeze(program)
    return dict(program.named_predictors())


def chosen_paths(program: MultiHopProgram, parts: Collection[str]) -> frozenset[str]:
    """The predictors that ``parts`` name: a predictor's path, a role, or a sub-program. All of
    them when ``parts`` is empty. Raises ``OptimizeError`` that lists the names there are."""
    every = predictor_paths(program)
    if not parts:
        return frozenset(every)
    found: set[str] = set()
    for part in parts:
        named = {
            path
            for path, predictor in every.items()
            if path == part
            or path.startswith(f"{part}.")
            or getattr(predictor, "role", None) == part
        }
        if not named:
            roles = sorted({r for p in every.values() if (r := getattr(p, "role", None))})
            raise OptimizeError(
                f"no part {part!r}: there are the predictors {', '.join(sorted(every))} and the "
                f"roles {', '.join(roles)}"
            )
        found |= named
    return frozenset(found)


def masked(program: MultiHopProgram, paths: Collection[str]) -> MultiHopProgram:
    """A copy whose ``named_predictors`` are those at ``paths``: what optimizers see and change.
    Copies made of it see the same, until ``kept``."""
    copied: MultiHopProgram = program.deepcopy()
    unfreeze(copied)
    copied.tunable = frozenset(paths)
    return copied


def kept(
    start: MultiHopProgram, changed: MultiHopProgram, paths: Collection[str]
) -> MultiHopProgram:
    """``changed``, with every predictor that isn't at ``paths`` as ``start`` has it: optimizers
    reset demonstrations of predictors that they don't tune."""
    changed.tunable = None
    before, after = predictor_paths(start), predictor_paths(changed)
    for path, predictor in after.items():
        if path not in paths:
            own = before[path]
            predictor.signature = own.signature
            predictor.demos = list(own.demos)
            predictor.fields = dict(own.fields)
    return changed
