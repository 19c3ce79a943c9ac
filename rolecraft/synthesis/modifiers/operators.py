"""Operators that are others, operands in the wrong order, chains that lack a link."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, in_place_of, same, text_of

_BINARY: dict[type[cst.BaseBinaryOp], tuple[type[cst.BaseBinaryOp], ...]] = {
    cst.Add: (cst.Subtract,),
    cst.Subtract: (cst.Add,),
    cst.Multiply: (cst.Add, cst.FloorDivide),
    cst.Divide: (cst.Multiply,),
    cst.FloorDivide: (cst.Multiply, cst.Modulo),
    cst.Modulo: (cst.FloorDivide,),
    cst.Power: (cst.Multiply,),
    cst.LeftShift: (cst.RightShift,),
    cst.RightShift: (cst.LeftShift,),
    cst.BitAnd: (cst.BitOr,),
    cst.BitOr: (cst.BitAnd,),
    cst.BitXor: (cst.BitOr, cst.BitAnd),
}
_AUGMENTED: dict[type[cst.BaseAugOp], type[cst.BaseAugOp]] = {
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.AddAssign,
    cst.DivideAssign: cst.MultiplyAssign,
    cst.FloorDivideAssign: cst.MultiplyAssign,
    cst.BitAndAssign: cst.BitOrAssign,
    cst.BitOrAssign: cst.BitAndAssign,
    cst.LeftShiftAssign: cst.RightShiftAssign,
    cst.RightShiftAssign: cst.LeftShiftAssign,
}
_OPPOSITE: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.LessThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
    cst.GreaterThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
}
_IN_ORDER = (
    *(cst.Subtract, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power),
    *(cst.LeftShift, cst.RightShift, cst.MatrixMultiply),
)
"""Operators whose operands cannot change places."""
_NO_NUMBER = (
    *(cst.BaseString, cst.List, cst.Tuple, cst.Dict, cst.Set, cst.ListComp, cst.DictComp),
)
_ORDERED = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


@modifier()
def change_operator(entity: Entity, rng: Random) -> Iterator[Variant]:
    """An operator of numbers or bits is another one: `+` becomes `-`, `//` becomes `%`."""
    for node in entity.code(cst.BinaryOperation):
        old = node.operator
        if _is_no_number(node):
            continue
        for kind in _BINARY.get(type(old), ()):
            new = _like(old, kind)
            yield entity.replacing(old, new, note=f"{became(old, new)} in `{text_of(node)}`")
    for added in entity.code(cst.AugAssign):
        other = _AUGMENTED.get(type(added.operator))
        if other is not None and not isinstance(added.value, _NO_NUMBER):
            sign = _like(added.operator, other)
            note = f"{became(added.operator, sign)} in `{text_of(added)}`"
            yield entity.replacing(added.operator, sign, note=note)


def _like(old: cst.CSTNode, kind: type[cst.CSTNode]) -> cst.CSTNode:
    """Another operator with the same spaces around it."""
    spaces = {name: getattr(old, name) for name in ("whitespace_before", "whitespace_after")}
    return kind(**spaces)


def _is_no_number(node: cst.BaseExpression) -> bool:
    """Whether a text or a list is in it: with any operator but `+` and `%` that is a
    `TypeError`, which no tests are needed to find.
    """
    if isinstance(node, cst.BinaryOperation):
        return _is_no_number(node.left) or _is_no_number(node.right)
    return isinstance(node, _NO_NUMBER)


@modifier()
def change_comparison(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A comparison is its opposite: `==` becomes `!=`, `in` becomes `not in`."""
    for node in entity.code(cst.Comparison):
        parent = entity.parents.get(node)
        if isinstance(parent, cst.If) and isinstance(parent.orelse, cst.Else):
            continue  # `invert-if` knows these, and the next
        if isinstance(parent, cst.IfExp) and parent.test is node:
            continue
        for target in node.comparisons:
            old = target.operator
            kind = _OPPOSITE.get(type(old))
            if kind is not None:
                new = _like(old, kind)
                yield entity.replacing(old, new, note=f"{became(old, new)} in `{text_of(node)}`")


def is_alone(node: cst.Comparison) -> bool:
    """Whether it has one operator, which has an opposite."""
    return len(node.comparisons) == 1 and type(node.comparisons[0].operator) in _OPPOSITE


@modifier()
def swap_operands(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The operands change places where that matters: `a - b` becomes `b - a`."""
    for node in entity.code(cst.BinaryOperation):
        is_text = isinstance(node.left, cst.BaseString) and isinstance(node.operator, cst.Modulo)
        joined = isinstance(node.operator, cst.Add) and _is_no_number(node)
        in_order = isinstance(node.operator, _IN_ORDER) and not is_text
        if (joined or in_order) and not same(node.left, node.right):
            new = node.with_changes(left=_operand(node.right), right=_operand(node.left))
            yield entity.replacing(node, new, note=became(node, new))
    for comparison in entity.code(cst.Comparison):
        if len(comparison.comparisons) != 1:
            continue
        (target,) = comparison.comparisons
        if isinstance(target.operator, _ORDERED) and not same(comparison.left, target.comparator):
            turned = comparison.with_changes(
                left=target.comparator,
                comparisons=[target.with_changes(comparator=comparison.left)],
            )
            yield entity.replacing(comparison, turned, note=became(comparison, turned))


def _operand(node: cst.BaseExpression) -> cst.BaseExpression:
    """In parentheses if it is an operation of its own, so that it stays one."""
    if isinstance(node, cst.BinaryOperation | cst.UnaryOperation) and not node.lpar:
        return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return node


@modifier()
def break_chain(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A chain lacks a link: `a + b - c` becomes `a - c`, `x.strip().lower()` is `x.lower()`."""
    for node in entity.code(cst.BinaryOperation):
        if isinstance(node.left, cst.BinaryOperation) and not node.left.lpar:
            inner = node.left
            for new in (in_place_of(node, inner), node.with_changes(left=inner.left)):
                yield entity.replacing(node, new, note=became(node, new))
    for call in entity.code(cst.Call):
        if not isinstance(call.func, cst.Attribute):
            continue
        before = call.func.value
        if isinstance(before, cst.Call) and isinstance(before.func, cst.Attribute):
            shorter = call.func.with_changes(value=before.func.value)
            for made in (call.with_changes(func=shorter), in_place_of(call, before)):
                yield entity.replacing(call, made, note=became(call, made))
