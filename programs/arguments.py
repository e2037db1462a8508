"""What a method's constructor takes, and whether what it was given is of that kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import Parameter
from typing import Any

from programs.errors import ProgramError
from programs.program import SHARED, MultiHopProgram


def check_arguments(name: str, cls: type[MultiHopProgram], given: Mapping[str, Any]) -> None:
    """Raises ``ProgramError`` for an argument that method ``name`` doesn't take, with those that it
    takes, and for a part that is no program."""
    takes = cls.takes()
    anything = any(p.kind is Parameter.VAR_KEYWORD for p in takes.values())
    for argument, value in given.items():
        if argument in cls.info.parts:
            check_part(name, argument, value)
        elif argument in SHARED or not (anything or argument in takes):
            listed = ", ".join(map(as_given, takes.values())) or "none"
            raise ProgramError(
                f"method {name} takes no argument {argument!r}; those it takes, with their "
                f"defaults: {listed}"
            )


def check_part(name: str, part: str, value: Any) -> None:
    """Raises ``ProgramError`` for a part that is neither a program nor left out."""
    if value is not None and not isinstance(value, MultiHopProgram):
        raise ProgramError(
            f"method {name}: {part} is a part, which must be a program, got {value!r}: --arg can't "
            f"give one; in Python, build({name!r}, retriever, {part}=build(METHOD, retriever))"
        )


def is_number(value: Any) -> bool:
    """Whether a value is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_given(parameter: Parameter) -> str:
    """NAME=DEFAULT as ``--arg`` reads it; NAME alone where there is no default."""
    if parameter.kind is Parameter.VAR_KEYWORD:
        return "any other"
    if parameter.default is Parameter.empty:
        return parameter.name
    default = parameter.default
    told = default if isinstance(default, str) else json.dumps(default, default=str)
    return f"{parameter.name}={told}"
