"""Statements that run too early, too often, or no longer: returns, jumps, guards, awaits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.blocks import is_idle, leads_nowhere
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, brief, in_place_of, text_of

_Loop = cst.For | cst.While
_JUMPS = (cst.Return, cst.Raise, cst.Continue, cst.Break)


@modifier()
def early_return(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The `return` that follows a loop gets into it: it ends after the first time."""
    for loop, after in _loops_and_next(entity):
        if (line := _only(after, cst.Return)) is not None:
            changes = _with_last(loop, after)
            note = f"`{brief(line)}` got into the loop before it"
            yield entity.changed({**changes, after: None}, note=note)


@modifier()
def indented_statement(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The statement that follows a loop gets into it: it runs each time."""
    for loop, after in _loops_and_next(entity):
        if (line := _only(after, cst.Assign, cst.AugAssign, cst.Expr)) is not None:
            changes = _with_last(loop, after)
            note = f"`{brief(line)}` got into the loop before it"
            yield entity.changed({**changes, after: None}, note=note)


@modifier()
def dedented_statement(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The last statement of a loop gets behind it: it runs once, after all the others."""
    for block in entity.code(cst.IndentedBlock):
        for loop in block.body:
            if not isinstance(loop, cst.For) or loop.orelse or not _lines(loop):
                continue  # a `while` would hardly ever end
            (*rest, last) = _lines(loop)
            line = _only(last, cst.Assign, cst.AugAssign, cst.Expr)
            if rest and line is not None:
                at = block.body.index(loop)
                body = [*block.body[:at], _with_lines(loop, rest), last, *block.body[at + 1 :]]
                note = f"`{brief(line)}` got behind the loop that it was the last line of"
                yield entity.replacing(block, block.with_changes(body=body), note=note)


@modifier()
def wrong_jump(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`continue` becomes `break`, and in a `for` `break` becomes `continue`."""
    for jump in entity.code(cst.Break, cst.Continue):
        new = cst.Continue() if isinstance(jump, cst.Break) else cst.Break()
        if isinstance(jump, cst.Continue) or isinstance(_loop_of(entity, jump), cst.For):
            yield entity.replacing(jump, new, note=became(jump, new))


@modifier()
def dropped_jump(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A `continue`, or a `break` of a `for`, is not there."""
    for jump in entity.code(cst.Break, cst.Continue):
        if isinstance(jump, cst.Break) and not isinstance(_loop_of(entity, jump), cst.For):
            continue  # a loop that never ends says nothing about the code
        if leads_nowhere(entity, jump):
            continue
        yield entity.removing(jump, note=f"`{text_of(jump)}` was dropped")


@modifier()
def removed_guard(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A guard is not there: `if x is None: return`, `if not x: raise …`."""
    for node in entity.code(cst.If):
        is_elif = isinstance(entity.parents.get(node), cst.If)
        lines = [*node.body.body]
        if is_elif or node.orelse is not None or len(lines) > 2 or not lines:
            continue
        if is_idle(entity, node):
            continue
        last = lines[-1]
        jump = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
        if isinstance(jump, _JUMPS):
            note = f"the guard `if {brief(node.test)}: … {text_of(jump)}` was removed"
            yield entity.removing(node, note=note)


@modifier()
def missing_await(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`await` is forgotten: nothing runs, and the value is a coroutine."""
    for node in entity.code(cst.Await):
        new = in_place_of(node, node.expression)
        yield entity.replacing(node, new, note=became(node, new))


@modifier()
def dropped_yield_from(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`yield from x` becomes `yield x`, or `x`, of which nothing comes out."""
    for node in entity.code(cst.Yield):
        if isinstance(node.value, cst.From):
            item = node.value.item
            whole = node.with_changes(value=item)
            yield entity.replacing(node, whole, note=became(node, whole))
            if isinstance(entity.parents[node], cst.Expr):
                bare = in_place_of(node, item)
                yield entity.replacing(node, bare, note=became(node, bare))


@modifier()
def plain_assignment(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`x += y` becomes `x = y`: what was there before is lost."""
    for node in entity.code(cst.AugAssign):
        if not _moves_on(entity, node):
            new = cst.Assign([cst.AssignTarget(node.target)], node.value, node.semicolon)
            yield entity.replacing(node, new, note=became(node, new))


def _loops_and_next(entity: Entity) -> Iterator[tuple[_Loop, cst.BaseStatement]]:
    """Each loop without an `else` and what follows it in its block."""
    for block in entity.code(cst.IndentedBlock):
        for one, after in pairwise(block.body):
            if isinstance(one, _Loop) and one.orelse is None and _lines(one):
                yield one, after


def _with_last(loop: _Loop, line: cst.BaseStatement) -> dict[cst.CSTNode, cst.CSTNode | None]:
    return {loop: _with_lines(loop, [*_lines(loop), line])}


def _with_lines(loop: _Loop, lines: Sequence[cst.BaseStatement]) -> _Loop:
    made = loop.with_changes(body=loop.body.with_changes(body=lines))
    assert isinstance(made, _Loop)
    return made


def _lines(loop: _Loop) -> list[cst.BaseStatement]:
    return [*loop.body.body] if isinstance(loop.body, cst.IndentedBlock) else []


def _only(line: cst.CSTNode, *kinds: type[cst.BaseSmallStatement]) -> cst.CSTNode | None:
    """The only small statement of a line, if it is one of these kinds."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    return line.body[0] if isinstance(line.body[0], kinds) else None


def _loop_of(entity: Entity, node: cst.CSTNode) -> cst.CSTNode | None:
    here = entity.parents.get(node)
    while here is not None and not isinstance(here, _Loop):
        here = entity.parents.get(here)
    return here


def _moves_on(entity: Entity, node: cst.AugAssign) -> bool:
    """Whether a `while` around may end by it: without, nothing is seen but that it hangs."""
    return isinstance(_loop_of(entity, node), cst.While)
