"""Classes that lack a base or a method.

The order of a class's methods is changed by nothing here: it does not matter to Python, unless a
name is defined twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import text_of

_FOR_PEOPLE = frozenset({"__repr__", "__str__"})
_NO_BEHAVIOUR = frozenset({"object", "Generic", "Protocol", "ABC"})


@modifier("class", weight=0.5)
def remove_base(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A class does not inherit from one of its bases."""
    node = entity.node
    assert isinstance(node, cst.ClassDef)
    for base in node.bases:
        name = dotted(base.value).rpartition(".")[2]
        if base.star or not name or name in _NO_BEHAVIOUR:
            continue
        bases = [each for each in node.bases if each is not base]
        if bases and not node.keywords:
            bases[-1] = bases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        has_others = bool(bases or node.keywords)
        parens = (
            {}
            if has_others
            else {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
        )
        new = node.with_changes(bases=bases, **parens)
        yield Variant(new, f"the base `{text_of(base.value)}` was removed")


@modifier("class", weight=0.5)
def remove_method(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A class lacks a method, which one of a base may stand in for."""
    node = entity.node
    assert isinstance(node, cst.ClassDef)
    methods = [each for each in node.body.body if isinstance(each, cst.FunctionDef)]
    used = _used_on_import(entity)
    for method in methods:
        name = method.name.value
        if name in used or name in _FOR_PEOPLE or len(node.body.body) < 2:
            continue
        yield entity.removing(method, note=f"the method `{name}` was removed")


def _used_on_import(entity: Entity) -> set[str]:
    """The names that the class reads while it is made: in decorators, in `x = property(get)`."""
    node = entity.node
    found: set[str] = set()
    for each in node.body.body:
        read: list[cst.CSTNode] = [each]
        if isinstance(each, cst.FunctionDef):
            read = [*each.decorators]
        for part in read:
            found.update(name.value for name in entity.find(cst.Name, within=part))
    return found
