"""A check that sits in a function which the test calls: its statements in the place of the call.

    def test_wide():                       def assert_equal(got, wanted):
        assert_equal(wide("a"), "a ")          assert got == wanted

fails within `assert_equal`, and is read as `assert wide("a") == "a "`.

Where a name of one function would be another's in the other one, the call stands as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.synthesis.texts.checks import expected_error
from rolecraft.synthesis.texts.parametrized import FunctionNode, called
from rolecraft.synthesis.texts.slicing import Slicing, blocks, bound_by, names_in
from rolecraft.synthesis.texts.without_self import of_itself, takes_own, without_self

_NOT_IN_PLACE = (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal, ast.Match)
"""What means something else outside of its function, or cannot be followed."""
_OFTEN = (
    *(ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef),
    *(ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp),
)
"""What runs its code another number of times than once."""


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
    """What other files than the test's, `tree`, define of the names that are needed.

    Raises `LookupError` for a name that means one thing there and another in a file beside it.
    """
    others = [*dict.fromkeys(module for module in modules if module is not tree)]
    meanings = {file: _meanings(file) for file in (tree, *others)}
    found: list[ast.stmt] = []
    for module in others:
        there = meanings[module]
        told = Slicing(needed & there.keys(), None).module(module.body)
        names = there.keys() & (needed | names_in(*told))
        for here in meanings.values():
            for name in names & here.keys():
                if there[name] != here[name]:
                    raise LookupError(name)
        for each in told:
            if isinstance(each, ast.ImportFrom) and each.level:  # it may lie in another folder
                raise LookupError(each.module)
        found += told
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
    """The innermost function that has this line."""
    found: FunctionNode | None = None
    for each in ast.walk(tree):  # from the outside to the inside
        if isinstance(each, FunctionNode) and each.lineno <= line <= (each.end_lineno or 0):
            found = each
    return found


def _put(
    node: FunctionNode, failing: ast.stmt, helper: FunctionNode, line: int
) -> tuple[FunctionNode, ast.stmt] | None:
    """A function with a copy of `helper` in the place of the statement that calls it."""
    method = takes_own(helper)
    helper = without_self(helper)
    node, failing = copy.deepcopy((node, failing))
    target = statement_at(helper.body, line)
    call = _call(failing)
    if call is None or target is None or not _calls(call, failing, helper, method=method):
        return None
    given = _given(call, helper)
    if given is None or not _goes_through(helper, target) or _clash(node, helper, given):
        return None
    helper.body = [each for each in helper.body if each is target or not _says_only(each)]
    put, new = _naming(node, helper, given, target)
    for each in helper.body:
        _Renamed(new, put).visit(each)
    told = [
        ast.Assign([ast.Name(new[name], ast.Store())], value)
        for name, value in given.items()
        if name not in put
    ]
    if isinstance(target, ast.Return):
        last = ast.copy_location(ast.Expr(target.value or ast.Constant(None)), target)
        helper = _Instead(target, [last]).visit(helper)
        target = last
    made = _Instead(failing, [*told, *helper.body]).visit(node)
    return ast.fix_missing_locations(made), target


def _call(failing: ast.stmt) -> ast.Call | None:
    match failing:
        case ast.Expr(value=ast.Call() as call):
            return call
        case ast.Expr(value=ast.Await(value=ast.Call() as call)):
            return call
    return None


def _calls(call: ast.Call, failing: ast.stmt, helper: FunctionNode, *, method: bool) -> bool:
    """Whether a statement calls this function, once: of a method, that of the test's own class."""
    names = [called(each) for each in ast.walk(failing) if isinstance(each, ast.Call)]
    if names.count(helper.name) != 1 or called(call) != helper.name:
        return False
    match call.func:
        case ast.Name() as name:
            return of_itself(name) or not method
        case ast.Attribute(value=ast.Name()):
            return not method
    return False


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


def _goes_through(helper: FunctionNode, target: ast.stmt) -> bool:
    """Whether its statements up to this one do outside of it what they do within."""
    kinds = {getattr(each, "id", getattr(each, "attr", "")) for each in helper.decorator_list}
    if not kinds <= {"staticmethod", "classmethod"}:
        return False
    for each in ast.walk(helper):
        named = isinstance(each, ast.ExceptHandler) and each.name
        if named or isinstance(each, _NOT_IN_PLACE):
            return False
    ends = [each for each in _statements(helper.body) if isinstance(each, ast.Return)]
    return all(each is target or each.lineno > target.lineno for each in ends)


def _clash(node: FunctionNode, helper: FunctionNode, given: Mapping[str, ast.expr]) -> bool:
    """Whether a name of one function would be another's in the other one, and cannot be renamed."""
    mine, its = _names(node), _names(helper)
    of_test = _bound(node) | _fixed(node) | _arguments(node)
    bound, plain = _bound(helper), {each.id for each in its if not of_itself(each)}
    attributes = {each.id for each in (*mine, *its) if of_itself(each)} - {helper.name}
    if attributes & (plain | of_test | given.keys()):
        return True
    inner = [each for each in ast.walk(helper) if isinstance(each, FunctionNode | ast.Lambda)][1:]
    within = {name for each in inner for name in _arguments(each)}
    if within & (bound | given.keys() | names_in(*given.values())):
        return True
    fixed = _fixed(helper) - bound
    free = plain - bound - given.keys()
    return bool(fixed & ({each.id for each in mine} | of_test) or free & of_test)


def _naming(
    node: FunctionNode, helper: FunctionNode, given: Mapping[str, ast.expr], target: ast.stmt
) -> tuple[dict[str, ast.expr], dict[str, str]]:
    """Arguments in whose place the value is put, and what the other names are in the test."""
    bound = _bound(helper)
    put = {
        name: value
        for name, value in given.items()
        if name not in bound
        and (isinstance(value, ast.Name | ast.Constant) or _once(name, helper, target))
    }
    theirs = {each.id for each in _names(node)} | _arguments(node)
    taken = theirs | {each.id for each in _names(helper)}
    new: dict[str, str] = {}
    for name in sorted(bound | given.keys() - put.keys()):
        new[name], number = name, 1
        while new[name] in (taken if number > 1 else theirs):
            number += 1
            new[name] = f"{name}{number}"
        taken.add(new[name])
        theirs.add(new[name])
    return put, new


def _once(name: str, helper: FunctionNode, target: ast.stmt) -> bool:
    """Whether an argument is read once, where nothing has come between the call and that."""
    reads = [each for each in _names(helper) if each.id == name]
    plain = not isinstance(target, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.While)
    if len(reads) != 1 or not plain or target is not helper.body[0]:
        return False
    often = [outer for outer in ast.walk(target) if isinstance(outer, _OFTEN)]
    return not any(reads[0] in ast.walk(outer) for outer in often)


def _says_only(node: ast.stmt) -> bool:
    """A docstring, or a call of `print`."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
    return False


def _arguments(node: FunctionNode | ast.Lambda) -> set[str]:
    return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for each in body:
        yield each
        for block in blocks(each):
            yield from _statements(block)


def _fixed(node: FunctionNode) -> set[str]:
    """What its statements give a name, also functions and imports."""
    return {name for each in _statements(node.body) for name in bound_by(each)}


def _bound(node: ast.AST) -> set[str]:
    """The names to which a function gives values, but for what it gives `self`."""
    stored = (each for each in _names(node) if not isinstance(each.ctx, ast.Load))
    return {each.id for each in stored if not of_itself(each)}


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


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
        if of_itself(node):
            return node
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
