"""Code of a test without the names of what was changed.

    list(pkg.chunked([1, 2, 3], 2))   becomes   list(func([1, 2, 3], 2))

and what `func` stands for is said by the first sentence of its documentation, as far as it has any.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rolecraft.synthesis.texts.solution import Solution, module_names


@dataclass(frozen=True, slots=True)
class StandIn:
    """A name in the place of one that must not be said."""

    name: str
    """As it stands in the code: `func`, `.method`, `.attribute`, `Thing`."""
    kind: str
    """In words: "a function", "a method", …"""
    about: str
    """What its documentation says; empty where there is none."""


@dataclass(slots=True)
class Masking:
    """Takes names out of trees, the same way in each of them."""

    solution: Solution
    imports: Imports
    stand_ins: dict[str, StandIn] = field(default_factory=dict)
    """By the name that it stands for."""
    own: dict[str, str] = field(default_factory=dict)
    """Names of the project that the code has and no import of it says; with their real ones."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Names by which the code calls what must not be said."""

    def __call__(self, node: ast.AST) -> ast.AST | None:
        """The same without these names; None where nothing is left: an import of them."""
        made = _Masker(self).visit(copy.deepcopy(node))  # the tree is read for other tests too
        return made if isinstance(made, ast.AST) else None

    def stand_in(self, name: str, kind: str) -> str:
        """What is written instead of a name."""
        known = self.stand_ins.get(name)
        if known is not None:
            return known.name.lstrip(".")
        words = {"func": "a function", "method": "a method", "attribute": "a property"}
        about, is_class = self._about(name)
        if is_class:
            kind = "Thing"
        taken = sum(each.name.lstrip(".").startswith(kind) for each in self.stand_ins.values())
        made = kind if not taken else f"{kind}{taken + 1}"
        dot = "." if kind in ("method", "attribute") else ""
        self.stand_ins[name] = StandIn(dot + made, words.get(kind, "a class"), about)
        return made

    def _about(self, name: str) -> tuple[str, bool]:
        for each in self.solution.changed:
            if each.names and each.names[-1] == name:
                return each.about, each.is_class
        for each in self.solution.changed:
            if name in each.names:
                return each.about_owner, True
        return "", False


@dataclass(frozen=True, slots=True)
class Imports:
    """What the names of a test's file stand for."""

    modules: Mapping[str, str]
    """Modules of the project by the name that they have here: `T` is `sqlparse.tokens`."""
    own_modules: frozenset[str]
    """How the project's modules are called."""
    foreign: frozenset[str]
    """Names of other packages, whose attributes are not the project's."""


def imports_of(tree: ast.Module, code: Sequence[str]) -> Imports:
    """What a file imports, of a project with these files of `code`."""
    own = {module for path in code for module in module_names(path)}
    packages = {module.rpartition(".")[0] for module in own if "." in module}
    own |= packages | {name.partition(".")[0] for name in packages}
    modules: dict[str, str] = {}
    foreign: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    bound = each.asname or each.name.partition(".")[0]
                    if each.name in own or each.name.partition(".")[0] in own:
                        modules[bound] = each.name if each.asname else bound
                    else:
                        foreign.add(bound)
            case ast.ImportFrom(module=module, names=names, level=0):
                for each in names:
                    whole, bound = f"{module}.{each.name}", each.asname or each.name
                    if whole in own:
                        modules[bound] = whole
                    elif (module or "").partition(".")[0] not in own:
                        foreign.add(bound)
    return Imports(modules, frozenset(own), frozenset(foreign))


class _Masker(ast.NodeTransformer):
    def __init__(self, masking: Masking) -> None:
        self.masking = masking
        self.names = masking.solution.names
        own = masking.solution.package.replace("-", "_")
        self.changed = {
            name
            for path in masking.solution.files
            for name in module_names(path)
            if "." in name or name != own
        } - {own}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        func = self._callee(node.func)
        args = [self.visit(each) for each in node.args]
        words = [ast.keyword(each.arg, self.visit(each.value)) for each in node.keywords]
        return ast.Call(func, args, words)

    def _callee(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Name(id=name) if (real := self._real(name)) in self.names:
                return self._func(real)
            case ast.Attribute(value=value, attr=name) if name in self.names:
                if self._is_foreign(value):
                    return node
                if self._module(value):
                    return self._func(name)
                made = self.masking.stand_in(name, "method")
                return ast.Attribute(self.visit(value), made, ast.Load())
        made_of = self.visit(node)
        assert isinstance(made_of, ast.expr)
        return made_of

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if self._is_foreign(node.value):
            return node
        if node.attr in self.names:
            if self._module(node.value):
                return self._func(node.attr)
            name = self.masking.stand_in(node.attr, "attribute")
            return ast.Attribute(self.visit(node.value), name, node.ctx)
        if self._module(node.value) in self.changed:
            self.masking.own[node.attr] = node.attr
            return ast.Name(node.attr, node.ctx)  # `lexer.tokenize` as `tokenize`
        return ast.Attribute(self.visit(node.value), node.attr, node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        real = self._real(node.id)
        if real not in self.names or (
            isinstance(node.ctx, ast.Store) and real not in self.masking.stand_ins
        ):
            return node
        return ast.Name(self.masking.stand_in(real, "func"), node.ctx)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        names = [each for each in node.names if each.name not in self.changed]
        return ast.Import(names) if names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        names: list[ast.alias] = []
        for each in node.names:
            if each.name in self.names:
                self.masking.aliases[each.asname or each.name] = each.name
            elif node.module in self.changed:
                self.masking.own[each.asname or each.name] = each.name
            elif f"{node.module}.{each.name}" not in self.changed:
                names.append(each)
        return ast.ImportFrom(node.module, names, node.level) if names else None

    def _real(self, name: str) -> str:
        return self.masking.aliases.get(name, name)

    def _func(self, name: str) -> ast.Name:
        return ast.Name(self.masking.stand_in(name, "func"), ast.Load())

    def _module(self, node: ast.expr) -> str:
        """Which module of the project this is, as far as the test's imports tell; else empty."""
        match node:
            case ast.Name(id=name):
                return self.masking.imports.modules.get(name, "")
            case ast.Attribute(value=value, attr=name) if outer := self._module(value):
                whole = f"{outer}.{name}"
                own = self.masking.imports.own_modules
                return whole if whole in own else ""
        return ""

    def _is_foreign(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.masking.imports.foreign
