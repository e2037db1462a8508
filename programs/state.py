"""A program's state: predictors, budget and parts, dumped and loaded recursively.

DSPy's own state keeps predictors only and skips sub-modules that an optimizer has marked
``_compiled``; a tuned hop budget or a compiled part would be lost without a word. It also zips
saved fields onto a signature by position, so a changed signature loads onto the wrong field: here
shapes are compared first.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dspy

from programs.budget import HopBudget
from programs.errors import StateError
from signatures import shape_hash

if TYPE_CHECKING:
    from programs.program import MultiHopProgram

STATE_KEYS = ("predictors", "budget", "parts")


def own_predictors(program: MultiHopProgram) -> dict[str, dspy.Predict]:
    """A program's predictors by path, those of parts left out, ``_compiled`` marks ignored."""
    found: dict[str, dspy.Predict] = {}
    parts = {id(part) for part in program.parts.values()}

    def walk(prefix: str, module: Any) -> None:
        for name, value in vars(module).items():
            for path, item in _items(f"{prefix}{name}", value):
                if id(item) in parts:
                    continue
                if isinstance(item, dspy.Predict):
                    found.setdefault(path, item)
                elif isinstance(item, dspy.Module):
                    walk(f"{path}.", item)

    walk("", program)
    return found


def _items(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return [(f"{path}[{key!r}]", item) for key, item in value.items()]
    return [(path, value)]


def unfreeze(program: dspy.Module) -> None:
    """Take ``_compiled`` marks off, recursively: a second optimizer refuses a compiled student,
    and named_parameters skips compiled parts."""
    for _, module in program.named_sub_modules(dspy.Module):
        module._compiled = False


def strip(program: dspy.Module) -> None:
    """Drop what optimizers leave on a program (candidates, logs): whole programs and prompts."""
    for _, module in program.named_sub_modules(dspy.Module):
        for name in ("candidate_programs", "trial_logs", "detailed_results", "score", "results"):
            vars(module).pop(name, None)


def dump_program(program: MultiHopProgram, *, json_mode: bool = True) -> dict[str, Any]:
    """State as JSON values. LMs are left out: roles get theirs at call time."""
    predictors = {}
    for name, predictor in own_predictors(program).items():
        state = predictor.dump_state(json_mode=json_mode)
        state.pop("lm", None)
        state["traces"], state["train"] = [], []
        state["shape"] = shape_hash(predictor.signature)
        state["fields_in_order"] = list(predictor.signature.fields)
        predictors[name] = state
    return {
        "predictors": predictors,
        "budget": program.budget.to_json(),
        "parts": {name: dump_program(part) for name, part in program.parts.items()},
    }


def load_program(program: MultiHopProgram, state: Mapping[str, Any]) -> None:
    """Check all of a state against the program, then take it on. Raises ``StateError`` with every
    difference, and leaves the program as it was."""
    faults = list(_faults(program, state, ""))
    if faults:
        raise StateError("the saved state does not fit this program: " + "; ".join(faults))
    _apply(program, state)


def _faults(program: MultiHopProgram, state: Mapping[str, Any], where: str) -> list[str]:
    missing = [k for k in STATE_KEYS if k not in state]
    if missing:
        return [f"{where or 'the state'} lacks {missing}"]
    faults: list[str] = []
    have = own_predictors(program)
    for name in sorted(set(have) ^ set(state["predictors"])):
        side = "the saved state" if name not in have else "the program"
        faults.append(f"predictor {where}{name} is only in {side}")
    for name in sorted(set(have) & set(state["predictors"])):
        saved = state["predictors"][name]
        signature = have[name].signature
        if lacking := {"demos", "signature"} - set(saved):
            faults.append(f"predictor {where}{name} lacks {sorted(lacking)}")
        if saved.get("shape") != shape_hash(signature):
            faults.append(
                f"signature of {where}{name}: saved fields {saved.get('fields_in_order')}, "
                f"here {list(signature.fields)} (names, order or types differ)"
            )
    for name in sorted(set(program.parts) ^ set(state["parts"])):
        side = "the saved state" if name not in program.parts else "the program"
        faults.append(f"part {where}{name} is only in {side}")
    for name in sorted(set(program.parts) & set(state["parts"])):
        faults.extend(_faults(program.parts[name], state["parts"][name], f"{where}{name}."))
    return faults


def _apply(program: MultiHopProgram, state: Mapping[str, Any]) -> None:
    program.budget = HopBudget.from_json(state["budget"])
    for name, predictor in own_predictors(program).items():
        saved = copy.deepcopy(dict(state["predictors"][name]))
        saved.pop("shape", None)
        saved.pop("fields_in_order", None)
        predictor.load_state({**saved, "lm": None})
    for name, part in program.parts.items():
        _apply(part, state["parts"][name])
