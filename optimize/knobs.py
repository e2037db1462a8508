"""The search space of a program: its own knobs and its parts', by dotted name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from optimize.errors import OptimizeError
from programs import HopBudget, Knob, MultiHopProgram

Point = Mapping[str, Any]
"""A value for each knob of a space."""


def space(program: MultiHopProgram, freeze: Collection[str] = ()) -> dict[str, Knob]:
    """Knobs by name, those of a part below its name (``agentic.hops``); frozen ones left out.

    A knob's values always include the program's own one, so that the budget as it is can be a
    point of the space.
    """
    found = {knob.name: _with_own(knob, program.budget) for knob in program.knobs}
    for part_name, part in program.parts.items():
        for name, knob in space(part).items():
            found[f"{part_name}.{name}"] = knob
    unknown = set(freeze) - set(found)
    if unknown:
        raise OptimizeError(f"no knob {sorted(unknown)}; there are {', '.join(sorted(found))}")
    return {name: knob for name, knob in found.items() if name not in freeze}


def _with_own(knob: Knob, budget: HopBudget) -> Knob:
    own = knob.read(budget)
    if own in knob.values:
        return knob
    return replace(knob, values=tuple(sorted((*knob.values, own))))


def size(knobs: Mapping[str, Knob]) -> int:
    """Number of different points."""
    total = 1
    for knob in knobs.values():
        total *= len(knob.values)
    return total


def point_of(program: MultiHopProgram, knobs: Mapping[str, Knob]) -> dict[str, Any]:
    """Where a program stands in a space."""
    return {name: knob.read(_owner(program, name).budget) for name, knob in knobs.items()}


def at_point(program: MultiHopProgram, knobs: Mapping[str, Knob], point: Point) -> MultiHopProgram:
    """A copy of the program with its budgets (and its parts') set to a point."""
    copied: MultiHopProgram = program.deepcopy()
    for name, knob in knobs.items():
        owner = _owner(copied, name)
        owner.budget = knob.apply(owner.budget, point[name])
    return copied


def _owner(program: MultiHopProgram, name: str) -> MultiHopProgram:
    """The program or part that a dotted name belongs to; ``think.ROLE`` is a name of its own."""
    head, dot, rest = name.partition(".")
    if dot and head in program.parts:
        return _owner(program.parts[head], rest)
    return program
