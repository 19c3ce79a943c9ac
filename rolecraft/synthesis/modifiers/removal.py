"""Something is missing: an assignment, a condition, a loop, what stands around a block."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.blocks import is_idle, leaves, needed, small, statements_of
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, in_place_of, text_of


@modifier()
def remove_assignment(entity: Entity, rng: Random) -> Iterator[Variant]:
    """An assignment is missing, where the name has a value without it: an attribute, `+=`."""
    for node in entity.code(cst.Assign, cst.AugAssign, cst.AnnAssign):
        is_declared = isinstance(node, cst.AnnAssign) and node.value is None
        if is_declared or needed(entity, node):
            continue
        yield entity.removing(node, note=f"`{text_of(node)}` was removed")


@modifier()
def remove_call(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A call whose value nobody takes is missing."""
    for node in entity.code(cst.Expr):
        value = node.value.expression if isinstance(node.value, cst.Await) else node.value
        if isinstance(value, cst.Call) and value in set(entity.code(cst.Call, within=node)):
            yield entity.removing(node, note=f"`{text_of(node)}` was removed")


@modifier()
def remove_condition(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A condition is missing: its block runs always, or never, or the branch is gone."""
    for node in entity.code(cst.If):
        if is_idle(entity, node):
            continue
        test = text_of(node.test)
        parent = entity.parents[node]
        if isinstance(parent, cst.If):  # an `elif`
            yield (
                entity.replacing(node, node.orelse, note=f"`elif {test}` was removed")
                if (node.orelse is not None)
                else entity.replacing(
                    parent, parent.with_changes(orelse=None), note=f"`elif {test}` was removed"
                )
            )
            continue
        if not leaves(node.body):  # what follows would never run
            always = statements_of(node.body)
            yield entity.changed({node: always}, note=f"`if {test}` was removed: it runs always")
        if node.orelse is None:
            if not needed(entity, node):
                yield entity.removing(node, note=f"`if {test}` was removed with its block")
        elif isinstance(node.orelse, cst.Else):
            if not (leaves(node.orelse.body) or needed(entity, node.body)):
                rest = statements_of(node.orelse.body)
                yield entity.changed({node: rest}, note=f"only the `else` of `if {test}` is left")
        else:
            rest_if = node.orelse.with_changes(leading_lines=node.leading_lines)
            yield entity.replacing(
                node, rest_if, note=f"`if {test}` was removed, its `elif` is left"
            )


@modifier()
def remove_operand(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A part of a condition is missing: `a and b` becomes `a` or `b`."""
    for node in entity.code(cst.BooleanOperation):
        for part in (node.left, node.right):
            new = in_place_of(node, part)
            yield entity.replacing(node, new, note=became(node, new))


@modifier()
def remove_loop(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A loop is missing, or `while` is `if`: what should be done until it is done is done once."""
    for node in entity.code(cst.For, cst.While):
        if not needed(entity, node) and not _is_generator_end(entity, node):
            head = text_of(node.with_changes(body=cst.SimpleStatementSuite([cst.Pass()])))
            yield entity.removing(
                node, note=f"the loop `{head.partition(': pass')[0]}` was removed"
            )
    for loop in entity.code(cst.While):
        test = text_of(loop.test)
        jumps = entity.find(cst.Break, cst.Continue, within=loop.body)
        if not (jumps or leaves(loop.body)) and loop.orelse is None and test not in ("True", "1"):
            once = cst.If(
                test=loop.test,
                body=loop.body,
                leading_lines=loop.leading_lines,
                whitespace_before_test=cst.SimpleWhitespace(" "),
                whitespace_after_test=loop.whitespace_before_colon,
            )
            yield entity.replacing(loop, once, note=f"`while {test}` became `if {test}`")


def _is_generator_end(entity: Entity, node: cst.CSTNode) -> bool:
    """Whether no `yield` is left without it: all is another kind of function then."""
    inside = entity.find(cst.Yield, within=node)
    return bool(inside) and len(inside) == len(entity.find(cst.Yield))


@modifier()
def remove_wrapper(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A `with` or a `try` is missing around its block, or the `finally` after it."""
    for node in entity.code(cst.With):
        if not any(needed(entity, item) for item in node.items):
            what = ", ".join(text_of(item) for item in node.items)
            inside = statements_of(node.body)
            yield entity.changed({node: inside}, note=f"`with {what}` was removed around its block")
    for tried in entity.code(cst.Try):
        rest = statements_of(tried.orelse.body) if tried.orelse is not None else ()
        last = statements_of(tried.finalbody.body) if tried.finalbody is not None else ()
        inside = (*statements_of(tried.body), *rest, *last)
        yield entity.changed({tried: inside}, note="`try` was removed around its block")
        if tried.finalbody is not None and _does_something(tried.finalbody.body):
            if tried.handlers:
                without = tried.with_changes(finalbody=None)
                yield entity.replacing(tried, without, note="`finally` was removed")
            else:
                body = statements_of(tried.body)
                yield entity.changed({tried: body}, note="`try … finally` was removed")


def _does_something(block: cst.BaseSuite) -> bool:
    return any(not isinstance(small(each), cst.Pass) for each in statements_of(block))
