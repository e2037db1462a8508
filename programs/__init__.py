"""Programs: one file a method, composed from signatures over a retriever, and their common ground
(evidence, budget and meter, fan_out, state, fingerprint)."""

from programs.budget import HopBudget, Knob
from programs.errors import (
    BudgetError,
    Cancelled,
    OutOfBudget,
    ProgramError,
    QuestionError,
    StateError,
)
from programs.evidence import STOP_REASONS, Evidence, Hop, StopReason
from programs.fan_out import fan_out
from programs.fingerprint import fingerprint, identity
from programs.ledger import Account, Ledger
from programs.metered import MeteredAdapter
from programs.program import MethodInfo, MultiHopProgram
from programs.registry import build, method, methods
from programs.scope import Meter, Scope, current
from programs.step import Step

__all__ = [
    "STOP_REASONS",
    "Account",
    "BudgetError",
    "Cancelled",
    "Evidence",
    "Hop",
    "HopBudget",
    "Knob",
    "Ledger",
    "Meter",
    "MeteredAdapter",
    "MethodInfo",
    "MultiHopProgram",
    "OutOfBudget",
    "ProgramError",
    "QuestionError",
    "Scope",
    "StateError",
    "Step",
    "StopReason",
    "build",
    "current",
    "fan_out",
    "fingerprint",
    "identity",
    "method",
    "methods",
]
