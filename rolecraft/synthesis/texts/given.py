"""Values that a test was really given, in the code that is taken from it."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.parametrized import FunctionNode
from rolecraft.synthesis.texts.values import UNKNOWN, value_of

Values = Mapping[str, Any]
"""By the name of the argument, such as a literal can say."""
_MOST_WRITTEN = 600
"""Characters of a value in a text."""
_COMPARING: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def decided(node: FunctionNode, values: Values) -> FunctionNode:
    """A test without the branches that these values don't take."""
    made = _Decided(_kept(node, values)).visit(copy.deepcopy(node))
    assert isinstance(made, FunctionNode)
    return made


def put_in(found: Doing, values: Values) -> set[str]:
    """Give these names their values: in what is expected at once, else by statements before all.

    Of a dict only what the code reads by constant keys. Returns the names whose values are too
    long to be written, and then the rest does not hold.
    """
    if found.expected is not None:
        found.expected = _put(found.expected, values)
    nodes = [*found.before, *(each for each in (found.actual, found.expected) if each is not None)]
    told: list[ast.stmt] = []
    long: set[str] = set()
    for name, value in values.items():
        used = _used(value, name, nodes)
        if used is UNKNOWN:
            continue
        if len(repr(used)) > _MOST_WRITTEN:
            long.add(name)
        told.append(ast.Assign([ast.Name(name, ast.Store())], _literal(used)))
    imports = [each for each in found.before if isinstance(each, ast.Import | ast.ImportFrom)]
    rest = [each for each in found.before if each not in imports]
    found.before = [*imports, *told, *rest]
    return long


def _used(value: Any, name: str, nodes: list[ast.AST]) -> Any:
    """As much of a value as is read by this name, `UNKNOWN` if it is not read."""
    every = [each for node in nodes for each in ast.walk(node)]
    often = sum(isinstance(each, ast.Name) and each.id == name for each in every)
    if not often:
        return UNKNOWN
    if not isinstance(value, dict):
        return value
    keys = [
        each.slice.value
        for each in every
        if isinstance(each, ast.Subscript)
        and isinstance(each.value, ast.Name)
        and each.value.id == name
        and isinstance(each.slice, ast.Constant)
        and isinstance(each.ctx, ast.Load)
    ]
    if len(keys) < often or any(key not in value for key in keys):
        return value
    return {key: each for key, each in value.items() if key in keys}


def _kept(node: FunctionNode, values: Values) -> Values:
    """Without the names that the test gives other values."""
    bound = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
    }
    return {name: value for name, value in values.items() if name not in bound}


def _put(node: ast.expr, values: Values) -> ast.expr:
    made = _Put(values).visit(copy.deepcopy(node))
    assert isinstance(made, ast.expr)
    return made


def _literal(value: Any) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


class _Put(ast.NodeTransformer):
    """Values in the place of names, and of what is read of them by a constant."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _literal(self._values[node.id]) if node.id in self._values else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        of = node.value.id if isinstance(node.value, ast.Name) else ""
        if of in self._values and isinstance(node.slice, ast.Constant):
            try:
                return _literal(self._values[of][node.slice.value])
            except (LookupError, TypeError):
                return node
        return self.generic_visit(node)


class _Decided(ast.NodeTransformer):
    def __init__(self, values: Values) -> None:
        self._values = values

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        holds = _holds(_put(node.test, self._values))
        if holds is None:
            return node
        taken = node.body if holds else node.orelse
        return taken or ast.copy_location(ast.Pass(), node)


def _holds(test: ast.expr) -> bool | None:
    """Whether a condition of literals holds; None where that is not told."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _holds(operand)
            return None if inner is None else not inner
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARING:
            one, other = value_of(left), value_of(right)
            if one is UNKNOWN or other is UNKNOWN:
                return None
            try:
                return bool(_COMPARING[type(op)](one, other))
            except TypeError:
                return None
    value = value_of(test)
    return None if value is UNKNOWN else bool(value)
