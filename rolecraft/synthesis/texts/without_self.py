"""A method of a class of tests as a function: `self.value` is `value`."""

from __future__ import annotations

import ast
import copy

from rolecraft.synthesis.texts.parametrized import FunctionNode

_OWN = ("self", "cls")


class _Unselfed(ast.NodeTransformer):
    """But for a class or a method within, whose `self` is another."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if takes_own(node) else self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node if takes_own(node) else self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in _OWN:
            made = ast.Name(node.attr, node.ctx)
            made.from_self = True  # type: ignore[attr-defined]
            return ast.copy_location(made, node)
        return self.generic_visit(node)


def without_self(node: FunctionNode) -> FunctionNode:
    made = copy.deepcopy(node)
    _Unselfed().generic_visit(made)
    made.args.args = [arg for arg in made.args.args if arg.arg not in _OWN]
    return made


def takes_own(node: FunctionNode) -> bool:
    return any(arg.arg in _OWN for arg in node.args.args)


def needs_self(node: FunctionNode) -> bool:
    """Whether a method, as `without_self` made it, still says `self`, or changes it."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            changed = of_itself(each) and not isinstance(each.ctx, ast.Load)
            if changed or each.id in _OWN:
                return True
    return False


def of_itself(node: ast.Name) -> bool:
    """Whether this was an attribute of the test itself."""
    return getattr(node, "from_self", False)


def of_self(node: FunctionNode) -> set[str]:
    """The attributes of the test itself that are used."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and of_itself(each)}
