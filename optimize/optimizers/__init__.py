"""Prompt optimizers of DSPy, one file each, behind one interface: a ``run(search)`` that scores
its candidates through the search, and a ``need`` that says beforehand what it will ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from optimize.search import PromptSearch, PromptSettings


@dataclass(frozen=True)
class Need:
    """What an optimizer will ask for at most."""

    questions: int
    """Times that the program answers a question."""
    proposals: int = 0
    """LM calls that write prompts."""


Run = Callable[[PromptSearch], None]
Estimate = Callable[[PromptSettings, int, int, int], Need]
"""Of settings, and the numbers of training questions, dev questions and tunable predictors."""

NAMES: Mapping[str, str] = {
    "bootstrap": "optimize.optimizers.bootstrap",
    "mipro": "optimize.optimizers.mipro",
    "gepa": "optimize.optimizers.gepa",
    "simba": "optimize.optimizers.simba",
}


def run(name: str, search: PromptSearch) -> None:
    """Run an optimizer. Raises ``LimitReached``; what was found is in the search."""
    run_: Run = import_module(NAMES[name]).run
    run_(search)


def need(name: str, settings: PromptSettings, train: int, dev: int, predictors: int) -> Need:
    """An estimate, from above."""
    if name not in NAMES:
        return Need(0)
    need_: Estimate = import_module(NAMES[name]).need
    return need_(settings, train, dev, predictors)
