"""Faults of a graph that the user can mend."""

from programs.errors import ProgramError


class GraphError(ProgramError):
    """A graph that isn't there or can't be used, or triples that can't be read; says the mend."""
