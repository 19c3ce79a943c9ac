"""The functions and classes of a file, and changed versions of them.

A variant is written by libcst, so what was not changed keeps every space and comment; only the
entity is written, not its file, which makes hundreds of variants a second possible.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal, TypeVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, WhitespaceInclusivePositionProvider

from rolecraft.synthesis.candidates import Edit
from rolecraft.synthesis.edits import line_starts, python_of
from rolecraft.synthesis.modifiers.code import all_of, children_of, code_of
from rolecraft.synthesis.modifiers.meaning import Part, changed_parts, joined, parsed

EntityKind = Literal["function", "class"]
Node = TypeVar("Node", bound=cst.CSTNode)
Change = cst.CSTNode | tuple[cst.CSTNode, ...] | None


class Refused(ValueError):
    """A file that libcst does not take. Its text says why, on one line."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An entity as it is after a change. Most are never wanted, so it is made when it is asked for.

    `entity` is its node; `changes` are nodes of it and what stands in their place. None, in the
    place of a statement or of something in a list, is nothing, and a tuple is several.
    """

    entity: cst.FunctionDef | cst.ClassDef
    note: str
    """What was done, for people: `` `<` became `<=` ``."""
    changes: Mapping[cst.CSTNode, Change] = field(default_factory=dict)
    within: frozenset[cst.CSTNode] = frozenset()
    """The nodes around those that change."""

    @property
    def node(self) -> cst.FunctionDef | cst.ClassDef:
        if not self.changes:
            return self.entity
        made = self.entity.visit(_Replacing(self.changes, self.within))
        assert isinstance(made, cst.FunctionDef | cst.ClassDef)
        return made


@dataclass(frozen=True)
class Entity:
    """A function (of a module or a class; functions within it are part of it) or a class."""

    path: str
    name: str
    """Qualified, such as `Lexer.get_tokens`."""
    kind: EntityKind
    node: cst.FunctionDef | cst.ClassDef
    module: cst.Module
    text: str
    """As it stands in the file, with the empty lines and comments before it."""
    start: int
    """Where `text` begins in the file's text, in characters."""
    indents: tuple[str, ...]
    """What each block around it adds to its indentation."""
    places: Mapping[cst.CSTNode, CodeRange] = field(repr=False, compare=False)
    """Where the nodes of its file stand, with the whitespace and comments that belong to them."""

    @property
    def id(self) -> str:
        return f"{self.path}::{self.name}"

    def find(self, *kinds: type[Node], within: cst.CSTNode | None = None) -> list[Node]:
        """The nodes of these kinds in the order of the source, in the entity or a part of it."""
        if within is not None and within not in self._numbers:
            return [node for node in all_of(within) if isinstance(node, kinds)]
        return self._among(self._nodes_by_type, kinds, within)

    def code(self, *kinds: type[Node], within: cst.CSTNode | None = None) -> list[Node]:
        """As `find`, but only of what runs and matters: see `code.code_of` for what is left out."""
        if within is not None and within not in self._code:
            return [node for node in code_of(within) if isinstance(node, kinds)]
        return self._among(self._code_by_type, kinds, within)

    def _among(
        self, by_type: _ByType, kinds: tuple[type[Node], ...], within: cst.CSTNode | None
    ) -> list[Node]:
        """Looks at the nodes of these types alone: each modifier asks for others."""
        wanted = [nodes for each, nodes in by_type.items() if _is_one(each, kinds)]
        found = wanted[0] if len(wanted) == 1 else sorted(node for of in wanted for node in of)
        first, last = self._span(within)
        return [self._nodes[number] for number in found if first <= number < last]  # type: ignore[misc]

    def _span(self, within: cst.CSTNode | None) -> tuple[int, int]:
        """The numbers of the nodes of a part; what stands within it follows it."""
        if within is None:
            return 0, len(self._nodes)
        first = self._numbers[within]
        return first, first + self._sizes[within]

    @cached_property
    def _nodes(self) -> list[cst.CSTNode]:
        return [self.node, *self.parents]

    @cached_property
    def _numbers(self) -> dict[cst.CSTNode, int]:
        return {node: number for number, node in enumerate(self._nodes)}

    @cached_property
    def _sizes(self) -> Counter[cst.CSTNode]:
        """How many nodes there are within each, with itself."""
        found = Counter(self._nodes)
        for node in reversed(self._nodes[1:]):
            found[self.parents[node]] += found[node]
        return found

    @cached_property
    def _code(self) -> frozenset[cst.CSTNode]:
        return frozenset(code_of(self.node))

    @cached_property
    def _nodes_by_type(self) -> _ByType:
        return _by_type(enumerate(self._nodes))

    @cached_property
    def _code_by_type(self) -> _ByType:
        pairs = enumerate(self._nodes)
        return _by_type((number, node) for number, node in pairs if node in self._code)

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """The parent of each node of it (by identity: libcst hashes so), in the source's order."""
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        todo: list[tuple[cst.CSTNode, cst.CSTNode]]
        todo = [(child, self.node) for child in reversed(children_of(self.node))]
        while todo:
            node, parent = todo.pop()
            found[node] = parent
            todo.extend((child, node) for child in reversed(children_of(node)))
        return found

    def replacing(self, old: cst.CSTNode, new: cst.CSTNode, *, note: str) -> Variant:
        """With `new` in the place of the node `old`."""
        return self.changed({old: new}, note=note)

    def removing(self, node: cst.BaseStatement | cst.BaseSmallStatement, *, note: str) -> Variant:
        """Without a statement; where it was the only one of its block, `pass` is there."""
        return self.changed({node: None}, note=note)

    def changed(self, changes: Mapping[cst.CSTNode, Change], *, note: str) -> Variant:
        """With other nodes in the place of several: see `Variant.changes`."""
        around: set[cst.CSTNode] = set()
        for node in changes:
            here = self.parents.get(node)
            while here is not None and here not in around:
                around.add(here)
                here = self.parents.get(here)
        return Variant(self.node, note, changes, frozenset(around))

    def lines(self, variant: Variant) -> range:
        """The numbers (from 1) of the lines of the file between the first and the last change."""
        places = [self.places[node] for node in variant.changes or (self.node,)]
        first = min(place.start.line for place in places)
        last = max(place.end.line - (place.end.column == 0) for place in places)
        return range(first, max(first, last) + 1)

    def as_text(self, variant: Variant) -> str:
        """A variant as it would stand in the file."""
        node: cst.BaseStatement = variant.node
        for indent in reversed(self.indents):
            block = cst.IndentedBlock(body=[node], indent=indent)
            node = cst.If(test=cst.Name("_"), body=block)
        ends = self.module.has_trailing_newline or self.text.endswith(("\n", "\r"))
        wrapped = self.module.with_changes(
            body=[node], header=[], footer=[], has_trailing_newline=ends
        ).code
        for _ in self.indents:  # the line of each `if`
            wrapped = wrapped.split(self.module.default_newline, 1)[1]
        return wrapped

    def edit(self, text: str) -> Edit:
        """The smallest edit of whole lines that puts `text` in the entity's place."""
        old, new = self.text.splitlines(keepends=True), text.splitlines(keepends=True)
        first = 0
        while first < min(len(old), len(new)) and old[first] == new[first]:
            first += 1
        last = 0
        while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
            last += 1
        start = self.start + sum(map(len, old[:first]))
        end = self.start + len(self.text) - sum(map(len, old[len(old) - last :]))
        return Edit(self.path, start, end, "".join(new[first : len(new) - last]))

    @cached_property
    def key(self) -> str:
        """`key_of` its text as it is."""
        return Part.of(self.path, self.name, self._parsed).key

    def key_of(self, text: str) -> str:
        """A digest of what a version of it means to Python: of its tree, without positions.

        Of a class in which methods alone are others, it is that of these methods, however the
        change was made. Raises `SyntaxError` if it is no Python.
        """
        found = parsed(text, depth=len(self.indents))
        changed = changed_parts(self.path, self.name, self._parsed, found)
        return joined(part.key for part in changed) or self.key

    @cached_property
    def _parsed(self) -> list[ast.stmt]:
        return parsed(self.text, depth=len(self.indents))


def entities(path: str, text: str) -> list[Entity]:
    """The entities of a file, in its order. Raises `Refused` for what libcst does not parse.

    Left out are functions without a body of their own: stubs (`...`, a docstring alone) and
    overloads.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    except cst.ParserSyntaxError as error:
        raise Refused(f"line {error.raw_line}: {error.message}") from error
    except RecursionError as error:
        raise Refused("it is nested too deeply") from error
    module = wrapper.module
    ranges = wrapper.resolve(WhitespaceInclusivePositionProvider)
    begins = len(text) - len(python_of(text))
    # Of a last line without an end, where it ends.
    offsets = (begins, *line_starts(text)[1:], len(text))

    def span(node: cst.CSTNode) -> tuple[int, int]:
        place: CodeRange = ranges[node]
        return (
            offsets[place.start.line - 1] + place.start.column,
            offsets[place.end.line - 1] + place.end.column,
        )

    found: list[Entity] = []

    def visit(
        body: Iterable[cst.CSTNode], names: tuple[str, ...], indents: tuple[str, ...]
    ) -> None:
        for node in body:
            if isinstance(node, cst.FunctionDef | cst.ClassDef):
                name = (*names, node.name.value)
                start, end = span(node)
                if isinstance(node, cst.ClassDef) or _has_body(node):
                    kind: EntityKind = "class" if isinstance(node, cst.ClassDef) else "function"
                    found.append(
                        Entity(
                            path,
                            ".".join(name),
                            kind,
                            node,
                            module,
                            text[start:end],
                            start,
                            indents,
                            ranges,
                        )
                    )
                if isinstance(node, cst.ClassDef):
                    visit_block(node.body, name, indents)
            elif isinstance(node, cst.If | cst.Try | cst.Else | cst.With | cst.ExceptHandler):
                visit_block(node.body, names, indents)
                for rest in ("handlers", "orelse", "finalbody"):
                    more = getattr(node, rest, None)
                    if more is not None:
                        visit(more if isinstance(more, Iterable) else [more], names, indents)

    def visit_block(block: cst.BaseSuite, names: tuple[str, ...], indents: tuple[str, ...]) -> None:
        if isinstance(block, cst.IndentedBlock):
            indent = module.default_indent if block.indent is None else block.indent
            visit(block.body, names, (*indents, indent))

    visit(module.body, (), ())
    return found


_ByType = dict[type[cst.CSTNode], list[int]]
"""The numbers of nodes by their type, rising."""


def _by_type(nodes: Iterable[tuple[int, cst.CSTNode]]) -> _ByType:
    found: _ByType = {}
    for number, node in nodes:
        found.setdefault(type(node), []).append(number)
    return found


@cache
def _is_one(kind: type[cst.CSTNode], kinds: tuple[type[cst.CSTNode], ...]) -> bool:
    """libcst's classes are abstract ones, of which it takes long to ask."""
    return issubclass(kind, kinds)


class _Replacing(cst.CSTTransformer):
    def __init__(
        self,
        changes: Mapping[cst.CSTNode, Change],
        within: Collection[cst.CSTNode],
    ) -> None:
        super().__init__()
        self._changes, self._within = changes, within

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self._within and node not in self._changes

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        if original_node in self._changes:
            new = self._changes[original_node]
            if isinstance(new, tuple):
                return cst.FlattenSentinel(new)
            return cst.RemovalSentinel.REMOVE if new is None else new
        if isinstance(updated_node, cst.IndentedBlock) and not updated_node.body:
            return updated_node.with_changes(body=[cst.parse_statement("pass")])
        if isinstance(updated_node, cst.SimpleStatementLine) and not updated_node.body:
            return cst.RemovalSentinel.REMOVE
        return updated_node


def _has_body(node: cst.FunctionDef) -> bool:
    if any("overload" in _code(each.decorator) for each in node.decorators):
        return False
    for line in node.body.body:
        smalls = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        for small in smalls:
            is_said = isinstance(small, cst.Expr) and isinstance(small.value, _SAID)
            if not isinstance(small, cst.Pass) and not is_said:
                return True
    return False


_SAID = (cst.Ellipsis, cst.SimpleString, cst.ConcatenatedString)


def _code(node: cst.CSTNode) -> str:
    return cst.Module(body=[]).code_for_node(node)
