"""What a function or a class means to Python, whatever way it is written."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

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


def innermost(name: str, old: Statements, new: Statements) -> tuple[str, Statements]:
    """The qualified name and the statements of the innermost function or class in which two
    versions of `name` differ, as long as only one does.
    """
    match [*old], [*new]:
        case [ast.ClassDef() as before], [ast.ClassDef() as after]:
            pairs = list(zip(_members(before), _members(after), strict=False))
            others = [pair for pair in pairs if ast.dump(pair[0]) != ast.dump(pair[1])]
            if len(others) == 1 and _shell(before) == _shell(after):
                was, now = others[0]
                return innermost(f"{name}.{was.name}", [was], [now])
    return name, new


Member = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _members(node: ast.ClassDef) -> list[Member]:
    return [each for each in node.body if isinstance(each, Member)]


def _shell(node: ast.ClassDef) -> str:
    """The class with the names of its members alone."""
    parts = [*node.decorator_list, *node.bases, *node.keywords]
    body = [each.name if isinstance(each, Member) else ast.dump(each) for each in node.body]
    return repr(([ast.dump(each) for each in parts], body))
