"""The values that pytest's fixtures give a test's arguments, where one expression says them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence

from rolecraft.synthesis.texts.parametrized import called
from rolecraft.synthesis.texts.slicing import bound_by, names_in


def fixture_value(name: str, modules: Sequence[ast.Module]) -> tuple[ast.expr, ast.Module] | None:
    """What the fixture of this name returns, and the module that has it.

    The test's own module stands first in `modules`, then `conftest.py` files, the nearest first.
    None where it takes arguments, does more than to return or yield one expression, or where that
    has names which its module does not define.
    """
    for module in modules:
        for each in module.body:
            if isinstance(each, ast.FunctionDef) and _is_fixture(each, name):
                value = _returned(each)
                if value is None or not _known(value, module.body):
                    return None
                return value, module
    return None


def _is_fixture(node: ast.FunctionDef, name: str) -> bool:
    """Whether this is the fixture of that name; one with parameters has several values."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        if called(call) != "fixture":
            continue
        words = {word.arg: word.value for word in call.keywords}
        said = words.get("name")
        own = said.value if isinstance(said, ast.Constant) else node.name
        return own == name and "params" not in words
    return False


def _returned(node: ast.FunctionDef) -> ast.expr | None:
    body = node.body[ast.get_docstring(node) is not None :]
    taken = node.args
    if taken.args or taken.posonlyargs or taken.kwonlyargs or not body:
        return None
    match body[0]:
        case ast.Return(value=value) | ast.Expr(value=ast.Yield(value=value)):
            return value
    return None


def _known(value: ast.expr, body: Iterable[ast.stmt]) -> bool:
    bound = {name for each in body for name in bound_by(each)}
    own = {
        name
        for each in ast.walk(value)
        if isinstance(each, ast.comprehension)
        for name in names_in(each.target)
    }
    return names_in(value) <= bound | own | set(dir(builtins))
