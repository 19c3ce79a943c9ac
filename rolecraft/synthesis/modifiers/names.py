"""The wrong one of two that are alike: variables, attributes, members, keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.bindings import bindings_of
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.kinds import kinds_in
from rolecraft.synthesis.modifiers.nodes import (
    became,
    brief,
    is_in_raise,
    method_calls,
    quoted,
    text_of,
    with_quoted,
)

_MOST = 2
"""Others that are tried for one use: those of which most is in common."""


@modifier()
def wrong_variable(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Another variable of the same kind, which has a value there too, is read."""
    bindings, kinds = bindings_of(entity.node), kinds_in(entity.node)
    matters = {*entity.code(cst.Name)}
    for use, place in bindings.uses:
        there = bindings.at(place)
        name = use.value
        if name not in there or name in ("self", "cls") or use not in matters:
            continue
        if is_in_raise(entity, use):
            continue
        others = [other for other in there if other not in (name, "self", "cls")]
        alike = _best(others, partial(kinds.shared, name))
        if not alike and there[name].is_parameter:
            alike = [
                other
                for other in sorted(others)
                if there[other].is_parameter
                and kinds.may_be_same(name, other)
                and kinds.is_object(name) == kinds.is_object(other)
            ][:1]
        for other in alike:
            note = f"`{name}` became `{other}` in `{_around(entity, use)}`"
            yield entity.replacing(use, use.with_changes(value=other), note=note)


@modifier()
def wrong_attribute(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Another attribute of the same object, of the same kind: `self.start` for `self.end`."""
    bound = bindings_of(entity.node).bound
    kinds = kinds_in(_class_of(entity) or entity.node)
    found = _attributes(entity, lambda base: base in bound)
    for node, name in found:
        others = _beside(entity, found, node, name)
        if _is_called(entity, node):
            mine = node.attr.value
            others = {each for each in others if _is_like(each.rpartition(".")[2], mine)}
        for other in _best(others, partial(kinds.shared, name)):
            yield _with_attribute(entity, node, other)


@modifier()
def wrong_member(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Another member of the same module, class or enumeration: `Token.Name` for `Token.Number`."""
    bound = bindings_of(entity.node).bound
    found = _attributes(entity, lambda base: base not in bound)
    for node, name in found:
        for each in sorted(_beside(entity, found, node, name))[:_MOST]:
            yield _with_attribute(entity, node, each)


@modifier()
def wrong_key(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Another string key, which is used in the same function."""
    keys = {node: text for node in _keys(entity) if (text := quoted(node))}
    for node, text in keys.items():
        others = sorted({*keys.values()} - {text})
        near = [other for other in others if _is_like(other, text)] or others
        for other in near[:1]:
            new = with_quoted(node, other)
            yield entity.replacing(node, new, note=f"the key {became(node, new)}")


def _best(names: Iterable[str], shared: Callable[[str], int]) -> list[str]:
    """Those with which something is shared, those with most first."""
    alike = [(-shared(name), name) for name in names]
    return [name for points, name in sorted(alike) if points][:_MOST]


def _attributes(entity: Entity, is_ours: Callable[[str], bool]) -> list[tuple[cst.Attribute, str]]:
    """The chains of names that are read, and are not a part of another one; with their text."""
    found = []
    for node in entity.code(cst.Attribute):
        name = dotted(node)
        parent = entity.parents.get(node)
        is_target = getattr(parent, "target", None) is node
        if not name or isinstance(parent, cst.Attribute) or is_target:
            continue
        if is_ours(name.partition(".")[0]) and not is_in_raise(entity, node):
            found.append((node, name))
    return found


def _beside(
    entity: Entity, found: list[tuple[cst.Attribute, str]], node: cst.Attribute, name: str
) -> set[str]:
    """The others of the same thing that are read; methods beside a method."""
    base, called = name.rpartition(".")[0], _is_called(entity, node)
    return {
        each
        for other, each in found
        if each.rpartition(".")[0] == base and each != name and _is_called(entity, other) == called
    }


def _with_attribute(entity: Entity, node: cst.Attribute, name: str) -> Variant:
    new = node.with_changes(attr=cst.Name(name.rpartition(".")[2]))
    note = f"`{text_of(node)}` became `{name}` in `{_around(entity, node)}`"
    return entity.replacing(node, new, note=note)


def _is_called(entity: Entity, node: cst.CSTNode) -> bool:
    parent = entity.parents.get(node)
    return isinstance(parent, cst.Call) and parent.func is node


def _around(entity: Entity, node: cst.CSTNode) -> str:
    """What a name stands in, for the note: the nearest expression or small statement."""
    here = entity.parents.get(node)
    while here is not None and not isinstance(
        here, cst.BaseExpression | cst.BaseSmallStatement | cst.BaseCompoundStatement
    ):
        here = entity.parents.get(here)
    return brief(here) if here is not None else ""


def _class_of(entity: Entity) -> cst.ClassDef | None:
    """The class that a method is of; None for other functions."""
    (*around, _) = entity.name.split(".")
    body: Iterable[cst.CSTNode] = entity.module.body
    found: cst.ClassDef | None = None
    for name in around:
        classes = (each for each in body if isinstance(each, cst.ClassDef))
        found = next((each for each in classes if each.name.value == name), None)
        if found is None:
            return None
        body = found.body.body
    return found


def _keys(entity: Entity) -> list[cst.SimpleString]:
    """The texts that are looked up: `x["a"]`, `x.get("a")`, `"a" in x`, `{"a": …}`."""
    found = [
        index.value for index in entity.code(cst.Index) if isinstance(index.value, cst.SimpleString)
    ]
    for call, _ in method_calls(entity, "get", "pop", "setdefault"):
        if call.args and isinstance(call.args[0].value, cst.SimpleString):
            found.append(call.args[0].value)
    keys = [element.key for element in entity.code(cst.DictElement)]
    found += [key for key in keys if isinstance(key, cst.SimpleString)]
    wanted = {*found}
    return [node for node in entity.code(cst.SimpleString) if node in wanted]


def _is_like(one: str, other: str) -> bool:
    """Whether somebody could take the one for the other: they have a word in common."""
    mine, theirs = ({*re.findall("[A-Za-z][a-z]+", name)} for name in (one, other))
    return bool(mine & theirs)
