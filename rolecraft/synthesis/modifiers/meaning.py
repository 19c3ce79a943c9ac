"""What a function or a class means to Python, whatever way it is written."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rolecraft.synthesis.edits import python_of

Statements = Sequence[ast.stmt]


def parsed(text: str, *, depth: int) -> list[ast.stmt]:
    """The statements of a part of a file that stands within so many blocks.

    Raises `SyntaxError` if it is no Python, also where only the compiler notices (a `break` outside
    of its loop).
    """
    # Each block is one space deeper: less than any real indentation of that depth.
    lines = "".join(f"{' ' * level}if _:\n" for level in range(depth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of code that is not ours
        module = ast.parse(lines + text)
        compile(module, "<variant>", "exec", dont_inherit=True)
    body = module.body
    for _ in range(depth):
        block = body[0]
        assert isinstance(block, ast.If)
        body = block.body
    return body


@dataclass(frozen=True, slots=True)
class Part:
    """A function, a class or a file as it is after a change."""

    path: str
    name: str
    """Qualified; empty for a file that is changed outside of its functions and classes."""
    tree: str

    @classmethod
    def of(cls, path: str, name: str, body: Statements) -> Part:
        return cls(path, name, "".join(map(ast.dump, body)))

    @property
    def key(self) -> str:
        """A digest of it."""
        said = f"{self.path}\0{self.name}\0{self.tree}"
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]


def joined(keys: Iterable[str]) -> str:
    """The key of several changes at once, in whatever order; of one, that one. Empty of none."""
    found = sorted(keys)
    if len(found) < 2:
        return "".join(found)
    return hashlib.sha256("\0".join(found).encode()).hexdigest()[:16]


def parts_of_file(path: str, old: str, new: str) -> list[Part]:
    """What differs in a file: the innermost functions and classes, else the file. Nothing does if
    it means the same to Python. What is no Python is its text.
    """
    if old == new:
        return []
    try:
        was, now = (parsed(python_of(text), depth=0) for text in (old, new))
    except (SyntaxError, ValueError, RecursionError):
        return [Part(path, "", new)]
    return changed_parts(path, "", was, now)


def changed_parts(path: str, name: str, old: Statements, new: Statements) -> list[Part]:
    """The innermost functions and classes in which two versions of `name` differ; `name` itself
    where more of it is another than those. Nothing if the versions mean the same.
    """
    if [*map(ast.dump, old)] == [*map(ast.dump, new)]:
        return []
    match [*old], [*new]:
        case [ast.ClassDef() as before], [ast.ClassDef() as after] if name:
            head = _head(before) == _head(after)
            was, now = before.body, after.body
        case _:
            head = not name
            was, now = [*old], [*new]
    if not head or [*map(_outline, was)] != [*map(_outline, now)]:
        return [Part.of(path, name, new)]
    return [
        part
        for one, other in zip(_members(was), _members(now), strict=True)
        for part in changed_parts(path, f"{name}.{one.name}" if name else one.name, [one], [other])
    ]


Member = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_AROUND = ast.If | ast.Try | ast.With | ast.ExceptHandler
"""Blocks in which functions and classes stand for themselves, as `entities` has them."""


def _members(body: Iterable[ast.AST]) -> Iterator[Member]:
    for each in body:
        if isinstance(each, Member):
            yield each
        elif isinstance(each, _AROUND):
            yield from _members(ast.iter_child_nodes(each))


def _head(node: ast.ClassDef) -> list[str]:
    return [ast.dump(each) for each in (*node.decorator_list, *node.bases, *node.keywords)]


def _outline(node: ast.AST) -> object:
    """A statement with the names of its functions and classes alone."""
    if isinstance(node, Member):
        return type(node).__name__, node.name
    if isinstance(node, _AROUND):
        said = node.name if isinstance(node, ast.ExceptHandler) else None
        return type(node).__name__, said, [*_outlines(node)]
    return ast.dump(node)


def _outlines(node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield name, _outline(each)
