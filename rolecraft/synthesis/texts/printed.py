"""What a test reads of pytest's `capsys`, as what is printed: nobody else has heard of `capsys`.

assert capsys.readouterr().out == "3"   becomes   assert output == "3"
"""

from __future__ import annotations

import ast
import copy
from typing import TypeVar

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.masking import StandIn
from rolecraft.synthesis.texts.parametrized import called
from rolecraft.synthesis.texts.slicing import names_in

_KINDS = {"out": "what is printed", "err": "what is printed to the standard error"}
_NAMES = {"out": "output", "err": "errors"}
_CATCHING = frozenset({"capsys", "capfd"})

Node = TypeVar("Node", bound=ast.AST)


def tell_printed(found: Doing) -> tuple[StandIn, ...]:
    """Put names for what is printed into the code, and say what they stand for.

    Code that reads more than once is left as it is: each time would need a name of its own.
    """
    nodes: list[ast.AST] = [
        *found.before,
        *(each for each in (found.actual, found.expected) if each is not None),
    ]
    reads = [each for node in nodes for each in ast.walk(node) if _is_read(each)]
    read = [each for each in reads if not any(_only(node, each) for node in found.before)]
    if not reads or len(read) > 1:
        return ()
    reading = _Reading(names_in(*nodes))
    before = [made for each in found.before if (made := reading.of(each)) is not None]
    found.before = before
    found.actual = reading.of(found.actual) if found.actual is not None else None
    found.expected = reading.of(found.expected) if found.expected is not None else None
    return tuple(StandIn(reading.names[kind], _KINDS[kind], "") for kind in sorted(reading.used))


def _is_read(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and called(node) == "readouterr"
        and bool(names_in(node.func) & _CATCHING)
    )


def _only(node: ast.AST, read: ast.AST) -> bool:
    """Whether a statement does nothing but read, so that what comes later is alone."""
    return isinstance(node, ast.Expr) and node.value is read


class _Reading(ast.NodeTransformer):
    def __init__(self, taken: set[str]) -> None:
        self.names = {kind: _free(name, taken) for kind, name in _NAMES.items()}
        self.used: set[str] = set()
        self._both: set[str] = set()
        """Names of what has both streams."""
        self._streams: dict[str, str] = {}
        """Which stream a name stands for."""

    def of(self, node: Node) -> Node | None:
        """The same with names for what is printed; None of a statement that only reads it."""
        match node:
            case ast.Expr(value=value) if _is_read(value):
                return None
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_read(value):
                self._both.add(name)
                return None
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=out), ast.Name(id=err)])]) if (
                _is_read(node.value)
            ):
                self._streams.update({out: "out", err: "err"})
                return None
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(value=of, attr=kind)):
                if kind in _NAMES and self._has_both(of):
                    self._streams[name] = kind
                    return None
        made: Node = self.visit(copy.deepcopy(node))  # the tree is read for other tests too
        return made

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in _NAMES and self._has_both(node.value):
            return self._named(node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        kind = self._streams.get(node.id)
        return node if kind is None else self._named(kind)

    def _has_both(self, node: ast.expr) -> bool:
        return _is_read(node) or (isinstance(node, ast.Name) and node.id in self._both)

    def _named(self, kind: str) -> ast.Name:
        self.used.add(kind)
        return ast.Name(self.names[kind], ast.Load())


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
