"""What the variables and attributes of a function are, as far as their use tells.

Two variables are of the same kind if something is done with both that is done with few kinds of
things: both are compared with numbers, both iterated over, both annotated in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import libcst as cst

from rolecraft.synthesis.modifiers.code import children_of, dotted
from rolecraft.synthesis.modifiers.nodes import text_of

_SURE = frozenset({"number", "str", "list", "dict", "set", "bool", "called"})
"""What a thing is only one of."""

_METHODS = {
    "str": "strip lstrip rstrip split rsplit lower upper startswith endswith join encode format "
    "splitlines partition rpartition title casefold isdigit isspace isalpha ljust rjust zfill",
    "list": "append extend insert sort",
    "dict": "items keys values setdefault",
    "set": "add discard union intersection difference issubset issuperset",
}
_METHOD_OF = {name: kind for kind, names in _METHODS.items() for name in names.split()}

_RETURNS = {
    **dict.fromkeys(("len", "int", "float", "sum", "abs", "round", "ord"), "number"),
    **dict.fromkeys(("str", "repr", "chr", "format"), "str"),
    **dict.fromkeys(("list", "sorted"), "list"),
    **dict.fromkeys(("isinstance", "callable", "hasattr", "bool", "any", "all"), "bool"),
    **dict.fromkeys(("iter", "map", "filter", "zip", "reversed"), "iterator"),
    "dict": "dict",
    "set": "set",
    "deque": "list",
}
_TAKES = {
    **dict.fromkeys(
        ("len", "list", "sorted", "enumerate", "zip", "sum", "any", "all", "set", "tuple", "iter"),
        "iterated",
    ),
    **dict.fromkeys(("range", "abs", "islice"), "number"),
    "next": "iterator",
    "callable": "called",
}
_ORDERED = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_LOOPS = (cst.For, cst.CompFor)


class Kinds:
    """What is known of the names in a piece of code. A name is dotted: `a`, `self.a`."""

    def __init__(self, known: dict[str, set[str]]) -> None:
        self._known = known

    def of(self, node: cst.CSTNode | str) -> frozenset[str]:
        """All that is known of a name; nothing of other expressions."""
        name = node if isinstance(node, str) else dotted(node)
        return frozenset(self._known.get(name, ()))

    def shared(self, one: str, other: str) -> int:
        """How much speaks for it that two names are of one kind; 0 too if they surely are not."""
        mine, theirs = self.of(one), self.of(other)
        if mine & _SURE and theirs & _SURE and not mine & theirs & _SURE:
            return 0
        return len(mine & theirs)

    def is_object(self, node: cst.CSTNode | str) -> bool:
        """Whether it has attributes of its own, and nothing tells that it may be empty or 0."""
        mine = self.of(node)
        empty = _SURE | {"iterated", "iterator", "container", "indexed"}
        return not mine & empty and any(each.startswith(".") for each in mine)

    def may_be_empty(self, node: cst.CSTNode) -> bool:
        """Whether something tells that there are values of it, other than None, which are falsy."""
        return bool(self.of(node) & {*_SURE, "iterated", "container", "indexed"} - {"called"})

    def may_be_same(self, one: str, other: str) -> bool:
        """Whether nothing speaks against it, which is so for names of which nothing is known."""
        mine, theirs = self.of(one) & _SURE, self.of(other) & _SURE
        return not mine or not theirs or bool(mine & theirs)


@lru_cache(maxsize=64)
def kinds_in(node: cst.CSTNode) -> Kinds:
    """Of the names in a function or class."""
    known: dict[str, set[str]] = defaultdict(set)
    todo: list[cst.CSTNode] = [node]
    while todo:
        here = todo.pop()
        _read(here, known)
        todo.extend(children_of(here))
    return Kinds({name: kinds for name, kinds in known.items() if name})


def _read(node: cst.CSTNode, known: dict[str, set[str]]) -> None:
    """Add what one node tells of the names in it."""
    match node:
        case cst.Param(name=name, annotation=annotation, default=default):
            known[name.value] |= _value(default) | _annotated(annotation)
        case cst.AnnAssign(target=target, annotation=annotation, value=value):
            known[dotted(target)] |= _value(value) | _annotated(annotation)
        case cst.Assign(targets=targets, value=value):
            for each in targets:
                _assigned(each.target, value, known)
        case cst.AugAssign(target=target, value=value):
            known[dotted(target)] |= _value(value)
        case cst.For(target=target, iter=over) | cst.CompFor(target=target, iter=over):
            known[dotted(over)].add("iterated")
            _looped(target, over, known)
        case cst.StarredElement(value=value) | cst.From(item=value):
            known[dotted(value)].add("iterated")
        case cst.Comparison():
            _compared(node, known)
        case cst.Call():
            _called(node, known)
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            if not isinstance(operator, cst.Modulo):  # as likely a text to be filled in
                known[dotted(left)] |= _value(right)
            known[dotted(right)] |= _value(left) & {"number", "list", "set"}
        case cst.Slice(lower=lower, upper=upper):
            for bound in (lower, upper):
                if bound is not None:
                    known[dotted(bound)].add("number")
        case cst.Subscript(value=value):
            known[dotted(value)].add("indexed")
        case cst.Attribute(value=value, attr=attr):
            known[dotted(value)].add(_METHOD_OF.get(attr.value, f".{attr.value}"))
        case _:
            pass


def _value(node: cst.CSTNode | None) -> set[str]:
    """What a value is, as far as it is seen from its form."""
    match node:
        case cst.BaseNumber() | cst.UnaryOperation(operator=cst.Minus()):
            return {"number"}
        case cst.BaseString():
            return {"str"}
        case cst.Name(value="True" | "False") | cst.Comparison():
            return {"bool"}
        case cst.UnaryOperation(operator=cst.Not()):
            return {"bool"}
        case cst.List() | cst.ListComp():
            return {"list", "iterated"}
        case cst.Dict() | cst.DictComp():
            return {"dict"}
        case cst.Set() | cst.SetComp():
            return {"set"}
        case cst.Tuple() | cst.GeneratorExp():
            return {"iterated"}
        case cst.Call(func=cst.Name(value=name)) if name in _RETURNS:
            return {_RETURNS[name]}
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            is_text = name in ("join", "strip", "lower", "upper", "format", "replace", "group")
            return {"str"} if is_text else set()
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            found = _value(left) | _value(right)
            is_filled = isinstance(operator, cst.Modulo) and isinstance(left, cst.BaseString)
            return {"str"} if is_filled else found
        case _:
            return set()


def _annotated(annotation: cst.Annotation | None) -> set[str]:
    return {f": {text_of(annotation.annotation)}"} if annotation is not None else set()


def _assigned(target: cst.CSTNode, value: cst.BaseExpression, known: dict[str, set[str]]) -> None:
    if isinstance(target, cst.Tuple | cst.List):
        parts = value.elements if isinstance(value, cst.Tuple) else ()
        for index, element in enumerate(target.elements):
            if len(parts) == len(target.elements):
                _assigned(element.value, parts[index].value, known)
            elif not isinstance(value, cst.Call):  # such as `low, high = bounds`
                known[dotted(element.value)].add(f"part of {text_of(value)}")
        return
    known[dotted(target)] |= _value(value)


def _looped(target: cst.CSTNode, over: cst.CSTNode, known: dict[str, set[str]]) -> None:
    """What is looped over a range or an enumeration is a number; over one thing, of one kind."""
    func = dotted(over.func) if isinstance(over, cst.Call) else ""
    if func == "range":
        known[dotted(target)].add("number")
    elif isinstance(target, cst.Tuple) and func == "enumerate":
        known[dotted(target.elements[0].value)].add("number")
    elif isinstance(target, cst.Tuple) and func in ("zip", "zip_longest", "pairwise"):
        for element in target.elements:
            known[dotted(element.value)].add(f"part of {text_of(over)}")
    else:
        known[dotted(target)].add(f"one of {text_of(over)}")


def _compared(node: cst.Comparison, known: dict[str, set[str]]) -> None:
    left = node.left
    for target in node.comparisons:
        right = target.comparator
        if isinstance(target.operator, cst.In | cst.NotIn):
            known[dotted(right)].add("container")
        elif not isinstance(target.operator, cst.Is | cst.IsNot):
            known[dotted(left)] |= _value(right)
            known[dotted(right)] |= _value(left)
            if isinstance(target.operator, _ORDERED):
                for each in (left, right):
                    known[dotted(each)].add("ordered")
        left = right


def _called(node: cst.Call, known: dict[str, set[str]]) -> None:
    name = dotted(node.func)
    known[name].add("called")
    taken = _TAKES.get(name.rpartition(".")[2])
    for arg in node.args:
        if arg.star:
            known[dotted(arg.value)].add("iterated")
        elif taken is not None and arg.keyword is None:
            known[dotted(arg.value)].add(taken)
