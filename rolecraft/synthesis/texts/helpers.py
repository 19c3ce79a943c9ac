"""A check that sits in a function which the test calls: its statements in the place of the call.

    def test_wide():                       def assert_equal(got, wanted):
        assert_equal(wide("a"), "a ")          assert got == wanted

fails within `assert_equal`, and is read as `assert wide("a") == "a "`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.synthesis.texts.checks import expected_error
from rolecraft.synthesis.texts.parametrized import FunctionNode, called
from rolecraft.synthesis.texts.slicing import Slicing, blocks, bound_by
from rolecraft.synthesis.texts.without_self import of_itself, without_self

_NOT_IN_PLACE = (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)
"""What means something else outside of its function."""


@dataclass(frozen=True, slots=True)
class Below:
    """A place below the test that the failure came through: a line of a file of the tests."""

    tree: ast.Module
    line: int


def in_place(
    node: FunctionNode, failing: ast.stmt, below: Sequence[Below]
) -> tuple[FunctionNode, ast.stmt, list[ast.Module]]:
    """A test with the functions that failed in the place of their calls, and what fails there.

    With it the files of these functions. From the first one on that cannot be told so, the call
    stands as it is.
    """
    modules: list[ast.Module] = []
    for place in below:
        helper = _function_at(place.tree, place.line)
        made = None if helper is None else _put(node, failing, helper, place.line)
        if made is None:
            break
        node, failing = made
        modules.append(place.tree)
    return node, failing, modules


def defined(needed: set[str], tree: ast.Module, modules: Iterable[ast.Module]) -> list[ast.stmt]:
    """What other files define of the names that are needed.

    Raises `LookupError` for a name that means one thing there and another in `tree`.
    """
    found: list[ast.stmt] = []
    for module in modules:
        if module is tree:
            continue
        there, here = _meanings(module), _meanings(tree)
        wanted = needed & there.keys()
        for name in wanted & here.keys():
            if there[name] != here[name]:
                raise LookupError(name)
        found += Slicing(wanted, None).module(module.body)
    return found


def statement_at(body: Iterable[ast.stmt], line: int) -> ast.stmt | None:
    """The innermost statement that has this line; of a `with` that expects an error, that."""
    for each in body:
        if not each.lineno <= line <= (each.end_lineno or each.lineno):
            continue
        if isinstance(each, ast.With | ast.AsyncWith) and expected_error(each) is not None:
            return each
        for block in blocks(each):
            inner = statement_at(block, line)
            if inner is not None:
                return inner
        return each
    return None


def _function_at(tree: ast.Module, line: int) -> FunctionNode | None:
    """The innermost function that has this line; of a class, as one without `self`."""
    found: FunctionNode | None = None
    for each in ast.walk(tree):  # from the outside to the inside
        if isinstance(each, FunctionNode) and each.lineno <= line <= (each.end_lineno or 0):
            found = each
    return None if found is None else without_self(found)


def _put(
    node: FunctionNode, failing: ast.stmt, helper: FunctionNode, line: int
) -> tuple[FunctionNode, ast.stmt] | None:
    """A function with `helper`, a copy, in the place of the statement that calls it.

    None where a name would mean something else there, or the function does not go from its first
    statement to the last.
    """
    node, failing = copy.deepcopy((node, failing))
    target = statement_at(helper.body, line)
    call = _call(failing)
    if call is None or called(call) != helper.name or target is None:
        return None
    given = _given(call, helper)
    if given is None or not _may_stand_outside(helper, target):
        return None
    helper.body = [each for each in helper.body if each is target or not _prints(each)]
    bound = _bound(helper)
    arguments = {arg.arg for arg in node.args.args}
    taken = {each.id for each in _names(node)} | arguments
    fixed = {name for each in _statements(helper.body) for name in bound_by(each)} - bound
    free = {each.id for each in _names(helper) if not of_itself(each)} - bound - given.keys()
    if fixed & taken or free & (_bound(node) | arguments):
        return None
    put: dict[str, ast.expr] = {}
    told: list[ast.stmt] = []
    new = {name: _new(name, taken) for name in bound}
    for name, value in given.items():
        if name not in bound and (_is_plain(value) or _once(name, helper, target)):
            put[name] = value
        else:
            new[name] = _new(name, taken)
            told.append(ast.Assign([ast.Name(new[name], ast.Store())], value))
    for each in helper.body:
        _Renamed(new, put).visit(each)
    if isinstance(target, ast.Return):
        last: ast.stmt = ast.Expr(target.value or ast.Constant(None))
        helper = _Instead(target, [ast.copy_location(last, target)]).visit(helper)
        target = last
    made = _Instead(failing, [*told, *helper.body]).visit(node)
    return ast.fix_missing_locations(made), target


def _call(failing: ast.stmt) -> ast.Call | None:
    match failing:
        case (
            ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call))
        ):
            return call
    return None


def _given(call: ast.Call, helper: FunctionNode) -> dict[str, ast.expr] | None:
    """What each of a function's arguments is; None where that is not told one by one."""
    takes = helper.args
    if takes.vararg or takes.kwarg or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    names = [arg.arg for arg in (*takes.posonlyargs, *takes.args)]
    every = [*names, *(arg.arg for arg in takes.kwonlyargs)]
    given = dict(zip(names, call.args, strict=False))
    for word in call.keywords:
        if word.arg not in every or word.arg in given:
            return None
        given[word.arg] = word.value
    defaults = dict(zip(names[::-1], takes.defaults[::-1], strict=False))
    for arg, value in zip(takes.kwonlyargs, takes.kw_defaults, strict=True):
        if value is not None:
            defaults[arg.arg] = value
    for name in every:
        if name not in given and name in defaults:
            given[name] = defaults[name]
    complete = given.keys() == {*every} and len(call.args) <= len(names)
    return given if complete else None


def _may_stand_outside(helper: FunctionNode, target: ast.stmt) -> bool:
    kinds = {getattr(each, "id", getattr(each, "attr", "")) for each in helper.decorator_list}
    if not kinds <= {"staticmethod", "classmethod"}:
        return False
    inner = [each for each in ast.walk(helper) if isinstance(each, FunctionNode | ast.Lambda)]
    within = {
        arg.arg for each in inner[1:] for arg in ast.walk(each.args) if isinstance(arg, ast.arg)
    }
    own = {arg.arg for arg in ast.walk(helper.args) if isinstance(arg, ast.arg)}
    if within & own or any(isinstance(each, _NOT_IN_PLACE) for each in ast.walk(helper)):
        return False
    ends = [each for each in _statements(helper.body) if isinstance(each, ast.Return)]
    return all(each is target or each.lineno > target.lineno for each in ends)


def _arguments(node: FunctionNode | ast.Lambda) -> set[str]:
    return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for each in body:
        yield each
        for block in blocks(each):
            yield from _statements(block)


def _bound(node: ast.AST) -> set[str]:
    """The names to which a function gives values, but for what it gives `self`."""
    stored = (each for each in _names(node) if not isinstance(each.ctx, ast.Load))
    return {each.id for each in stored if not of_itself(each)}


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _prints(node: ast.stmt) -> bool:
    call = _call(node)
    return call is not None and isinstance(call.func, ast.Name) and call.func.id == "print"


def _is_plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Constant)


def _once(name: str, helper: FunctionNode, target: ast.stmt) -> bool:
    """Whether an argument is read once, by the statement that fails, and that runs once."""
    read = [each for each in _names(helper) if each.id == name]
    return len(read) == 1 and target in helper.body and read[0] in ast.walk(target)


def _new(name: str, taken: set[str]) -> str:
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}{number}"
    return made


def _meanings(tree: ast.Module) -> Mapping[str, str]:
    """What each name of a file is, in a way that says the same in another file."""
    found: dict[str, str] = {}
    for each in tree.body:
        match each:
            case ast.Import(names=names):
                found |= {name.asname or name.name.partition(".")[0]: name.name for name in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                start = "." * level + (module or "")
                found |= {name.asname or name.name: f"{start}.{name.name}" for name in names}
            case _:
                found |= dict.fromkeys(bound_by(each), ast.dump(each))
    return found


class _Renamed(ast.NodeTransformer):
    def __init__(self, new: Mapping[str, str], put: Mapping[str, ast.expr]) -> None:
        self._new, self._put = new, put

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._put:
            return ast.copy_location(copy.deepcopy(self._put[node.id]), node)
        node.id = self._new.get(node.id, node.id)
        return node


class _Instead(ast.NodeTransformer):
    """Some statements in the place of one."""

    def __init__(self, old: ast.stmt, new: list[ast.stmt]) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)
