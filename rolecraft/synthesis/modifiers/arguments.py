"""Arguments in the wrong order, and defaults that are not what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.bindings import bindings_of
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.kinds import kinds_in
from rolecraft.synthesis.modifiers.nodes import (
    brief,
    is_in_raise,
    is_none,
    number,
    positional,
    same,
    text_of,
    whole,
)

_ORDER_IS_SEEN_AT_ONCE = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "setattr"})
_ORDER_IS_NOTHING = frozenset({"min", "max", "set", "gcd", "print"})


@modifier()
def swapped_arguments(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Two arguments beside each other, which may be of one kind, change places."""
    alike = _Alike(entity)
    for call in entity.code(cst.Call):
        args = positional(call)
        name = dotted(call.func).rpartition(".")[2]
        if args is None or name in _ORDER_IS_SEEN_AT_ONCE | _ORDER_IS_NOTHING:
            continue
        if is_in_raise(entity, call):
            continue
        for one, other in alike.neighbours(args):
            note = f"`{text_of(one.value)}` and `{text_of(other.value)}` changed places in "
            yield _swapped(entity, one, other, f"{note}`{brief(call)}`")


@modifier()
def swapped_keywords(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Two keyword arguments, which may be of one kind, get each other's values."""
    alike = _Alike(entity)
    for call in entity.code(cst.Call):
        args = [arg for arg in call.args if arg.keyword is not None]
        if is_in_raise(entity, call):
            continue
        for one, other in alike.neighbours(args):
            assert one.keyword is not None
            assert other.keyword is not None
            note = f"`{one.keyword.value}` and `{other.keyword.value}` got each other's values"
            yield _swapped(entity, one, other, f"{note} in `{brief(call)}`")


def _swapped(entity: Entity, one: cst.Arg, other: cst.Arg, note: str) -> Variant:
    return entity.changed({one.value: other.value, other.value: one.value}, note=note)


class _Alike:
    """Which expressions in a function somebody may take for each other."""

    def __init__(self, entity: Entity) -> None:
        self._kinds = kinds_in(entity.node)
        self._bound = bindings_of(entity.node).bound

    def neighbours(self, args: Sequence[cst.Arg]) -> Iterator[tuple[cst.Arg, cst.Arg]]:
        """Those beside each other that are alike."""
        return (pair for pair in pairwise(args) if self.are(pair[0].value, pair[1].value))

    def are(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether they have the same form, differ, and no kind speaks against it."""
        if same(one, other):
            return False
        names = (cst.Name, cst.Attribute)
        if isinstance(one, names) and isinstance(other, names):
            mine, theirs = dotted(one), dotted(other)
            is_alike = self._form(mine) == self._form(theirs)
            return is_alike and self._kinds.may_be_same(mine, theirs)
        forms = (cst.BaseNumber, cst.BaseString, cst.Subscript, cst.Call, cst.BinaryOperation)
        return any(isinstance(one, form) and isinstance(other, form) for form in forms)

    def _form(self, name: str) -> str:
        if name in ("True", "False", "None"):
            return "None" if name == "None" else "bool"
        return "variable" if name.partition(".")[0] in self._bound else "constant"


@modifier()
def changed_default(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The default of a parameter is another one: True for False, 1 for 0, a space for nothing."""
    assert isinstance(entity.node, cst.FunctionDef)
    for param in entity.code(cst.Param, within=entity.node.params):
        if param.default is None:
            continue
        for value in _other_defaults(entity, param.default, param.name.value):
            note = f"the default of `{param.name.value}`, `{text_of(param.default)}`, became "
            yield entity.replacing(param.default, value, note=f"{note}`{text_of(value)}`")


def _other_defaults(
    entity: Entity, default: cst.BaseExpression, name: str
) -> Iterator[cst.BaseExpression]:
    value = whole(default)
    match default:
        case cst.Name(value="True"):
            yield cst.Name("False")
        case cst.Name(value="False"):
            yield cst.Name("True")
        case cst.Name(value="None"):
            if _is_compared_with_none(entity, name):
                yield cst.Name("False")
        case cst.SimpleString(value="''" | '""' as empty):
            yield cst.SimpleString(f"{empty[0]} {empty[0]}")
        case cst.SimpleString(value=text) if default.evaluated_value == " ":
            yield cst.SimpleString(f"{text[0]}{text[-1]}")
        case _ if value is not None:
            yield number(value + 1)
            if value not in (0, -1):
                yield number(value - 1)
        case _:
            pass


def _is_compared_with_none(entity: Entity, name: str) -> bool:
    """Whether something happens because it is None, and not only because it is falsy."""
    return any(
        dotted(node.left) == name and is_none(node.comparisons[0].comparator)
        for node in entity.code(cst.Comparison)
    )


@modifier()
def mutable_default(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`x=None` and `if x is None: x = []` become `x=[]`, which all calls have in common."""
    assert isinstance(entity.node, cst.FunctionDef)
    params = {
        param.name.value: param for param in entity.code(cst.Param, within=entity.node.params)
    }
    for node in [*entity.code(cst.If), *entity.code(cst.Assign)]:
        found = _filled_in(node)
        if found is None:
            continue
        name, value = found
        param = params.get(name)
        if param is None or param.default is None or not is_none(param.default):
            continue
        statement = node if isinstance(node, cst.If) else entity.parents[node]
        assert isinstance(statement, cst.If | cst.SimpleStatementLine)
        changes: dict[cst.CSTNode, cst.CSTNode | None] = {param.default: value, statement: None}
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
            changes = {param.default: value, node: None}
        note = f"the default of `{name}` became `{text_of(value)}`, the same one for all calls"
        yield entity.changed(changes, note=note)


def _filled_in(node: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """The name and the new value, of a statement that makes one where None was given."""
    match node:
        case cst.If(
            test=cst.Comparison(
                left=cst.Name(value=name),
                comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=compared)],
            ),
            body=cst.IndentedBlock(
                body=[
                    cst.SimpleStatementLine(
                        body=[
                            cst.Assign(
                                targets=[cst.AssignTarget(target=cst.Name(value=target))],
                                value=value,
                            )
                        ]
                    )
                ]
            ),
            orelse=None,
        ) if is_none(compared) and target == name and _is_new(value):
            return name, value
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=target))],
            value=cst.BooleanOperation(left=cst.Name(value=name), operator=cst.Or(), right=value)
            | cst.IfExp(body=value, orelse=cst.Name(value=name)),
        ) if target == name and _is_new(value):
            return name, value
        case _:
            return None


def _is_new(value: cst.CSTNode) -> bool:
    """Whether it makes an empty container."""
    match value:
        case cst.List(elements=[]) | cst.Dict(elements=[]):
            return True
        case cst.Call(func=func, args=[]):
            return dotted(func) in ("list", "dict", "set", "deque", "OrderedDict")
        case _:
            return False
