"""Which side of a comparison was looked at, and which one says what was to come.

assert result == Decimal("3")    looks at `result`, which the project's code has made
assert expected == result        looks at `result`, by its name
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.parametrized import FunctionNode
from rolecraft.synthesis.texts.values import UNKNOWN, value_of

_EXPECTED = frozenset({"expected", "expect", "exp", "want", "wanted", "should", "desired"})
_ACTUAL = frozenset({"actual", "result", "results", "got", "returned", "observed", "output"})
_NOT_A_PROJECT = frozenset({"pytest", "unittest", "hypothesis", *sys.stdlib_module_names})
_CALLED, _MADE, _NAMED = 4, 2, 1
"""How a side reaches the project's code: by a call, by making an object, by a name of it."""


def turn(found: Doing, origins: Origins) -> None:
    """Exchange the sides of a comparison where the other one was looked at."""
    if found.actual is None or found.expected is None:
        return
    if origins.actualness(found.expected) > origins.actualness(found.actual):
        found.actual, found.expected = found.expected, found.actual
        found.turned = not found.turned


class Origins:
    """Where the values of a test's names come from."""

    def __init__(self, own: frozenset[str], *bodies: Iterable[ast.stmt]) -> None:
        """`own` are names of the project's code."""
        self._own = own
        self._given: Mapping[str, list[ast.AST]] = _given(bodies)
        self._known: dict[str, int] = {}

    def actualness(self, node: ast.expr) -> tuple[bool, bool, int, bool]:
        """How much a side is what was looked at; the greater one is."""
        words = _words(node)
        literal = value_of(node) is not UNKNOWN
        return not literal, not words & _EXPECTED, self._reach(node), bool(words & _ACTUAL)

    def _reach(self, node: ast.AST) -> int:
        """How the project's code comes into a value: 0 is not at all."""
        most = 0
        for each in ast.walk(node):
            match each:
                case ast.Name(id=name):
                    most = max(most, self._reach_of(name))
                case ast.Call(func=ast.Attribute() as func) if self._reach(_root(func)):
                    most = max(most, _MADE if _is_class(func) else _CALLED)
                case ast.Call(func=ast.Name(id=name) as func) if name in self._own:
                    most = max(most, _MADE if _is_class(func) else _CALLED)
        return most

    def _reach_of(self, name: str) -> int:
        if name in self._own:
            return _NAMED
        if name not in self._known:
            self._known[name] = 0  # of a name that leads to itself
            self._known[name] = max(map(self._reach, self._given.get(name, ())), default=0)
        return self._known[name]


def names_of_project(tree: ast.Module, modules: frozenset[str] | None = None) -> frozenset[str]:
    """What a file imports of a project with these `modules`; without them, what is no part of
    Python and of its test runners.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    if _is_own(each.name, modules):
                        found.add(each.asname or each.name.partition(".")[0])
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if _is_own(module, modules):
                    found |= {each.asname or each.name for each in names}
    return frozenset(found)


def _is_own(module: str, modules: frozenset[str] | None) -> bool:
    root = module.partition(".")[0]
    if modules is None:
        return root not in _NOT_A_PROJECT
    return module in modules or root in modules


def _given(bodies: Iterable[Iterable[ast.stmt]]) -> dict[str, list[ast.AST]]:
    given: dict[str, list[ast.AST]] = defaultdict(list)
    for body in bodies:
        for each in body:
            for node in ast.walk(each):
                for target, value in _bindings(node):
                    for one in ast.walk(target):
                        if isinstance(one, ast.Name):
                            given[one.id].append(value)
            if isinstance(each, FunctionNode):
                given[each.name].append(ast.Module(each.body, []))
    return given


def _bindings(node: ast.AST) -> Iterable[tuple[ast.AST, ast.AST]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [(target, value)]
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            return [(target, value)]
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            return [(target, value)]
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            return [(target, value)]
    return []


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _is_class(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return bool(name[:1].isupper() and not name.isupper())


def _words(node: ast.expr) -> set[str]:
    """The words of the name that a side has: `self.expected_rows[0]` is `expected`, `rows`."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return set(re.findall(r"[a-z]+", name.lower()))
