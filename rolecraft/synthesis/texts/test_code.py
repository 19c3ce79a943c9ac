"""What a test does up to the place where it fails, as little of it as that needs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rolecraft.synthesis.texts.checks import Doing, check
from rolecraft.synthesis.texts.fixtures import fixture_value
from rolecraft.synthesis.texts.given import Values, decided, put_in
from rolecraft.synthesis.texts.helpers import Below, defined, in_place, statement_at
from rolecraft.synthesis.texts.parametrized import FunctionNode, parameters
from rolecraft.synthesis.texts.sides import Origins, names_of_project, turn
from rolecraft.synthesis.texts.slicing import FIXTURES, Slicing, bound_by, names_in
from rolecraft.synthesis.texts.without_self import needs_self, of_self, without_self

_TMP_PATH = "from pathlib import Path\nfrom tempfile import mkdtemp\ntmp_path = Path(mkdtemp())"
"""What pytest's fixture is to somebody who runs no tests."""
_SET_UP = frozenset({"setUp", "setUpClass", "setup_method", "setup_class", "setup"})


@dataclass(frozen=True, slots=True)
class Way:
    """How a test's code is told."""

    below: Sequence[Below] = ()
    """The places in functions of the tests where it went on from the test's own: those functions
    are told in the place of their calls."""
    everything: bool = False
    """Also what does not lead to the failure, as far as that can be seen."""


def doing(
    tree: ast.Module,
    test: str,
    line: int | None,
    conftests: Sequence[ast.Module] = (),
    modules: frozenset[str] | None = None,
    values: Values = MappingProxyType({}),
    way: Way = Way(),
) -> Doing | None:
    """What the test with this id of pytest does up to this line of its file.

    `conftests` have its fixtures too, the nearest first. `modules` are the project's, by name.
    `values` are those that it was given, of arguments that no code says. None where it is not
    found.
    """
    names = test.partition("[")[0].split("::")[1:]
    node: ast.AST | None = tree
    classes: list[ast.ClassDef] = []
    for name in names:
        owners = _with_bases(node, tree) if isinstance(node, ast.ClassDef) else [node]
        classes = [each for each in reversed(owners) if isinstance(each, ast.ClassDef)]
        node = next(filter(None, (_member(each, name) for each in owners)), None)
    if not isinstance(node, FunctionNode):
        return None
    members = _members(classes)
    if classes:
        node = without_self(node)
    if values:
        node = decided(node, values)
    failing = statement_at(node.body, line) if line is not None else node.body[-1]
    if failing is None:
        return None
    node, failing, others = in_place(node, failing, way.below)
    found = check(failing)
    files = [tree, *others]
    own_names = frozenset().union(*(names_of_project(file, modules) for file in files))
    bodies = (file.body for file in files)
    turn(found, Origins(own_names, node.body, members, *bodies))
    slicing = Slicing(
        names_in(found.actual, found.expected, *found.before),
        found.actual,
        everything=way.everything,
    )
    first = slicing.block(node.body, failing)
    found.shown = slicing.shown
    given = parameters(node, classes, test, tree)
    arguments = {arg.arg for arg in node.args.args}
    far = Slicing(set(), None)
    try:
        elsewhere = defined(slicing.needed - arguments, tree, others)
    except LookupError:
        return None
    for name in sorted((slicing.needed & arguments) - given.keys() - FIXTURES):
        if (fixture := fixture_value(name, (tree, *conftests))) is not None:
            given[name], module = fixture
            if module is not tree:
                far.needed = names_in(given[name])
                elsewhere += far.module(module.body)
    if "tmp_path" in slicing.needed & arguments:
        elsewhere += ast.parse(_TMP_PATH).body
    told = [
        ast.Assign([ast.Name(name, ast.Store())], value)
        for name, value in given.items()
        if name in slicing.needed
    ]
    used = slicing.needed & given.keys()
    lacking = (slicing.needed & arguments) - given.keys() - FIXTURES
    slicing.needed -= given.keys() | lacking  # a function of that name is the fixture
    slicing.needed |= names_in(*(given[name] for name in used))
    own = slicing.module(members)
    around = _each_once([*elsewhere, *slicing.module(tree.body)])
    before = [*around, *own, *told, *first, *found.before]
    found.before = [each for each in before if not _gives_itself(each)]
    _put_in_expected(found)
    found.unknown = lacking | ((slicing.needed & of_self(node)) - given.keys() - FIXTURES)
    values = {name: value for name, value in values.items() if name in lacking}
    if long := put_in(found, values):
        fewer = {name: value for name, value in values.items() if name not in long}
        return doing(tree, test, line, conftests, modules, fewer, way)
    found.unknown -= values.keys()
    found.untold = bool(names_in(found.expected) & found.unknown)
    return found


def _gives_itself(node: ast.stmt) -> bool:
    """Whether it is `a, b = a, b`: what `a, b = self.a, self.b` is without `self`."""
    match node:
        case ast.Assign(targets=[ast.Tuple() | ast.Name() as target], value=value):
            plain = all(isinstance(each, ast.Name) for each in getattr(target, "elts", [target]))
            return plain and ast.unparse(target) == ast.unparse(value)
    return False


def _each_once(nodes: list[ast.stmt]) -> list[ast.stmt]:
    return [*{ast.dump(node): node for node in nodes}.values()]


def says_only_what_was_printed(found: Doing) -> bool:
    """Whether something is read of a fixture of pytest, and nothing that is done leads to it."""
    nodes = [*found.before, *([found.actual] if found.actual is not None else [])]
    read = {name for each in found.before if names_in(each) & FIXTURES for name in bound_by(each)}
    if not names_in(*nodes) & FIXTURES:
        return False
    calls = [call for node in nodes for call in ast.walk(node) if isinstance(call, ast.Call)]
    return all(names_in(call.func) & (FIXTURES | read) for call in calls)


def _members(classes: list[ast.ClassDef]) -> list[ast.stmt]:
    """What the test's class gives it: values, helpers, what is set up, in that order."""
    given: list[ast.stmt] = []
    set_up: list[ast.stmt] = []
    for owner in classes:
        for each in owner.body:
            if isinstance(each, FunctionNode):
                helper = without_self(each)
                helper.decorator_list = []
                if each.name in _SET_UP:
                    set_up += helper.body
                elif not needs_self(helper):
                    given.append(helper)
            elif isinstance(each, ast.Assign | ast.AnnAssign):
                given.append(each)
    return [*given, *set_up]


def _put_in_expected(found: Doing) -> None:
    """What is expected by its value, where a statement gives it one."""
    if not isinstance(found.expected, ast.Name):
        return
    name = found.expected.id
    for each in reversed(found.before):
        match each:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                others = [other for other in found.before if other is not each]
                found.expected = value
                if name not in names_in(found.actual, *others):
                    found.before = others
                return
        if name in bound_by(each):
            return


def _with_bases(node: ast.ClassDef, tree: ast.Module) -> list[ast.AST | None]:
    """A class and those of its file that it is made of, its own first."""
    found: list[ast.AST | None] = []
    todo = [node]
    while todo:
        here = todo.pop(0)
        if here in found:
            continue
        found.append(here)
        for base in here.bases:
            known = _member(tree, base.id) if isinstance(base, ast.Name) else None
            if isinstance(known, ast.ClassDef):
                todo.append(known)
    return found


def _member(node: ast.AST | None, name: str) -> ast.AST | None:
    body = node.body if isinstance(node, ast.Module | ast.ClassDef) else ()
    for each in body:
        if isinstance(each, FunctionNode | ast.ClassDef) and each.name == name:
            return each
    return None
