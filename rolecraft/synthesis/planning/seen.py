"""Which tests run which lines, from what a run under coverage's tracer has counted.

A tracer counts the lines on which something begins. Here a statement that goes over several lines
is one thing: a change of any of them is seen by the tests that run any of them. What stands outside
of functions runs when its module is imported, and so do their decorators and defaults.

What is not seen here: a test that has the result of a function out of a cache (`lru_cache`, a lazy
attribute of a module) which another test has filled. The whole suite, which runs for every bug that
some test notices, finds these too.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.synthesis.edits import python_of

SeenBy = dict[str, dict[int, tuple[str, ...]]]
OnImport = dict[str, tuple[int, ...]]


def tools(folder: Path) -> Path:
    """A folder with coverage and nothing else, for the Python of any project.

    Raises `UsageError` if it is not installed.
    """
    found = importlib.util.find_spec("coverage")
    if found is None or found.origin is None:
        raise UsageError("`coverage` is not installed: `pip install 'rolecraft[synthesis]'`.")
    place = folder / "tools"
    ignored = shutil.ignore_patterns("__pycache__", "htmlfiles")
    shutil.copytree(Path(found.origin).parent, place / "coverage", ignore=ignored)
    for each in (folder, place, *place.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    return place


def seen(lines: Mapping[str, Any], read: Callable[[str], str]) -> tuple[SeenBy, OnImport]:
    """`Suite.seen_by` and `Suite.on_import` of what the probe has said."""
    names = [_users(name, lines["users"]) for name in lines["contexts"]]
    order: dict[str, int] = {}
    for several in names:
        for name in several:
            order.setdefault(name, len(order))
    made = _Sets(order)
    sets = [made.of(name for each in numbers for name in names[each]) for numbers in lines["sets"]]
    imported = [0 in numbers for numbers in lines["sets"]]  # the context without a name is first
    seen_by: SeenBy = {}
    on_import: OnImport = {}
    for path, by in lines["files"].items():
        counted = {int(line): at for line, at in by.items()}
        if not counted:
            continue
        found: dict[int, tuple[str, ...]] = {}
        early: list[int] = []
        for statement, is_early in statements(read(path)):
            numbers = [counted[line] for line in statement if line in counted]
            if is_early or any(imported[number] for number in numbers):
                early += statement
            if not is_early and (tests := made.of(n for at in set(numbers) for n in sets[at])):
                found.update(dict.fromkeys(statement, tests))
        seen_by[path] = dict(sorted(found.items()))
        on_import[path] = tuple(sorted(early))
    return seen_by, on_import


class _Sets:
    """Tests in their order; the same ones are one object."""

    def __init__(self, order: Mapping[str, int]) -> None:
        self._order = order
        self._known: dict[frozenset[str], tuple[str, ...]] = {}

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        key = frozenset(names)
        if key not in self._known:
            self._known[key] = tuple(sorted(key, key=self._order.__getitem__))
        return self._known[key]


def _users(context: str, users: Mapping[str, list[str]]) -> list[str]:
    """The tests of a context: its own, or those that share what was set up in it."""
    if not context.startswith("\0"):
        return [context] if context else []
    return users.get(context, [])


def statements(text: str) -> list[tuple[list[int], bool]]:
    """The statements of a module: the lines that are of each and of no other one within it, and
    whether it runs when the module is imported. Of functions and classes only their heads.
    """
    found: list[tuple[ast.stmt, bool]] = []
    owner: dict[int, int] = {}

    def visit(node: ast.AST, early: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                for line in _lines_of(child):
                    owner[line] = len(found)
                found.append((child, early))
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                visit(child, early and not is_function)
            elif isinstance(child, ast.excepthandler | ast.match_case):
                visit(child, early)

    visit(ast.parse(python_of(text)), True)
    lines: list[list[int]] = [[] for _ in found]
    for line, at in sorted(owner.items()):
        lines[at].append(line)
    return [(each, early) for each, (_, early) in zip(lines, found, strict=True) if each]


def _lines_of(node: ast.stmt) -> range:
    last = node.end_lineno or node.lineno
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return range(node.lineno, last + 1)
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    inside = node.body[0]
    below = min([inside.lineno, *(each.lineno for each in getattr(inside, "decorator_list", ()))])
    return range(first, max(below, node.lineno + 1))
