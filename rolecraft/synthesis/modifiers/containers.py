"""Lists, dicts and caches: the wrong way in, the wrong order, a copy or a part of a key missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import (
    became,
    brief,
    calls_of,
    in_place_of,
    is_none,
    method_calls,
    parenthesized,
    text_of,
    without_element,
)

_OTHER_WAY_IN = {
    "append": "extend",
    "extend": "append",
    "appendleft": "extendleft",
    "extendleft": "appendleft",
}

_READERS = frozenset(
    {"sorted", "list", "tuple", "set", "frozenset", "sum", "any", "all", "min", "max"}
)
"""They read all of their one argument before they return, and keep nothing of it."""
_OTHER_COPIES = frozenset({"set", "dict", "deepcopy"})
"""Copies that are not just the same things in the same order."""
_CACHE = re.compile("cache|memo|seen|visited")


@modifier()
def append_or_extend(entity: Entity, rng: Random) -> Iterator[Variant]:
    """One thing is added instead of all that is in it, or the other way round."""
    for call, func in method_calls(entity, "append", "extend", "appendleft", "extendleft"):
        new = cst.Name(_OTHER_WAY_IN[func.attr.value])
        note = f"{became(func.attr, new)} in `{brief(call)}`"
        yield entity.replacing(func.attr, new, note=note)


@modifier()
def wrong_order(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Sorted the other way round, without the key, or not at all; or not reversed."""
    sorting = calls_of(entity, "sorted")
    for call in [*sorting, *(call for call, _ in method_calls(entity, "sort"))]:
        keywords = [arg.keyword.value if arg.keyword else "" for arg in call.args]
        if "reverse" not in keywords:
            reverse = cst.Arg(cst.Name("True"), keyword=cst.Name("reverse"), equal=_EQUAL)
            new = call.with_changes(args=[*map(_beside, call.args), reverse])
            yield entity.replacing(call, new, note=became(call, new))
        for name in [name for name in ("key", "reverse") if name in keywords]:
            if dotted(call.args[keywords.index(name)].value) in ("None", "False"):
                continue  # as it is without
            new = _without(call, keywords.index(name))
            yield entity.replacing(call, new, note=became(call, new))
        if call in sorting and call.args and not call.args[0].star:
            bare = cst.Call(cst.Name("list"), [_last(call.args[0])])
            new = in_place_of(call, bare)
            yield entity.replacing(call, new, note=became(call, new))
    for call in calls_of(entity, "reversed"):
        if len(call.args) == 1 and not call.args[0].star:
            func = cst.Name("iter")
            yield entity.replacing(call.func, func, note=f"`{brief(call)}` is not reversed")


@modifier()
def missing_copy(entity: Entity, rng: Random) -> Iterator[Variant]:
    """No copy is made: `list(x)`, `x.copy()`, `x[:]` become `x`."""
    for node, copied in _copies(entity):
        if _is_read_at_once(entity, node):
            continue
        new = in_place_of(node, copied)
        yield entity.replacing(node, new, note=became(node, new))


def _copies(entity: Entity) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What makes a copy, and of what."""
    for call in calls_of(entity, "list", "dict", "set", "tuple", "copy", "deepcopy"):
        if len(call.args) == 1 and not call.args[0].star and call.args[0].keyword is None:
            value = call.args[0].value
            if isinstance(value, cst.Name | cst.Attribute | cst.Subscript):
                yield call, value
    for call, func in method_calls(entity, "copy", "deepcopy"):
        if dotted(func.value) == "copy":
            if len(call.args) == 1:
                yield call, call.args[0].value
        elif not call.args:
            yield call, func.value
    for part in entity.code(cst.Subscript):
        is_all = len(part.slice) == 1 and text_of(part.slice[0].slice) == ":"
        if is_all and not isinstance(entity.parents.get(part), cst.AssignTarget | cst.Del):
            yield part, part.value


def _is_read_at_once(entity: Entity, node: cst.BaseExpression) -> bool:
    """Whether nobody has the copy but what reads all of it: `sorted(list(x))`, `f(*list(x))`."""
    if isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in _OTHER_COPIES:
        return False
    parent = entity.parents.get(node)
    if not isinstance(parent, cst.Arg):
        return isinstance(parent, cst.StarredElement)
    reader = entity.parents[parent]
    assert isinstance(reader, cst.Call | cst.ClassDef)
    if parent.star == "*" or not isinstance(reader, cst.Call):
        return parent.star == "*"
    is_only = len([arg for arg in reader.args if arg.keyword is None]) == 1
    return is_only and parent.keyword is None and dotted(reader.func) in _READERS


@modifier()
def lost_default(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`x.get(key, default)` becomes `x.get(key)`, which becomes `x[key]`."""
    for call, func in method_calls(entity, "get"):
        if any(arg.star or arg.keyword for arg in call.args):
            continue
        if len(call.args) == 2 and not is_none(call.args[1].value):
            new: cst.BaseExpression = call.with_changes(args=[_last(call.args[0])])
        elif len(call.args) in (1, 2):
            index = cst.SubscriptElement(cst.Index(call.args[0].value))
            new = in_place_of(call, cst.Subscript(func.value, [index]))
        else:
            continue
        yield entity.replacing(call, new, note=became(call, new))
    for call in calls_of(entity, "next", "getattr"):
        most = {"next": 2, "getattr": 3}[dotted(call.func)]
        if len(call.args) == most and not any(arg.star or arg.keyword for arg in call.args):
            args = [*call.args[: most - 2], _last(call.args[most - 2])]
            without = call.with_changes(args=args)
            yield entity.replacing(call, without, note=became(call, without))


@modifier()
def partial_key(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A part of a key is forgotten: what was kept for one is taken for another."""
    keys: dict[str, list[cst.Tuple | cst.Subscript]] = {}
    for node in entity.code(cst.Tuple):
        if len(node.elements) > 1 and _is_key(entity, node):
            keys.setdefault(text_of(node).strip("()"), []).append(node)
    for looked_up in entity.code(cst.Subscript):
        key = ", ".join(text_of(part.slice) for part in looked_up.slice)
        if len(looked_up.slice) > 1 and (key in keys or _CACHE.search(text_of(looked_up.value))):
            keys.setdefault(key, []).append(looked_up)
    for key, nodes in keys.items():
        for index, part in enumerate(key.split(", ")):
            changes: dict[cst.CSTNode, cst.CSTNode | None] = {}
            changes.update((node, _without_part(node, index)) for node in nodes)
            if None not in changes.values():
                yield entity.changed(changes, note=f"`{part}` is no part of the key `{key}`")


def _without_part(node: cst.Tuple | cst.Subscript, index: int) -> cst.CSTNode | None:
    """A key without one of its parts; None if there is no such one, or it is several."""
    if isinstance(node, cst.Subscript):
        parts = [part for at, part in enumerate(node.slice) if at != index]
        plain = all(isinstance(part.slice, cst.Index) for part in node.slice)
        if not plain or len(parts) == len(node.slice):
            return None
        parts[-1] = parts[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(slice=parts)
    if index >= len(node.elements) or isinstance(node.elements[index], cst.StarredElement):
        return None
    return without_element(node, index)


@modifier()
def wrong_division(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`/` becomes `//`, `//` becomes `/`."""
    for node in entity.code(cst.BinaryOperation):
        old = node.operator
        if isinstance(old, cst.Divide | cst.FloorDivide):
            kind = cst.FloorDivide if isinstance(old, cst.Divide) else cst.Divide
            new = kind(old.whitespace_before, old.whitespace_after)
            yield entity.replacing(old, new, note=f"{became(old, new)} in `{brief(node)}`")


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _last(arg: cst.Arg) -> cst.Arg:
    """As the last one, with no comma behind."""
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)


def _beside(arg: cst.Arg) -> cst.Arg:
    """As one beside others: a generator is in parentheses."""
    is_bare = isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar
    return arg.with_changes(value=parenthesized(arg.value)) if is_bare else arg


def _without(call: cst.Call, index: int) -> cst.Call:
    rest = [*call.args[:index], *call.args[index + 1 :]]
    return call.with_changes(args=[*rest[:-1], _last(rest[-1])] if rest else [])


def _is_key(entity: Entity, node: cst.Tuple) -> bool:
    """Whether something is looked up by it, or it has a name that says so."""
    parent = entity.parents.get(node)
    if isinstance(parent, cst.Index):
        return True
    if isinstance(parent, cst.Assign):
        return any(re.search("key", dotted(target.target)) for target in parent.targets)
    if isinstance(parent, cst.ComparisonTarget):
        return bool(_CACHE.search(text_of(entity.parents[parent])))
    if isinstance(parent, cst.Arg) and isinstance(call := entity.parents[parent], cst.Call):
        name = dotted(call.func)
        return call.args[0] is parent and bool(re.search(r"\.(get|setdefault|pop|add)\Z", name))
    return False
