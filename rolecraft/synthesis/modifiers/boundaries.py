"""One too many or one too few: boundaries of comparisons, slices, ranges, indices, lengths."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.kinds import kinds_in
from rolecraft.synthesis.modifiers.nodes import (
    became,
    brief,
    calls_of,
    in_place_of,
    method_calls,
    number,
    plus,
    positional,
    text_of,
    whole,
)

_Boundary = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
_ACROSS: dict[type[_Boundary], type[_Boundary]] = {
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
}


@modifier()
def comparison_boundary(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`<` becomes `<=`, `>` becomes `>=`, and the other way round."""
    for target in entity.code(cst.ComparisonTarget):
        old = target.operator
        if isinstance(old, _Boundary):
            new = _ACROSS[type(old)](old.whitespace_before, old.whitespace_after)
            yield entity.replacing(
                old, new, note=f"{became(old, new)} in `{brief(entity.parents[target])}`"
            )


@modifier()
def slice_bound(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A bound of a slice is off by one: `x[1:]` becomes `x[2:]` or `x[:]`."""
    for part in entity.code(cst.Slice):
        for new in (*_lower(part), *_upper(part)):
            yield entity.replacing(part, new, note=f"the slice {became(part, new)}")


def _lower(part: cst.Slice) -> Iterator[cst.Slice]:
    if part.lower is None:
        if part.upper is not None and not _is_backwards(part):
            yield part.with_changes(lower=number(1))
        return
    value = whole(part.lower)
    if value != -1:  # `x[0:]` is something else than one more than `x[-1:]`
        yield part.with_changes(lower=plus(part.lower, 1))
    if value == 1:
        yield part.with_changes(lower=None)
    elif value != 0:
        yield part.with_changes(lower=plus(part.lower, -1))


def _upper(part: cst.Slice) -> Iterator[cst.Slice]:
    if part.upper is None:
        if part.lower is not None and not _is_backwards(part):
            yield part.with_changes(upper=number(-1))
        return
    value = whole(part.upper)
    yield part.with_changes(upper=None if value == -1 else plus(part.upper, 1))
    if value != 0:
        yield part.with_changes(upper=plus(part.upper, -1))


def _is_backwards(part: cst.Slice) -> bool:
    return part.step is not None and (whole(part.step) or 0) < 0


@modifier()
def range_bound(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A range begins or ends one off: `range(n)` becomes `range(n - 1)` or `range(1, n)`."""
    for call in calls_of(entity, "range"):
        args = positional(call)
        if not args or len(args) > 3:
            continue
        for index, arg in enumerate(args[:2]):
            for by in (1, -1):
                shifted = arg.with_changes(value=plus(arg.value, by))
                new = call.with_changes(args=[*args[:index], shifted, *args[index + 1 :]])
                yield entity.replacing(call, new, note=became(call, new))
        if len(args) == 1:
            new = call.with_changes(args=[_argument(number(1)), args[0]])
            yield entity.replacing(call, new, note=became(call, new))


def _argument(value: cst.BaseExpression) -> cst.Arg:
    """One that another one follows."""
    return cst.Arg(value, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))


@modifier()
def index_by_one(entity: Entity, rng: Random) -> Iterator[Variant]:
    """An index is off by one: `x[i]` becomes `x[i + 1]`, `x[0]` becomes `x[1]`."""
    kinds = kinds_in(entity.node)
    for subscript in entity.code(cst.Subscript):
        index = _index(subscript)
        if index is None:
            continue
        value = whole(index)
        is_sum = isinstance(index, cst.BinaryOperation) and whole(index.right) is not None
        if value is not None:
            steps = (-1,) if value < 0 else (1,) if value == 0 else (1, -1)
        elif is_sum or "number" in kinds.of(index):
            steps = (1, -1)
        else:
            continue
        for by in steps:
            new = plus(index, by)
            yield entity.replacing(index, new, note=_indexed(subscript, new))


@modifier()
def first_or_last(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The first instead of the last, or the last instead of the first: `x[0]` becomes `x[-1]`."""
    for subscript in entity.code(cst.Subscript):
        index = _index(subscript)
        if index is not None and whole(index) in (0, -1):
            new = number(-1 if whole(index) == 0 else 0)
            yield entity.replacing(index, new, note=_indexed(subscript, new))
    for call, func in method_calls(entity, "pop", "insert", "appendleft", "popleft"):
        match func.attr.value, [whole(arg.value) for arg in call.args]:
            case "pop", [0 | -1 as end]:
                args = [] if end == 0 else [cst.Arg(number(0))]
                new_call = call.with_changes(args=args)
            case "pop", [] if "list" in kinds_in(entity.node).of(func.value):
                new_call = call.with_changes(args=[cst.Arg(number(0))])
            case "insert", [0, _]:
                new_call = _renamed(call, func, "append").with_changes(args=call.args[1:])
            case "appendleft" | "popleft" as name, _:
                new_call = _renamed(call, func, name.removesuffix("left"))
            case _:
                continue
        yield entity.replacing(call, new_call, note=became(call, new_call))


def _renamed(call: cst.Call, func: cst.Attribute, name: str) -> cst.Call:
    return call.with_changes(func=func.with_changes(attr=cst.Name(name)))


@modifier()
def length_by_one(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A length is one too long or too short: `len(x) - 1` becomes `len(x)`."""
    for call in calls_of(entity, "len"):
        parent = entity.parents[call]
        if isinstance(parent, cst.BinaryOperation):
            if parent.left is call and whole(parent.right) in (1, -1):
                new = in_place_of(parent, call)
                yield entity.replacing(parent, new, note=became(parent, new))
        elif isinstance(parent, cst.Comparison | cst.ComparisonTarget | cst.Assign | cst.Return):
            for by in (1, -1):
                shifted = in_place_of(call, plus(call.with_changes(lpar=[], rpar=[]), by))
                yield entity.replacing(call, shifted, note=became(call, shifted))


@modifier()
def counting_start(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`enumerate` counts from 1 instead of 0, or from 0 instead of 1."""
    for call in calls_of(entity, "enumerate"):
        (first, *rest) = call.args or (None,)
        if first is None or first.star:
            continue
        if not rest:
            new = call.with_changes(args=[_argument(first.value), cst.Arg(number(1))])
        elif len(rest) == 1 and whole(rest[0].value) != 0:
            new = call.with_changes(args=[first.with_changes(comma=cst.MaybeSentinel.DEFAULT)])
        else:
            continue
        yield entity.replacing(call, new, note=became(call, new))


def _index(subscript: cst.Subscript) -> cst.BaseExpression | None:
    """What stands in `x[…]`, if it is one index and no slice."""
    if len(subscript.slice) != 1 or not isinstance(subscript.slice[0].slice, cst.Index):
        return None
    return subscript.slice[0].slice.value


def _indexed(subscript: cst.Subscript, index: cst.BaseExpression) -> str:
    return f"`{text_of(subscript)}` became `{text_of(subscript.value)}[{text_of(index)}]`"
