"""What a program reads of its budget: bounds, and roles that may think."""

from __future__ import annotations

from dataclasses import fields

from programs.budget import HopBudget
from programs.program import MultiHopProgram
from programs.step import Step

ALWAYS = frozenset({"lm_calls", "think"})
"""Read of every budget: by the meter, and at each step."""
SEARCHING = frozenset({"passages", "retrieve", "context_passages", "context_tokens"})
"""Read by whatever searches, in ``MultiHopProgram``."""


def roles(program: MultiHopProgram) -> frozenset[str]:
    """Roles in which a program and its parts ask."""
    return frozenset(step.role for _, step in program.named_sub_modules(Step))


def bounds_read(program: MultiHopProgram) -> frozenset[str]:
    """Fields of its budget on which a program depends: what its class, or one that it is made of,
    has as knobs or defaults, and what its parts read, which are handed what is set. A method with
    none of them searches nothing."""
    bases = [base for base in type(program).__mro__ if issubclass(base, MultiHopProgram)]
    declared = {n for base in bases for n in (*base.defaults, *(k.name for k in base.knobs))}
    own = declared.intersection(f.name for f in fields(HopBudget)) | program.reads
    of_parts = frozenset[str]().union(*map(bounds_read, program.parts.values()))
    return ALWAYS | of_parts | own | (SEARCHING if own else frozenset())


def bounds_set(program: MultiHopProgram) -> frozenset[str]:
    """Fields of its budget that are not as the method has them by default."""
    default = program.default_budget()
    names = (f.name for f in fields(HopBudget))
    return frozenset(n for n in names if getattr(program.budget, n) != getattr(default, n))
