"""What a statement of a test looks at, and what it wants to see."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from rolecraft.synthesis.texts.parametrized import called
from rolecraft.synthesis.texts.values import UNKNOWN, value_of

_EQUAL = frozenset(
    {
        *("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual"),
        *("assertTupleEqual", "assertSetEqual", "assertSequenceEqual", "assertMultiLineEqual"),
    }
)

_OF_ONE = ("assertTrue", "assertFalse", "assertIsNone")

_OF_TWO = ("assertIs", "assertIn", "assertNotIn", "assertIsInstance", "assertNotEqual")

_RAISES = frozenset({"assertRaises", "assertRaisesRegex", "raises"})


@dataclass(slots=True)
class Doing:
    """The statements before a check, and what is checked."""

    before: list[ast.stmt]
    actual: ast.expr | None = None
    """The expression that was to be looked at."""
    expected: ast.expr | None = None
    """What it was to be equal to."""
    turned: bool = False
    """`expected` stands before `actual`."""
    holds: bool = False
    """`actual` was to be true, as it stands."""
    shown: bool = False
    """`actual` stands in `before`, within a loop."""
    raises: ast.expr | None = None
    """The exception that was to come."""
    unknown: set[str] = field(default_factory=set)
    """Names that are used and not defined: fixtures, attributes of the test."""
    untold: bool = False
    """`expected` has such names: it says no value."""


def expected_error(node: ast.With | ast.AsyncWith) -> ast.expr | None:
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and called(call) in _RAISES and call.args:
            return call.args[0]
    return None


def is_check(node: ast.stmt) -> bool:
    """Whether a statement does nothing but look: those of unittest, and of helpers called so."""
    match node:
        case ast.Expr(value=ast.Call() as call):
            return called(call).startswith("assert") or called(call) in _RAISES
    return isinstance(node, ast.Assert)


def check(failing: ast.stmt) -> Doing:
    """What a failing statement looks at."""
    match failing:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return _equal(left, right)
        case ast.Assert(test=test):
            return Doing([], actual=test, holds=True)
        case ast.With() | ast.AsyncWith() if (error := expected_error(failing)) is not None:
            return Doing(list(failing.body), raises=error)
        case ast.Expr(value=ast.Call(args=[first, second, *_]) as call) if called(call) in _EQUAL:
            return _equal(first, second)
        case ast.Expr(value=ast.Call(args=[first, *_]) as call):
            name = called(call)
            if name in _RAISES and len(call.args) > 1:
                rest = call.args[2:] if name == "assertRaisesRegex" else call.args[1:]
                made = ast.Call(rest[0], rest[1:], call.keywords) if rest else None
                return Doing([], actual=made, raises=first)
            if name in _OF_ONE:
                return Doing([], actual=_condition(name, first), holds=True)
            if name in _OF_TWO:
                return Doing([], actual=_condition(name, *call.args[:2]), holds=True)
            return Doing([], actual=call)
        case ast.Expr(value=value):
            return Doing([], actual=value)
        case ast.For(iter=over):
            return Doing([], actual=over)
    return Doing([failing])


def _equal(left: ast.expr, right: ast.expr) -> Doing:
    """Which of the two is the value that was to come: the one that is more of a literal."""
    if _calls(left) < _calls(right):
        return Doing([], actual=right, expected=left, turned=True)
    return Doing([], actual=left, expected=right)


def _calls(node: ast.expr) -> int:
    if value_of(node) is not UNKNOWN:
        return -1
    kinds = (ast.Call, ast.Attribute, ast.Subscript, ast.Name)
    found = [kind for each in ast.walk(node) for kind in kinds if isinstance(each, kind)]
    return 10 * sum(kind is ast.Call for kind in found) + min(len(found), 9)


def _condition(name: str, first: ast.expr, second: ast.expr | None = None) -> ast.expr:
    """A check of unittest as the condition that it is."""
    match name:
        case "assertFalse":
            return ast.UnaryOp(ast.Not(), first)
        case "assertIsNone":
            return ast.Compare(first, [ast.Is()], [ast.Constant(None)])
        case "assertIsInstance" if second is not None:
            return ast.Call(ast.Name("isinstance", ast.Load()), [first, second], [])
    operators: dict[str, ast.cmpop] = {
        "assertIs": ast.Is(),
        "assertIn": ast.In(),
        "assertNotIn": ast.NotIn(),
        "assertNotEqual": ast.NotEq(),
    }
    if second is None or name not in operators:
        return first
    return ast.Compare(first, [operators[name]], [second])
