"""What ``hopsmith methods`` says of each method."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, cast

from rich.markup import escape
from rich.table import Table

from programs import MultiHopProgram, build, methods
from programs.arguments import as_given
from programs.bounds import roles
from programs.knowledge import Knowledge
from retrieval import Retriever

LEGEND = {
    "knobs": "bounds, given by --budget NAME=VALUE, and roles that may think first, by --budget "
    "think=ROLE+ROLE; hopsmith compile tunes them",
    "roles": "each may have an LM of its own, by --role-lm ROLE=LM",
    "arguments": "of the method's constructor, by --arg NAME=VALUE; shown with their defaults",
    "parts": "methods inside it, which Python can replace",
}
GRAPH = {"needed": "needed (hopsmith graph)", "used": "used where there is one (hopsmith graph)"}


def rows() -> list[dict[str, Any]]:
    """Every method that can be loaded, as JSON values."""
    return [row(name, cls) for name, cls in methods().items()]


def row(name: str, cls: type[MultiHopProgram]) -> dict[str, Any]:
    """One method as JSON values."""
    info = cls.info
    return {
        "name": name,
        "summary": info.summary,
        "source": info.source,
        "knobs": {k.name: list(k.values) for k in cls.knobs},
        "roles": default_roles(name, cls),
        "arguments": [argument(p) for p in named(cls)],
        "parts": list(info.parts),
        "graph": info.graph,
        "gold": info.gold,
        "oracle": info.oracle,
    }


def argument(parameter: Parameter) -> dict[str, Any]:
    """One constructor argument; ``default`` is left out where it must be given."""
    required = parameter.default is Parameter.empty
    told = {"name": parameter.name, "required": required}
    return told if required else {**told, "default": parameter.default}


def named(cls: type[MultiHopProgram]) -> list[Parameter]:
    """What ``--arg`` can give, without ``**anything``."""
    return [p for p in cls.takes().values() if p.kind is not Parameter.VAR_KEYWORD]


def default_roles(name: str, cls: type[MultiHopProgram]) -> list[str]:
    """Roles of the steps that a method has without any argument; those of its knobs where it can't
    be built without."""
    nothing = object()
    try:
        made = build(name, cast(Retriever, nothing), knowledge=cast(Knowledge, nothing))
    except Exception:
        return [k.name.removeprefix("think.") for k in cls.knobs if k.name.startswith("think.")]
    return sorted(roles(made))


def blocks() -> Table:
    """One method a block, and what the lines mean; lines break between words alone."""
    every = [*methods().items()]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=max(len(name) for name, _ in every))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, cls in every:
        _add(grid, name, lines(name, cls))
    _add(grid, "(the lines)", LEGEND)
    return grid


def lines(name: str, cls: type[MultiHopProgram]) -> dict[str, str]:
    """A method's lines by label; those without text are left out."""
    every = {
        "does": cls.info.summary,
        "source": cls.info.source,
        "graph": GRAPH.get(cls.info.graph, ""),
        "gold": "needed (the questions of a benchmark)" if cls.info.gold else "",
        "knobs": ", ".join(k.name for k in cls.knobs),
        "roles": ", ".join(default_roles(name, cls)),
        "arguments": ", ".join(map(as_given, named(cls))),
        "parts": ", ".join(cls.info.parts),
    }
    return {label: text for label, text in every.items() if text}


def _add(grid: Table, name: str, block: Mapping[str, str]) -> None:
    if grid.row_count:
        grid.add_row()
    for label, text in block.items():
        grid.add_row(f"[bold]{escape(name)}[/bold]", f"[dim]{label}[/dim]", escape(text))
        name = ""
