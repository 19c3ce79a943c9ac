"""The order of control: branches that change places, statements that do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.blocks import before, blocks_of, places_of, small, stored
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, in_place_of, parenthesized, same, text_of
from rolecraft.synthesis.modifiers.operators import is_alone


@modifier()
def invert_if(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The branches of an `if` change places; one without `else` runs when it should not."""
    for node in entity.code(cst.If):
        if isinstance(node.orelse, cst.Else):
            if not same(node.body, node.orelse.body):
                other = node.orelse.with_changes(body=node.body)
                new = node.with_changes(body=node.orelse.body, orelse=other)
                note = f"the branches of `if {text_of(node.test)}` changed places"
                yield entity.replacing(node, new, note=note)
        elif node.orelse is None and not _is_turned_elsewhere(node.test):
            test = cst.UnaryOperation(cst.Not(), parenthesized(node.test))
            new_test = in_place_of(node.test, test) if node.test.lpar else test
            yield entity.replacing(node.test, new_test, note=f"if {became(node.test, new_test)}")
    for choice in entity.code(cst.IfExp):
        if not same(choice.body, choice.orelse):
            turned = choice.with_changes(body=choice.orelse, orelse=choice.body)
            yield entity.replacing(choice, turned, note=became(choice, turned))


def _is_turned_elsewhere(test: cst.BaseExpression) -> bool:
    """`change-comparison` and `dropped-not` know these."""
    if isinstance(test, cst.Comparison):
        return is_alone(test)
    return isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)


_FIXED = (
    *(cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Pass),
    *(cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal),
)


@modifier(weight=0.5)
def shuffle_statements(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Two statements, of which one needs the other, change places.

    Only neighbours, and only where all names have a value in the new order too: anything else is
    no change at all, or a `NameError`.
    """
    for block in blocks_of(entity):
        for one, other in pairwise(block.body):
            if not (_may_move(one) and _may_move(other)):
                continue
            reads, changes = places_of(entity, one)
            other_reads, other_changes = places_of(entity, other)
            if not (changes & (other_reads | other_changes) or reads & other_changes):
                continue
            fresh = {*stored(entity, one)} - before(entity, one)
            if not fresh & other_reads:
                note = f"`{_short(one)}` and `{_short(other)}` changed places"
                yield entity.changed({one: other, other: one}, note=note)


def _may_move(statement: cst.CSTNode) -> bool:
    only = small(statement)
    if isinstance(only, cst.Expr):
        return not isinstance(only.value, cst.SimpleString | cst.ConcatenatedString | cst.Ellipsis)
    if only is not None:
        return not isinstance(only, _FIXED)
    return isinstance(statement, cst.If | cst.For | cst.While | cst.With)


def _short(statement: cst.CSTNode) -> str:
    """The first line of it."""
    text = cst.Module(body=[]).code_for_node(statement.with_changes(leading_lines=[]))
    return text.strip().partition("\n")[0]
