"""Which names a function binds itself, and where each of them surely has a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst


@dataclass(frozen=True, slots=True)
class Binding:
    """A name has a value from `start` up to `end`, in the order in which things run."""

    name: str
    start: int
    end: int
    is_parameter: bool


@dataclass(frozen=True)
class Bindings:
    """The names of a function: where they are bound and where they are read."""

    found: tuple[Binding, ...]
    uses: tuple[tuple[cst.Name, int], ...]
    """The names that are read, where they are no attribute and no keyword, and their numbers."""
    bound: frozenset[str]
    """All names that it binds in any way."""

    def at(self, place: int) -> dict[str, Binding]:
        """By name, what surely has a value there."""
        return {each.name: each for each in self.found if each.start <= place <= each.end}


@lru_cache(maxsize=8)
def bindings_of(function: cst.CSTNode) -> Bindings:
    """Of a function with all that is within it.

    On the safe side: what is bound in a branch or a loop has a value in it only, and what is
    deleted anywhere, or not the function's own, has none.
    """
    walk = _Walk()
    walk.visit(function)
    found = tuple(each for each in walk.found if each.name not in walk.lost)
    return Bindings(found, tuple(walk.uses), frozenset(walk.stored | walk.lost))


class _Walk:
    """Numbers the nodes in the order of running, and notes what they bind and read."""

    def __init__(self) -> None:
        self.found: list[Binding] = []
        self.uses: list[tuple[cst.Name, int]] = []
        self.stored: set[str] = set()
        self.lost: set[str] = set()
        self._now = 0
        self._blocks: list[list[tuple[str, int, bool]]] = [[]]
        """Of each block around: the names it binds, since when, and whether as parameters."""

    def visit(self, node: cst.CSTNode | None) -> None:
        self._now += 1
        match node:
            case None | cst.Annotation() | cst.Decorator() | cst.Import() | cst.ImportFrom():
                pass
            case cst.Name():
                self.uses.append((node, self._now))
            case cst.Attribute() | cst.Arg():
                self.visit(node.value)
            case cst.Global() | cst.Nonlocal():
                self.lost.update(item.name.value for item in node.names)
            case cst.FunctionDef() | cst.Lambda():
                self._function(node)
            case cst.ClassDef():
                self.stored.add(node.name.value)
                self._block([*node.bases, *node.keywords, *node.body.body])
            case cst.Assign():
                self.visit(node.value)
                for each in node.targets:
                    self._bind(each.target)
            case cst.AnnAssign() if node.value is not None:
                self.visit(node.value)
                self._bind(node.target)
            case cst.AnnAssign():
                self.stored.update(_names(node.target))
            case cst.AugAssign():
                self._read_places(node.target)
                self.stored.update(_names(node.target))
                self.visit(node.value)
            case cst.NamedExpr():
                self.visit(node.value)
                self.stored.update(_names(node.target))
            case cst.Del():
                self._read_places(node.target)
                self.lost.update(_names(node.target))
            case cst.For():
                self.visit(node.iter)
                self._block(node.body.body, node.target)
                self.visit(node.orelse)
            case cst.WithItem():
                self.visit(node.item)
                if node.asname is not None:
                    self._bind(node.asname.name)
            case cst.ExceptHandler() | cst.ExceptStarHandler():
                self.visit(node.type)
                self._block(node.body.body, node.name.name if node.name is not None else None)
            case cst.IndentedBlock() | cst.SimpleStatementSuite():
                self._block(node.body)
            case cst.BaseComp():
                self._comprehension(node)
            case cst.MatchCase():
                self.stored.update(_names(node.pattern))
                self.visit(node.guard)
                self.visit(node.body)
            case _:
                for child in node.children:
                    self.visit(child)

    def _block(self, parts: Iterable[cst.CSTNode], target: cst.CSTNode | None = None) -> None:
        """Parts that run one after another; `target` gets a value before them."""
        self._blocks.append([])
        if target is not None:
            self._bind(target)
        for part in parts:
            self.visit(part)
        self._close()

    def _close(self) -> None:
        for name, since, is_parameter in self._blocks.pop():
            self.found.append(Binding(name, since, self._now, is_parameter))

    def _function(self, node: cst.FunctionDef | cst.Lambda) -> None:
        params = node.params
        parameters = [*params.posonly_params, *params.params, *params.kwonly_params]
        stars = (params.star_arg, params.star_kwarg)
        parameters += [each for each in stars if isinstance(each, cst.Param)]
        for each in parameters:
            self.visit(each.default)
        self._blocks.append([])
        for each in parameters:
            self._bind(each.name, is_parameter=True)
        if isinstance(node, cst.FunctionDef):
            self.stored.add(node.name.value)
        self.visit(node.body)
        self._close()

    def _comprehension(self, node: cst.BaseComp) -> None:
        self._blocks.append([])
        loop: cst.CompFor | None = node.for_in
        while loop is not None:
            self.visit(loop.iter)
            self._bind(loop.target)
            for condition in loop.ifs:
                self.visit(condition)
            loop = loop.inner_for_in
        if isinstance(node, cst.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        elif isinstance(node, cst.BaseSimpleComp):
            self.visit(node.elt)
        self._close()

    def _bind(self, target: cst.CSTNode, *, is_parameter: bool = False) -> None:
        self._read_places(target)
        for name in _names(target):
            self.stored.add(name)
            self._blocks[-1].append((name, self._now + 1, is_parameter))

    def _read_places(self, target: cst.CSTNode) -> None:
        """What is read to know where a value goes: `x` and `i` of `x[i] = 1`."""
        if isinstance(target, cst.Attribute | cst.Subscript):
            self.visit(target)
        elif not isinstance(target, cst.Name):
            for child in target.children:
                self._read_places(child)


def _names(target: cst.CSTNode) -> list[str]:
    """What names it gives a value."""
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Attribute | cst.Subscript):
        return []
    return [name for child in target.children for name in _names(child)]
