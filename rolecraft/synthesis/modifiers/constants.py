"""Numbers and truths that are others."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, is_in_raise, number


@modifier("function", "class")
def change_constant(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A number is one more or one less, True is False. Of a class: the values of its attributes."""
    for node in entity.code(cst.Integer, cst.Float, cst.Name):
        if (entity.kind == "class" and _is_in_function(entity, node)) or is_in_raise(entity, node):
            continue
        for new in _others(entity, node):
            yield entity.replacing(node, new, note=became(node, new))


def _others(entity: Entity, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    match node:
        case cst.Integer(evaluated_value=value):
            parent = entity.parents.get(node)
            is_negative = isinstance(parent, cst.UnaryOperation)
            yield number(value + 1)
            if value > (1 if is_negative else 0):
                yield number(value - 1)
        case cst.Float(evaluated_value=value):
            yield cst.Float(repr(value + 1.0))
        case cst.Name(value="True"):
            yield cst.Name("False")
        case cst.Name(value="False"):
            yield cst.Name("True")
        case _:
            pass


def _is_in_function(entity: Entity, node: cst.CSTNode) -> bool:
    here: cst.CSTNode | None = node
    while here is not None and here is not entity.node:
        if isinstance(here, cst.FunctionDef | cst.ClassDef):
            return True
        here = entity.parents.get(here)
    return False
