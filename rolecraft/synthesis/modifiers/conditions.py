"""Conditions that are nearly right: a lost `not`, the wrong connective, falsy for None."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.kinds import kinds_in
from rolecraft.synthesis.modifiers.nodes import (
    became,
    brief,
    calls_of,
    in_place_of,
    is_none,
    is_truth,
    parenthesized,
    without_parentheses,
)

_SPACE = cst.SimpleWhitespace(" ")
_OTHER_CALL = {"any": "all", "all": "any", "min": "max", "max": "min"}


@modifier()
def dropped_not(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`not x` becomes `x`, `not in` becomes `in`, `is not` becomes `is`."""
    for node in entity.code(cst.UnaryOperation):
        if isinstance(node.operator, cst.Not):
            new = in_place_of(node, node.expression)
            yield entity.replacing(node, new, note=became(node, new))
    for target in entity.code(cst.ComparisonTarget):
        old = target.operator
        if isinstance(old, cst.NotIn):
            operator = cst.In(old.whitespace_before, old.whitespace_after)
            yield entity.replacing(
                old, operator, note=f"{became(old, operator)} in {_whole(entity, target)}"
            )
        elif isinstance(old, cst.IsNot):
            same = cst.Is(old.whitespace_before, old.whitespace_after)
            yield entity.replacing(
                old, same, note=f"{became(old, same)} in {_whole(entity, target)}"
            )


@modifier()
def wrong_connective(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`and` becomes `or`, `or` becomes `and`."""
    for node in entity.code(cst.BooleanOperation):
        old = node.operator
        kind = cst.Or if isinstance(old, cst.And) else cst.And
        new = kind(old.whitespace_before, old.whitespace_after)
        words = ("and", "or") if isinstance(old, cst.And) else ("or", "and")
        note = f"`{words[0]}` became `{words[1]}` between `{brief(node.left)}` and "
        yield entity.replacing(old, new, note=f"{note}`{brief(node.right)}`")


@modifier()
def falsy_for_none(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`x is None` becomes `not x` in a condition: 0 and the empty are taken for None."""
    kinds = kinds_in(entity.node)
    parameters = [param.name.value for param in entity.code(cst.Param)]
    unknown = {
        name for name in parameters if not kinds.is_object(name) and "called" not in kinds.of(name)
    }
    for node in entity.code(cst.Comparison):
        if len(node.comparisons) != 1 or not is_truth(entity, node):
            continue
        (target,) = node.comparisons
        if not is_none(target.comparator):
            continue
        if not kinds.may_be_empty(node.left) and dotted(node.left) not in unknown:
            continue  # an object is never falsy
        value = parenthesized(node.left)
        if isinstance(target.operator, cst.Is):
            value = cst.UnaryOperation(cst.Not(), value)
        elif not isinstance(target.operator, cst.IsNot):
            continue
        new = in_place_of(node, value)
        yield entity.replacing(node, new, note=became(node, new))


@modifier()
def none_for_falsy(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`not x` becomes `x is None` in a condition: 0 and the empty are taken for something."""
    kinds = kinds_in(entity.node)
    for node in entity.code(cst.Name, cst.Attribute):
        if not is_truth(entity, node) or not kinds.may_be_empty(node):
            continue
        parent = entity.parents[node]
        is_negated = isinstance(parent, cst.UnaryOperation)
        old = parent if isinstance(parent, cst.UnaryOperation) else node
        if is_negated and not is_truth(entity, old):
            continue  # `y = not x`
        operator = cst.Is() if is_negated else cst.IsNot()
        target = cst.ComparisonTarget(operator, cst.Name("None"))
        new = in_place_of(old, cst.Comparison(without_parentheses(node), [target]))
        yield entity.replacing(old, new, note=became(old, new))


@modifier()
def any_or_all(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`any` becomes `all`, `all` becomes `any`."""
    yield from _other_calls(entity, "any", "all")


@modifier()
def min_or_max(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`min` becomes `max`, `max` becomes `min`."""
    yield from _other_calls(entity, "min", "max")


def _other_calls(entity: Entity, *names: str) -> Iterator[Variant]:
    for call in calls_of(entity, *names):
        assert isinstance(call.func, cst.Name)
        new = cst.Name(_OTHER_CALL[call.func.value])
        note = f"{became(call.func, new)} in `{brief(call)}`"
        yield entity.replacing(call.func, new, note=note)


def _whole(entity: Entity, target: cst.ComparisonTarget) -> str:
    return f"`{brief(entity.parents[target])}`"
