"""Which parts of a function matter to its tests."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

_LOGGERS = frozenset({"log", "logger", "logging", "warnings"})
_LOGGED = frozenset(
    {"debug", "info", "warn", "warning", "error", "exception", "critical", "log", "warn_explicit"}
)
_CAST = frozenset({"cast", "typing.cast", "t.cast"})
_DECLARATIONS = frozenset({"__all__", "__slots__", "__doc__", "__version__"})

_LEFT_OUT = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.Comment,
    cst.Newline,
    cst.Annotation,
    cst.Decorator,
    cst.Import,
    cst.ImportFrom,
    cst.Global,
    cst.Nonlocal,
)


def code_of(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes of a function, a class or a part of one where a change can be a bug, in the order
    of the source; with `node` itself.

    Left out, with all that is in them: whitespace and comments, annotations and the types of
    `cast`, decorators, imports, docstrings, what is logged or warned of, the messages of `assert`,
    `if TYPE_CHECKING`, and the values of `__all__` and its like.
    """
    found: list[cst.CSTNode] = []
    todo = [node]
    while todo:
        here = todo.pop()
        if isinstance(here, _LEFT_OUT) or _is_no_code(here):
            continue
        found.append(here)
        children: list[cst.CSTNode] = [*children_of(here)]
        if isinstance(here, cst.Assert) and here.msg is not None:
            children.remove(here.msg)
        elif isinstance(here, cst.Call) and here.args and dotted(here.func) in _CAST:
            children = [child for child in children if child is not here.args[0]]
        todo.extend(reversed(children))
    return found


@lru_cache(maxsize=100_000)
def children_of(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Its `children`, which libcst takes long to find, and every modifier asks for."""
    return tuple(node.children)


def all_of(node: cst.CSTNode) -> list[cst.CSTNode]:
    """A node and all that is within it, in the order of the source."""
    found: list[cst.CSTNode] = []
    todo = [node]
    while todo:
        found.append(here := todo.pop())
        todo.extend(reversed(children_of(here)))
    return found


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` of such a chain of names; empty for anything else."""
    names: list[str] = []
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return ""
    return ".".join([node.value, *reversed(names)])


def _is_no_code(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Expr):
        return isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)
    if isinstance(node, cst.Call):
        *logger, method = dotted(node.func).split(".")
        return method in _LOGGED and bool(logger) and logger[-1].strip("_").lower() in _LOGGERS
    if isinstance(node, cst.If):
        return dotted(node.test).rpartition(".")[2] == "TYPE_CHECKING"
    if isinstance(node, cst.Assign):
        return any(dotted(each.target) in _DECLARATIONS for each in node.targets)
    return False
