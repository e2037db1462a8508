"""Runs of several methods and LMs on the same questions, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import load, subset
from hopsmith.budgets import check_budget
from hopsmith.commands.questions import files_of, split_of
from hopsmith.errors import HopsmithError
from hopsmith.knowledge import GraphPlace
from hopsmith.lm import LOCAL, ORACLE, make_lm
from hopsmith.running import dry_run as estimate_run
from hopsmith.running import limits, run_method
from hopsmith.session import golden_for, retriever_for, say_faults, session
from hopsmith.settings import Settings
from optimize.estimate import RunEstimate
from optimize.saved import SavedRun
from programs import HopBudget, build
from programs import method as method_of
from retrieval import Retriever


@dataclass(frozen=True)
class Asked:
    """What is asked of every method."""

    benchmark: str
    data: Path | None
    corpus: Path | None
    split: str
    limit: int | None
    engine: str | None
    checkpoint: str | None
    budget: str | None


@dataclass
class RanAll:
    """What came of it."""

    runs: list[SavedRun] = field(default_factory=list)
    estimates: dict[str, RunEstimate] = field(default_factory=dict)
    stopped: str | None = None


def run_all(
    names: Sequence[str], settings: Sequence[Settings], asked: Asked, *, dry_run: bool = False
) -> RanAll:
    """Every method with every LM, in that order. Methods, budgets and LM names are checked before
    the first question is asked; a limit counts over all runs together.

    Raises ``HopsmithError`` for a method that the oracle can't answer for, and what a run raises.
    """
    _check_oracle(names, settings)
    for one in settings:
        limits(one)
        if one.lm not in (LOCAL, ORACLE):
            make_lm(one)
    files = files_of(asked.split, asked.data)
    bench = load(asked.benchmark, corpus=asked.corpus, seed=settings[0].seed, **files)
    say_faults(bench)
    questions = subset(split_of(bench, asked.split), asked.limit, settings[0].seed)
    bounds = {
        name: HopBudget.parse(asked.budget or "", method_of(name).default_budget())
        for name in names
    }
    retrievers: dict[bool, Retriever] = {}
    programs = {}
    for name in names:
        gold = method_of(name).info.gold
        if gold not in retrievers:
            index, engine, checkpoint = settings[0].index, asked.engine, asked.checkpoint
            retrievers[gold] = (
                golden_for(questions, bench, index, engine, checkpoint)
                if gold
                else retriever_for(
                    index,
                    bench,
                    engine,
                    checkpoint,
                    own=settings[0].retriever,
                    settings=settings[0],
                )
            )
        knowledge = GraphPlace.of(settings[0], bench).for_method(name, retrievers[gold])
        programs[name] = build(name, retrievers[gold], bounds[name], knowledge=knowledge)
    check_budget(*programs.values())
    ledger, done = limits(settings[0]), RanAll()
    for one in settings:
        with session(one, questions) as here:
            for name, program in programs.items():
                given = (program, bench, asked.split, questions, here, ledger)
                if dry_run:
                    label = name if len(settings) == 1 else f"{name} · {one.lm}"
                    done.estimates[label], _ = estimate_run(*given)
                    continue
                ran = run_method(*given)
                done.runs.append(ran.run)
                done.stopped = done.stopped or ran.stopped
    return done


def _check_oracle(names: Sequence[str], settings: Sequence[Settings]) -> None:
    unserved = [name for name in names if not method_of(name).info.oracle]
    if unserved and any(one.lm == ORACLE for one in settings):
        raise HopsmithError(
            f"--lm oracle can't answer for {', '.join(unserved)}: their prompts are not ours; "
            "leave them out or name another --lm"
        )
