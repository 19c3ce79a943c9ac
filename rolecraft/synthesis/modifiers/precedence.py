"""Parentheses that were needed: without them the operators bind otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, is_within, without_parentheses

_BINDING: dict[type[cst.CSTNode], int] = {
    # The Python reference, 6.17 "Operator precedence", from the loosest.
    cst.Or: 2,
    cst.And: 3,
    cst.Not: 4,
    cst.BitOr: 6,
    cst.BitXor: 7,
    cst.BitAnd: 8,
    cst.LeftShift: 9,
    cst.RightShift: 9,
    cst.Add: 10,
    cst.Subtract: 10,
    cst.Multiply: 11,
    cst.Divide: 11,
    cst.FloorDivide: 11,
    cst.Modulo: 11,
    cst.MatrixMultiply: 11,
    cst.Plus: 12,
    cst.Minus: 12,
    cst.BitInvert: 12,
    cst.Power: 13,
}
_OPERATIONS: tuple[type[cst.BaseExpression], ...] = (
    cst.BooleanOperation,
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.Comparison,
    cst.IfExp,
)
_SIGNS = (cst.Minus, cst.Plus)
_NOT_ASSOCIATIVE = (cst.Subtract, cst.Divide, cst.FloorDivide, cst.Modulo)


@modifier()
def lost_parentheses(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`(a or b) and c` becomes `a or b and c`, `(a + b) * c` becomes `a + b * c`."""
    for node in entity.code(*_OPERATIONS):
        parent = entity.parents.get(node)
        if len(node.lpar) != 1 or parent is None or not _binds_otherwise(node, parent):
            continue
        if isinstance(node, cst.IfExp) and is_within(entity, node, cst.CompFor):
            continue  # whose own `if` it would be
        new = without_parentheses(node)
        code = entity.module.code_for_node(node)
        around = entity.module.code_for_node(parent)
        if "\n" in code or re.search(rf"\w{re.escape(code)}|{re.escape(code)}\w", around):
            continue  # without them the line would end, or `not(a)` be another name
        changed = parent.with_deep_changes(node, lpar=[], rpar=[])
        note = f"{became(parent, changed)}, without the parentheses"
        yield entity.replacing(node, new, note=note)


def _binds_otherwise(node: cst.BaseExpression, parent: cst.CSTNode) -> bool:
    """Whether the operators of `parent` take a part of `node` if it has no parentheses."""
    inner, outer = _binding(node), _binding(parent)
    if inner is None or outer is None:
        return False
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, _SIGNS):
        is_product = isinstance(getattr(node, "operator", None), cst.Multiply | cst.Divide)
        return inner < outer and not is_product  # `-(a * b)` is `-a * b`
    if inner < outer:
        # `-x` and `not x` end where their operand does: only what stands before them is affected.
        return not (isinstance(node, cst.UnaryOperation) and _is_right(node, parent))
    if inner > outer or not isinstance(parent, cst.BinaryOperation):
        return False
    return parent.right is node and isinstance(parent.operator, _NOT_ASSOCIATIVE)


def _is_right(node: cst.CSTNode, parent: cst.CSTNode) -> bool:
    return getattr(parent, "right", None) is node


def _binding(node: cst.CSTNode) -> int | None:
    if isinstance(node, cst.IfExp):
        return 1
    if isinstance(node, cst.Comparison | cst.ComparisonTarget):
        return 5
    if isinstance(node, cst.BooleanOperation | cst.BinaryOperation | cst.UnaryOperation):
        return _BINDING.get(type(node.operator))
    return None
