"""Expressions whose value can be told without running anything."""

from __future__ import annotations

import ast
from typing import Any

UNKNOWN = object()
"""The value of an expression that is not told here."""
_MOST = 100_000
"""Characters or items that a value may have."""
_MOST_FOLDED = 400
"""Characters of a text that is shown as one; of more, the expression says more."""


def value_of(node: ast.expr | None) -> Any:
    """The value of a literal, of texts that are added, joined or repeated; else `UNKNOWN`."""
    if node is None:
        return UNKNOWN
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"),
            args=[only],
            keywords=[],
        ):
            parts = value_of(only)
            if isinstance(parts, list | tuple) and all(isinstance(each, str) for each in parts):
                return between.join(parts)
        case ast.Call(func=ast.Attribute(value=of, attr="strip" | "lstrip" | "rstrip" as way)) if (
            not node.args and not node.keywords
        ):
            text = value_of(of)
            if isinstance(text, str):
                return getattr(text, way)()
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = value_of(left), value_of(right)
            if isinstance(first, str) and isinstance(second, str):
                return first + second
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = value_of(left), value_of(right)
            if (
                isinstance(first, str | list)
                and isinstance(second, int)
                and len(first) * second <= _MOST
            ):
                return first * second
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return UNKNOWN


def value_said(text: str) -> Any:
    """The same of an expression as text."""
    try:
        return value_of(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


class Folded(ast.NodeTransformer):
    """Texts that are put together, as one text."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call | ast.BinOp):
            value = value_of(node)
            if isinstance(value, str) and len(value) <= _MOST_FOLDED:
                return ast.Constant(value)
        return super().visit(node)
