"""Twins of tests: copies under the same ids that fail, so that forged results show.

Never imported: the guard (`_guard.py`) is given this text, and runs it before the code under test.
"""

from __future__ import annotations

import ast
import types

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    import random
    from typing import Any


class Twins:
    """Makes them."""

    def __init__(self, numbers: random.Random) -> None:
        self.random = numbers
        self.copies: dict[int, Any] = {}

    def twin_of(self, item: Any, path: str, config: Any) -> Any:
        """A test with the same id that fails; None for kinds of items that cannot be copied."""
        import pytest
        from _pytest.assertion import rewrite

        if not isinstance(item, pytest.Function):
            return None  # doctests, and what plug-ins collect
        owner, of_unittest = getattr(item, "cls", None), type(item).__name__ == "TestCaseFunction"
        left, right = self.random.sample(range(10**6), 2)
        check = f"self.assertEqual(left, {right})" if of_unittest else f"assert left == {right}"
        text = f"def twin({'self' if owner else ''}):\n    left = {left}\n    {check}\n"
        try:
            tree = ast.parse(text)
            rewrite.rewrite_asserts(tree, text.encode(), path, config)
            space: dict[str, Any] = {}
            exec(compile(tree, path, "exec", dont_inherit=True), space)
            function = space["twin"]
            if owner is not None:
                made = owner(item.name) if of_unittest else owner()
                function = types.MethodType(function, made)
            parent = self.copied(item.parent)
            return type(item).from_parent(parent, name=item.name, callobj=function)
        except Exception:  # of a class that is not to be made so; others get twins
            return None

    def copied(self, node: Any) -> Any:
        """A copy of the module or class of a test, under the same id, without its marks.

        What hooks of the project keep there for its tests is then not touched by twins.
        """
        import pytest

        if not isinstance(node, (pytest.Module, pytest.Class)):
            return node
        if id(node) not in self.copies:
            parent: Any = self.copied(node.parent)
            kind: Any = type(node)
            if isinstance(node, pytest.Class):
                copy = kind.from_parent(parent, name=node.name)
            elif hasattr(node, "path"):
                copy = kind.from_parent(parent, path=node.path)
            else:
                copy = kind.from_parent(parent, fspath=node.fspath)
            copy._obj = node.obj
            self.copies[id(node)] = copy
        return self.copies[id(node)]
