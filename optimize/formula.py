"""One objective from several: arithmetic over the objectives' names, safe to read from a flag."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from optimize.errors import OptimizeError

OBJECTIVES = ("f1", "hop_recall", "lm_calls")


class Formula:
    """One objective from the three: names, numbers, + - * / and brackets only."""

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
            self(dict.fromkeys(OBJECTIVES, 0.5))
        except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as fault:
            raise OptimizeError(
                f"objective {text!r} can't be read: use {', '.join(OBJECTIVES)}, numbers, + - * / "
                'and brackets, such as "f1 + 0.5*hop_recall - 0.01*lm_calls"'
            ) from fault

    def __call__(self, values: Mapping[str, float]) -> float:
        return self._value(self._tree, values)

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
