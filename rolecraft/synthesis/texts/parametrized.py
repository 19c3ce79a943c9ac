"""The values that pytest gives a test's arguments, found by the test's id."""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
from collections import Counter
from collections.abc import Callable, Mapping

from rolecraft.synthesis.texts.values import UNKNOWN, value_of

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_MOST = 20_000
"""Combinations that are looked at."""
_DEEPEST = 5
"""Names that stand for names."""
_LONGEST_SAID = 100
"""Characters: a longer text is named by its number (pytest 9.1 and later)."""


def called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def parameters(
    node: FunctionNode, classes: list[ast.ClassDef], test: str, module: ast.Module | None = None
) -> dict[str, ast.expr]:
    """The values that `pytest.mark.parametrize` gives this test, by the name of the argument.

    They are found by the id that pytest makes of them, in the decorator or in what the test's
    `module` gives a name; nothing where that is not possible.
    """
    part = test.partition("[")[2].removesuffix("]")
    if not part:
        return {}
    named = _Named(module)
    decorators = [*reversed(node.decorator_list)]
    for owner in reversed(classes):
        decorators += reversed(owner.decorator_list)
    choices = [
        _choices(each, named)
        for each in decorators
        if isinstance(each, ast.Call) and called(each) == "parametrize"
    ]
    for count, combined in enumerate(itertools.product(*choices)):
        if count > _MOST:
            return {}
        if choices and "-".join(said for said, _ in combined) == part:
            return {name: value for _, given in combined for name, value in given.items()}
    return {}


class _Named:
    """What the statements of a module give a name, once and for all."""

    def __init__(self, module: ast.Module | None) -> None:
        self._values: dict[str, ast.expr] = {}
        self._callable: set[str] = set(dir(builtins))
        often: Counter[str] = Counter()
        for each in module.body if module is not None else ():
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._values[name] = value
                    often[name] += 1
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._values[name] = value
                    often[name] += 1
                case ast.AugAssign(target=ast.Name(id=name)):
                    often[name] += 2
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    self._callable.add(name)
                case ast.ImportFrom(names=names):
                    self._callable |= {one.name for one in names if one.asname is None}
        for name, count in often.items():
            if count > 1:
                del self._values[name]

    def value(self, node: ast.expr) -> ast.expr:
        """What a name stands for; else the expression itself."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Name) or node.id not in self._values:
                break
            node = self._values[node.id]
        return node

    def is_callable(self, name: str) -> bool:
        """Whether this is a class or function, whose name pytest says in an id."""
        return name in self._callable

    def items(self, node: ast.expr, deep: int = 0) -> list[ast.expr] | None:
        """The items of a collection that is written out; None where they are not told."""
        if deep > _DEEPEST:
            return None
        match self.value(node):
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return _starred(elts, lambda each: self.items(each, deep + 1))
            case ast.Dict() as mapping:
                return _keys(mapping)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.items(left, deep + 1), self.items(right, deep + 1)
                return None if first is None or second is None else [*first, *second]
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[only], keywords=[]):
                return self.items(only, deep + 1)
            case ast.Call(func=ast.Attribute(value=of, attr=view), args=[]) if view in _VIEWS:
                written = self.value(of)
                keys = _keys(written) if isinstance(written, ast.Dict) else None
                if keys is None or not isinstance(written, ast.Dict):
                    return None
                if view == "keys":
                    return keys
                if view == "values":
                    return written.values
                both = zip(keys, written.values, strict=True)
                return [ast.Tuple([*pair], ast.Load()) for pair in both]
            case (
                ast.ListComp(elt=made, generators=[ast.comprehension(target, over, [], 0)])
                | ast.GeneratorExp(elt=made, generators=[ast.comprehension(target, over, [], 0)])
            ):
                return self._comprehended(made, target, self.items(over, deep + 1))
        return None

    def _comprehended(
        self, made: ast.expr, target: ast.expr, over: list[ast.expr] | None
    ) -> list[ast.expr] | None:
        found: list[ast.expr] = []
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for each in over if over is not None else ():
            parts = self.items(each) if isinstance(target, ast.Tuple) else [each]
            if parts is None or len(parts) != len(names):
                return None
            pairs = zip(names, parts, strict=True)
            given = {name.id: part for name, part in pairs if isinstance(name, ast.Name)}
            if len(given) != len(names):
                return None
            found.append(_Put(given).visit(copy.deepcopy(made)))
        return found if over is not None else None


_VIEWS = frozenset({"items", "keys", "values"})


def _keys(written: ast.Dict) -> list[ast.expr] | None:
    """The keys of a dict in which no other is unpacked."""
    known = [each for each in written.keys if each is not None]
    return known if len(known) == len(written.keys) else None


class _Put(ast.NodeTransformer):
    """Values in the place of names."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)


def _starred(
    elts: list[ast.expr], items: Callable[[ast.expr], list[ast.expr] | None]
) -> list[ast.expr] | None:
    found: list[ast.expr] = []
    for each in elts:
        inner = items(each.value) if isinstance(each, ast.Starred) else [each]
        if inner is None:
            return None
        found += inner
    return found


def _choices(decorator: ast.Call, named: _Named) -> list[tuple[str, dict[str, ast.expr]]]:
    """The values of one decorator, each with its id."""
    words = {word.arg: word.value for word in decorator.keywords}
    arguments = [*decorator.args, *(words[n] for n in ("argnames", "argvalues") if n in words)]
    values = named.items(arguments[1]) if len(arguments) > 1 else None
    ids = (named.items(words["ids"]) or []) if "ids" in words else []
    if values is None or ("ids" in words and len(ids) != len(values)):
        return []
    match named.value(arguments[0]):
        case ast.Constant(value=str(said)):
            listed = [name.strip() for name in said.split(",") if name.strip()]
            alone = len(listed) == 1 and "," not in said
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            listed = [str(each.value) for each in elts if isinstance(each, ast.Constant)]
            alone = False
        case _:
            return []
    found: list[tuple[str, dict[str, ast.expr]]] = []
    for index, value in enumerate(map(named.value, values)):
        own: ast.expr | None = ids[index] if ids else None
        parts: list[ast.expr] | None
        if isinstance(value, ast.Call) and called(value) == "param":
            own = next((k.value for k in value.keywords if k.arg == "id"), own)
            parts = value.args
        else:
            parts = [value] if alone else named.items(value)
        if parts is None or len(parts) != len(listed):
            return []
        given = {name: named.value(part) for name, part in zip(listed, parts, strict=True)}
        if own is not None and value_of(own) is not None:
            said = _said("", own, index, named)
        else:
            said = "-".join(_said(name, each, index, named) for name, each in given.items())
        found.append((said, given))
    unique = _unique([said for said, _ in found])
    return [(said, given) for said, (_, given) in zip(unique, found, strict=True)]


def _unique(ids: list[str]) -> list[str]:
    """Ids that come more than once with a number behind them, as pytest counts."""
    often, taken, found = Counter(ids), set(ids), []
    count: Counter[str] = Counter()
    for each in ids:
        made = each
        if often[each] > 1:
            between = "_" if each[-1:].isdigit() else ""
            while (made := f"{each}{between}{count[each]}") in taken:
                count[each] += 1
            count[each] += 1
            taken.add(made)
        found.append(made)
    return found


def _said(name: str, value: ast.expr, index: int, named: _Named) -> str:
    """How pytest names a value in an id."""
    if isinstance(value, ast.Name) and named.is_callable(value.id):
        return value.id
    known = value_of(value)
    if known is UNKNOWN or (isinstance(known, str | bytes) and len(known) > _LONGEST_SAID):
        return f"{name}{index}"
    if isinstance(known, str):
        return known.encode("unicode_escape").decode("ascii")
    if isinstance(known, bytes):
        return known.decode("ascii", "backslashreplace")
    if known is None or isinstance(known, bool | int | float | complex):
        return str(known)
    return f"{name}{index}"
