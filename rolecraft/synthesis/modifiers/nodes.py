"""Expressions as modifiers take them apart and put them together."""

from __future__ import annotations

import re
from typing import TypeVar

import libcst as cst

from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity

Expression = TypeVar("Expression", bound=cst.BaseExpression)

_MOST = 80
"""Characters of code in a note."""
_STRING = re.compile(r"\A([a-zA-Z]*)('''|\"\"\"|'|\")(.*)(\2)\Z", re.DOTALL)
_NOWHERE = cst.Module(body=[])
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString)


def text_of(node: cst.CSTNode) -> str:
    """The code of a node, on one line."""
    return " ".join(_NOWHERE.code_for_node(node).split())


def became(old: cst.CSTNode, new: cst.CSTNode) -> str:
    """The note of a replacement."""
    return f"`{brief(old)}` became `{brief(new)}`"


def brief(node: cst.CSTNode) -> str:
    """The code of a node for a note: no more than fits."""
    text = text_of(node)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def same(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes are written in the same way."""
    return text_of(one) == text_of(other)


def in_place_of(old: cst.BaseExpression, new: Expression) -> Expression:
    """`new` within the parentheses of `old`, whose place it takes."""
    made = new.with_changes(lpar=[*old.lpar, *new.lpar], rpar=[*new.rpar, *old.rpar])
    assert isinstance(made, type(new))
    return made


def without_parentheses(node: Expression) -> Expression:
    made = node.with_changes(lpar=[], rpar=[])
    assert isinstance(made, type(node))
    return made


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    """In parentheses, unless it is one word or has some."""
    if isinstance(node, _ATOMS) or node.lpar:
        return node
    made = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    assert isinstance(made, cst.BaseExpression)
    return made


def number(value: int) -> cst.BaseExpression:
    """A whole number, as Python writes it."""
    return cst.parse_expression(str(value))


def whole(node: cst.CSTNode | None) -> int | None:
    """The value of a whole number that stands there as it is, `-1` too; None for all else."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = whole(node.expression)
        return None if value is None else -value
    return node.evaluated_value if isinstance(node, cst.Integer) else None


def plus(node: cst.BaseExpression, by: int) -> cst.BaseExpression:
    """That many more; `n - 1` and 1 more is `n`. To stand where a sum can (an argument, an index).

    A number goes from below zero to above it only where the meaning as an index stays near:
    the caller looks after 0.
    """
    value = whole(node)
    if value is not None:
        return number(value + by)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Subtract):
        right = whole(node.right)
        if right is not None:
            signed = (right if isinstance(node.operator, cst.Add) else -right) + by
            return _sum(node.left, signed)
        return _sum(node, by)
    return _sum(node if isinstance(node, _ATOMS) else parenthesized(node), by)


def _sum(left: cst.BaseExpression, value: int) -> cst.BaseExpression:
    if value == 0:
        return left
    operator = cst.Add() if value > 0 else cst.Subtract()
    return cst.BinaryOperation(left, operator, number(abs(value)))


def positional(call: cst.Call) -> list[cst.Arg] | None:
    """The arguments of a call if all of them are positional and none is unpacked."""
    if all(arg.keyword is None and not arg.star for arg in call.args):
        return [*call.args]
    return None


def without_element(node: cst.Tuple, index: int) -> cst.BaseExpression:
    """A tuple of the others, or the other one if there is one only."""
    rest = [*node.elements[:index], *node.elements[index + 1 :]]
    if len(rest) == 1:
        return rest[0].value
    rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(elements=rest)


def quoted(node: cst.CSTNode) -> str | None:
    """What stands between the quotes of a plain string, as it is written; None for all else."""
    found = _STRING.match(node.value) if isinstance(node, cst.SimpleString) else None
    return None if found is None or "b" in found[1].lower() else found[3]


def with_quoted(node: cst.CSTNode, text: str) -> cst.SimpleString:
    """A plain string with something else between the same quotes."""
    assert isinstance(node, cst.SimpleString)
    return node.with_changes(value=_STRING.sub(lambda it: it[1] + it[2] + text + it[4], node.value))


def calls_of(entity: Entity, *names: str) -> list[cst.Call]:
    """The calls in it of functions by their bare names, such as `len`."""
    return [
        call
        for call in entity.code(cst.Call)
        if isinstance(call.func, cst.Name) and call.func.value in names
    ]


def method_calls(entity: Entity, *names: str) -> list[tuple[cst.Call, cst.Attribute]]:
    """The calls in it of something's methods, whoever's they are; with what is called."""
    return [
        (call, call.func)
        for call in entity.code(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in names
    ]


def is_in_raise(entity: Entity, node: cst.CSTNode) -> bool:
    """Whether it is part of the exception of a `raise`: of a message, nearly always."""
    return is_within(entity, node, cst.Raise)


def is_within(entity: Entity, node: cst.CSTNode, kind: type[cst.CSTNode]) -> bool:
    """Whether it is one of that kind or, in the same statement, part of one."""
    here: cst.CSTNode | None = node
    while here is not None and not isinstance(here, cst.BaseStatement):
        if isinstance(here, kind):
            return True
        here = entity.parents.get(here)
    return False


def is_truth(entity: Entity, node: cst.CSTNode) -> bool:
    """Whether only its truth counts: it is (part of) a condition, not a value."""
    parent = entity.parents.get(node)
    if isinstance(parent, cst.BooleanOperation):
        return is_truth(entity, parent)
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Not)
    if isinstance(parent, cst.If | cst.While | cst.IfExp | cst.Assert | cst.CompIf):
        return parent.test is node
    return False


def is_none(node: cst.CSTNode) -> bool:
    return dotted(node) == "None"
