"""Whether the budget that a command was given means anything to the programs it is for."""

from __future__ import annotations

import sys

from programs import MultiHopProgram, ProgramError
from programs.bounds import bounds_read, bounds_set, roles


def check_budget(*programs: MultiHopProgram) -> None:
    """Raises ``ProgramError`` for a role that is to think and that none of the programs has; says
    on stderr which bounds were set that none of them reads."""
    every = " and ".join(program.info.name for program in programs)
    asked = frozenset[str]().union(*map(roles, programs))
    unknown = {role for program in programs for role in program.budget.think} - asked
    if unknown:
        raise ProgramError(
            f"--budget think={'+'.join(sorted(unknown))}: no step of {every} asks in that role; "
            f"there are {', '.join(sorted(asked))}"
        )
    read = frozenset[str]().union(*map(bounds_read, programs))
    unread = frozenset[str]().union(*map(bounds_set, programs)) - read
    if unread:
        print(
            f"hopsmith: --budget {', '.join(sorted(unread))} changes nothing: {every} "
            f"reads {', '.join(sorted(read))}",
            file=sys.stderr,
        )
