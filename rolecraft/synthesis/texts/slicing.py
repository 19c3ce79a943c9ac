"""The statements that lead to one of them, found backwards from what it needs."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from rolecraft.synthesis.texts.checks import check
from rolecraft.synthesis.texts.parametrized import FunctionNode, called

FIXTURES = frozenset({"capsys", "capfd", "caplog", "monkeypatch", "recwarn", "tmp_path", "tmpdir"})
"""Arguments that pytest itself gives. What they tell comes of calls that do not name them."""

_LOOKING = frozenset({"len", "isinstance", "issubclass", "str", "repr", "type", "hash", "bool"})
"""Functions that change nothing of what they are given."""

_MOST_LINES_OF_A_HELPER = 10


class Slicing:
    """Going backwards: the statements that give the `needed` names their values."""

    def __init__(self, needed: set[str], actual: ast.expr | None) -> None:
        self.needed, self._actual = needed, actual
        self.shown = False
        """`actual` was put where it stands, in a loop."""
        self._living: set[str] = set()
        """Names whose values calls may change: objects that a call has made."""

    def block(self, body: list[ast.stmt], failing: ast.stmt) -> list[ast.stmt]:
        """The statements of a block before `failing`, which may be within one of them."""
        kept: list[ast.stmt] = []
        before = list(itertools.takewhile(lambda each: not _has(each, failing), body))
        here = body[len(before)] if len(before) < len(body) else None
        if here is not None and here is not failing:
            kept += self._around(here, failing)
        self._living |= {
            name for each in before for name in bound_by(each) if _made_by_call(each)
        } & self.needed
        for each in reversed(before):
            kept[:0] = self._kept(each)
        return kept

    @property
    def _any_call(self) -> bool:
        """Whether a call may matter that gives no needed name a value: one that prints."""
        return bool(self.needed & FIXTURES)

    def _around(self, outer: ast.stmt, failing: ast.stmt) -> list[ast.stmt]:
        """A statement with blocks that has the failing one: its head, and what it needs."""
        for block in blocks(outer):
            if not any(_has(each, failing) for each in block):
                continue
            inner = self.block(block, failing)
            match outer:
                case ast.With(items=items) if all(_is_subtest(item) for item in items):
                    return inner
                case ast.For(target=target, iter=over):
                    self.needed -= _targets(target)
                    self.needed |= names_in(over)
                    if self._actual is not None and not self.shown:
                        inner, self.shown = [*inner, ast.Expr(self._actual)], True
                    return [ast.For(target, over, inner or [ast.Pass()], [])]
                case ast.With(items=items):
                    self.needed |= names_in(*(item.context_expr for item in items))
                    return [ast.With(items, inner or [ast.Pass()])]
            return inner
        return []

    def _kept(self, each: ast.stmt) -> list[ast.stmt]:
        bound = bound_by(each)
        if bound & self.needed:
            if not isinstance(each, ast.AugAssign):
                self.needed -= bound
            self.needed |= names_in(each) - bound
            if isinstance(each, ast.AugAssign):
                self.needed |= bound
            return [each]
        told = each.value if isinstance(each, ast.Expr | ast.Assign | ast.AnnAssign) else None
        if self._any_call and isinstance(told, ast.Call):
            self.needed |= names_in(each) - bound
            return [each]
        if self._living & names_in(each) & self.needed:
            for made in _expressions(each):
                if _touches(made, self._living & self.needed):
                    self.needed |= names_in(made)
                    return [ast.Expr(made)]
        return []

    def module(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """What the test's file defines of the names that are needed still."""
        kept: list[ast.stmt] = []
        for each in reversed(body):
            bound = bound_by(each)
            if not bound & self.needed:
                continue
            long = (each.end_lineno or each.lineno) - each.lineno >= _MOST_LINES_OF_A_HELPER
            if isinstance(each, ast.ClassDef) or (isinstance(each, FunctionNode) and long):
                continue
            if isinstance(each, ast.Import | ast.ImportFrom):
                names = [one for one in each.names if _import_name(one) in self.needed]
                each = (
                    ast.Import(names)
                    if isinstance(each, ast.Import)
                    else ast.ImportFrom(each.module, names, each.level)
                )
            else:
                self.needed |= names_in(each)
            self.needed -= bound
            kept.insert(0, each)
        imports = [each for each in kept if isinstance(each, ast.Import | ast.ImportFrom)]
        return [*imports, *(each for each in kept if each not in imports)]


def _has(outer: ast.stmt, inner: ast.stmt) -> bool:
    return any(each is inner for each in ast.walk(outer))


def _is_subtest(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and called(item.context_expr) == "subTest"


def bound_by(node: ast.stmt) -> set[str]:
    """The names that a statement gives a value."""
    match node:
        case ast.Assign(targets=targets):
            return set().union(*map(_targets, targets))
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.For(target=target):
            return _targets(target)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {_import_name(name) for name in names}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.With(items=items):
            named = (item.optional_vars for item in items if item.optional_vars is not None)
            within = (bound_by(each) for each in node.body)
            return set().union(*map(_targets, named), *within)
        case ast.If() | ast.Try():
            return set().union(*(bound_by(each) for block in blocks(node) for each in block))
    return set()


def _import_name(name: ast.alias) -> str:
    return name.asname or name.name.partition(".")[0]


def _targets(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def names_in(*nodes: ast.AST | None) -> set[str]:
    return {
        each.id
        for node in nodes
        if node is not None
        for each in ast.walk(node)
        if isinstance(each, ast.Name)
    }


def _made_by_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)


def _expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that may change an object."""
    match node:
        case ast.Expr(value=value):
            looked = check(node)
            yield looked.actual if looked.expected is not None and looked.actual else value
        case ast.Assert():
            looked = check(node)
            if looked.actual is not None:
                yield looked.actual


def _touches(node: ast.expr, living: set[str]) -> bool:
    """Whether a call takes one of these objects, or is a method of it."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or called(call) in _LOOKING:
            continue
        values = [*call.args, *(word.value for word in call.keywords)]
        given = [each.id for each in values if isinstance(each, ast.Name)]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            given.append(call.func.value.id)
        if living.intersection(given):
            return True
    return False


def blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(node, FunctionNode | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body
