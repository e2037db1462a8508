"""Which of our signatures one is, told by its fields: optimizers rewrite instructions and lose the
class, while the fields stay."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import dspy

EXTRA_FIELDS = frozenset({"reasoning", "format_problem"})
"""Fields that a step adds at call time: thinking first, and a retry's account of the last reply."""


def field_key(signature: type[dspy.Signature]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of inputs and outputs, without those that a step adds."""
    return (
        frozenset(signature.input_fields) - EXTRA_FIELDS,
        frozenset(signature.output_fields) - EXTRA_FIELDS,
    )


def signature_hash(signature: type[dspy.Signature]) -> str:
    """16 hex digits over instructions and fields (name, order, type, description)."""
    fields: list[list[Any]] = [
        [name, str(f.annotation), (f.json_schema_extra or {}).get("desc", "")]
        for name, f in signature.fields.items()
    ]
    return _digest([signature.instructions, list(signature.input_fields), fields])


def shape_hash(signature: type[dspy.Signature]) -> str:
    """16 hex digits over the fields' names, order and types: what a saved state must fit.
    Instructions and descriptions may differ: they are what optimizers change."""
    fields = [[name, str(f.annotation)] for name, f in signature.fields.items()]
    return _digest([list(signature.input_fields), fields])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
