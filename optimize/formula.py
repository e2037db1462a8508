"""One objective from several: arithmetic over the objectives' names, safe to read from a flag."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from optimize.errors import OptimizeError

OBJECTIVES = ("f1", "hop_recall", "lm_calls")
SECONDS = "seconds"
"""A question's wall time, on request: it means nothing while an LM cache answers."""
NAMES = (*OBJECTIVES, SECONDS)


class Formula:
    """One objective from ``NAMES``: names, numbers, + - * / and brackets only. Where it divides by
    zero it is the worst there is."""

    _OPERATORS: Mapping[type, Callable[..., float]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.USub: operator.neg,
    }

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text, mode="eval").body
            self(dict.fromkeys(NAMES, 0.5))
        except (SyntaxError, KeyError, TypeError) as fault:
            raise OptimizeError(
                f"objective {text!r} can't be read: use {', '.join(NAMES)}, numbers, + - * / "
                'and brackets, such as "f1 + 0.5*hop_recall - 0.01*lm_calls"'
            ) from fault

    @property
    def timed(self) -> bool:
        """Whether it counts seconds."""
        return any(isinstance(n, ast.Name) and n.id == SECONDS for n in ast.walk(self._tree))

    def __call__(self, values: Mapping[str, float]) -> float:
        try:
            return self._value(self._tree, values)
        except ZeroDivisionError:
            return -math.inf

    def _value(self, node: ast.AST, values: Mapping[str, float]) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.Name):
            return values[node.id]
        if isinstance(node, ast.BinOp):
            return self._OPERATORS[type(node.op)](
                self._value(node.left, values), self._value(node.right, values)
            )
        if isinstance(node, ast.UnaryOp):
            return self._OPERATORS[type(node.op)](self._value(node.operand, values))
        raise TypeError(type(node).__name__)
