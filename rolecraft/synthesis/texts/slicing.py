"""The statements that lead to one of them, found backwards from what it needs."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from rolecraft.synthesis.texts.checks import check, expected_error, is_check
from rolecraft.synthesis.texts.parametrized import FunctionNode, called

FIXTURES = frozenset({"capsys", "capfd", "caplog", "monkeypatch", "recwarn", "tmp_path", "tmpdir"})
"""Arguments that pytest itself gives. What they tell comes of calls that do not name them."""

_LOOKING = frozenset({"len", "isinstance", "issubclass", "str", "repr", "type", "hash", "bool"})
"""Functions that change nothing of what they are given."""

_MOST_LINES_OF_A_HELPER = 10
_MOST_LINES_OF_A_CLASS = 20


class Slicing:
    """Going backwards: the statements that give the `needed` names their values."""

    def __init__(
        self, needed: set[str], actual: ast.expr | None, *, everything: bool = False
    ) -> None:
        """With `everything` all statements are kept, but for checks that change nothing."""
        self.needed, self._actual, self._everything = needed, actual, everything
        self.shown = False
        """`actual` was put where it stands, in a loop."""
        self._living: set[str] = set()
        """Names of the test's own whose values may change: anything but plain constants."""

    def block(self, body: list[ast.stmt], failing: ast.stmt) -> list[ast.stmt]:
        """The statements of a block before `failing`, which may be within one of them."""
        kept: list[ast.stmt] = []
        before = list(itertools.takewhile(lambda each: not _has(each, failing), body))
        here = body[len(before)] if len(before) < len(body) else None
        if here is not None and here is not failing:
            kept += self._around(here, failing)
        self._living |= _living(before)
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
            if _always_binds(each):
                self.needed -= bound
                self.needed |= (names_in(each) - bound) | _read(each)
            else:
                self.needed |= names_in(each)
            return [each]
        check = is_check(each)
        if self._changes(each) or (self._everything and not check):
            self.needed |= names_in(each)
            return [each]
        told = each.value if isinstance(each, ast.Expr | ast.Assign | ast.AnnAssign) else None
        if self._any_call and isinstance(told, ast.Call):
            self.needed |= names_in(each) - bound
            return [each]
        for made in _expressions(each):
            calls = self._everything and any(isinstance(one, ast.Call) for one in ast.walk(made))
            if calls or _touches(made, self._living & self.needed):
                self.needed |= names_in(made)
                return [ast.Expr(made)]
        return []

    def _changes(self, each: ast.stmt) -> bool:
        """Whether a statement may change what a needed name stands for; a bare check does not."""
        match each:
            case ast.Delete() | ast.AugAssign():
                return bool(names_in(each) & self.needed)
            case ast.Assign(targets=targets, value=value):
                into = names_in(*(one for one in targets if not _plain(one)))
                return bool(into & self.needed) or _touches(value, self._living & self.needed)
            case ast.AnnAssign(value=ast.expr() as value):
                return _touches(value, self._living & self.needed)
            case ast.Expr(value=value):
                return not is_check(each) and _does(value, self.needed)
            case ast.With() | ast.AsyncWith() if expected_error(each) is not None:
                return False
            case ast.With(items=items) | ast.AsyncWith(items=items):
                used = names_in(*(item.context_expr for item in items)) & self._living
                return bool(used & self.needed) or any(map(self._changes, each.body))
        return any(self._changes(inner) for block in blocks(each) for inner in block)

    def module(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """What the test's file defines of the names that are needed still."""
        kept: list[ast.stmt] = []
        imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
        own = {name for each in body if each not in imports for name in bound_by(each)}
        for each in reversed(body):
            bound = bound_by(each)
            changes = bool(own & self.needed & names_in(each)) and self._changes(each)
            if not bound & self.needed and not changes:
                continue
            lines = 1 + (each.end_lineno or each.lineno) - each.lineno
            if isinstance(each, ast.ClassDef) and lines > _MOST_LINES_OF_A_CLASS:
                continue
            if isinstance(each, FunctionNode) and lines > _MOST_LINES_OF_A_HELPER:
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
            if _always_binds(each):
                self.needed -= bound - _read(each)
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
        case ast.AnnAssign(value=None):
            return set()
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
    """The names that are bound: of `a, b`, not of `a.b` or `a[b]`, which change an object."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return set().union(*map(_targets, elts))
        case ast.Starred(value=value):
            return _targets(value)
    return set()


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _always_binds(node: ast.stmt) -> bool:
    """Whether what the names stood for before does not matter any more."""
    return isinstance(node, _BINDING)


def _read(node: ast.stmt) -> set[str]:
    """The names that an assignment reads: of `x = f(x)` also the one that it binds."""
    return names_in(node.value) if isinstance(node, ast.Assign | ast.AnnAssign) else set()


_BINDING = (
    *(ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)


def names_in(*nodes: ast.AST | None) -> set[str]:
    return {
        each.id
        for node in nodes
        if node is not None
        for each in ast.walk(node)
        if isinstance(each, ast.Name)
    }


def _living(body: list[ast.stmt]) -> set[str]:
    """The names to which a block gives what may be changed afterwards."""
    found: set[str] = set()
    for each in body:
        fixed = isinstance(each, ast.Assign) and _is_fixed(each.value)
        if not fixed and not isinstance(each, ast.Import | ast.ImportFrom | FunctionNode):
            found |= bound_by(each)
    return found


def _is_fixed(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.JoinedStr() | ast.Lambda():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_fixed(operand)
        case ast.BinOp(left=left, right=right):
            return _is_fixed(left) and _is_fixed(right)
        case ast.Tuple(elts=elts):
            return all(map(_is_fixed, elts))
    return False


def _does(node: ast.expr, needed: set[str]) -> bool:
    """Whether a statement of this expression alone is there for what it does to these."""
    called_or_awaited = (ast.Call, ast.Await, ast.Yield, ast.NamedExpr)
    doing = any(isinstance(each, called_or_awaited) for each in ast.walk(node))
    return doing and bool(names_in(node) & needed)


def _expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a bare check that may change an object."""
    if isinstance(node, ast.Assert) or is_check(node):
        looked = check(node)
        if looked.actual is not None:
            yield looked.actual


def _touches(node: ast.expr, living: set[str]) -> bool:
    """Whether a call takes one of these objects, or is a method of it."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or called(call) in _LOOKING:
            continue
        values = [*call.args, *(word.value for word in call.keywords)]
        if living & names_in(*values, call.func):
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
