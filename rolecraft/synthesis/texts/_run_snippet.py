"""Runs the code of an issue's text as a test, and tells what came of it.

Never imported: its text, with a function `test_said` behind it, is put beside the tests of a
project (see `proof.py`). All of it must run on every Python from 3.8 on: that of the project.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import importlib
import inspect
import json
import re
import types

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from typing import Any

MOST = 2000
"""Characters of an exception's text."""
MOST_SHOWN = 1500
"""Characters of a value."""
RECORD = "_rolecraft_record"


class Snippet:
    """Code with stand-ins for names, in which they are the names again."""

    def __init__(self, order: dict[str, Any], request: Any) -> None:
        self.order, self.request = order, request
        self.names: dict[str, str] = order["names"]
        self.space: dict[str, Any] = {"__name__": __name__, "__package__": __package__}
        self.printed = {"out": "", "err": ""}
        self.missing: list[str] = []
        self.looked: list[dict[str, Any]] = []

    def run(self) -> dict[str, Any]:
        tree = self.named(ast.parse(self.order["code"]))
        self.provide(tree)
        self.space[RECORD] = self.record
        if self.order["looks"]:
            looking(tree)
        facts: dict[str, Any] = {"raised": [], "message": "", "as_expected": False}
        try:
            for each in tree.body:
                self.provide_printed()
                self.execute(each)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # pytest's own and SystemExit are none of Exception
            facts["raised"] = [kind.__name__ for kind in type(error).__mro__]
            facts["message"] = str(error)[:MOST]
            facts["as_expected"] = self.is_expected(error)
        return {**facts, "looked": self.looked, "missing": self.missing}

    def named(self, tree: Any) -> Any:
        """With the names that the stand-ins are for."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = self.names.get(node.id, node.id)
            elif isinstance(node, ast.Attribute):
                node.attr = self.names.get(node.attr, node.attr)
        return tree

    def provide(self, tree: ast.Module) -> None:
        """What the text says in words only: what was changed, and what the tests set up."""
        imported: dict[str, Any] = {}
        for line in self.order["imports"]:
            try:
                exec(line, {"__name__": __name__, "__package__": __package__}, imported)
            except Exception:  # of what is wanted, something else tells that it is missing
                continue
        used = [*ast.walk(tree)]
        for text in (self.order["expected"], *self.order["got"]):
            try:
                used += ast.walk(self.named(ast.parse(text)))
            except (SyntaxError, ValueError):
                continue
        for name in {node.id for node in used if isinstance(node, ast.Name)}:
            if name in self.order["given"]:
                self.space[name] = ast.literal_eval(self.order["given"][name])
            elif name in self.order["fixtures"]:
                try:
                    self.space[name] = self.request.getfixturevalue(name)
                except Exception:
                    self.missing.append(name)
            elif name in self.order["hidden"] or name in self.names.values():
                value = self.found(name, imported)
                if value is not None:
                    self.space[name] = value

    def found(self, name: str, imported: dict[str, Any]) -> Any:
        if name in imported:
            return None if isinstance(imported[name], types.ModuleType) else imported[name]
        for place in self.order["modules"]:
            try:
                module = importlib.import_module(place)
            except Exception:  # of the ways to write it, not all are one
                continue
            if name in vars(module):
                return vars(module)[name]
        return None

    def provide_printed(self) -> None:
        if not self.order["printed"]:
            return
        said = self.request.getfixturevalue("capsys").readouterr()
        self.printed["out"] += said.out
        self.printed["err"] += said.err
        for name, stream in self.order["printed"].items():
            self.space[name] = self.printed[stream]

    def execute(self, statement: ast.stmt) -> None:
        module = ast.fix_missing_locations(ast.Module([statement], []))
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        made = eval(compile(module, "<text>", "exec", flags, True), self.space)
        if inspect.iscoroutine(made):
            asyncio.new_event_loop().run_until_complete(made)

    def value(self, text: str) -> Any:
        tree = ast.fix_missing_locations(self.named(ast.parse(text, mode="eval")))
        return eval(compile(tree, "<text>", "eval", 0, True), self.space)

    def record(self, value: Any) -> None:
        """What is looked at, each time."""
        expected = self.order["expected"]
        here: dict[str, Any] = {"truth": is_true(value), "value": digest(value), "expected": ""}
        try:
            here["expected"] = digest(self.value(expected)) if expected else ""
        except Exception:  # what is no code is compared as it is written
            here["expected"] = expected
        here["equal"] = bool(expected) and (
            self.same(value, expected) or self.looks_the_same(value, here)
        )
        here["got"] = [self.same(value, text) for text in self.order["got"]]
        here["differs"] = differs(value, self.order["difference"])
        here["shown"] = shown(value)
        self.looked.append(here)

    def looks_the_same(self, value: Any, here: dict[str, Any]) -> bool:
        """Whether it is an object that compares by identity, and is shown as the one expected."""
        told = here["value"] == here["expected"] != ""
        return told and bare(object.__repr__(value)) != bare(repr(value))

    def same(self, value: Any, text: str) -> bool:
        try:
            if is_true(value == self.value(text)):
                return True
        except Exception:
            pass
        return bare(repr(value)) == text or (
            text.endswith(" …") and bare(repr(value)).startswith(text[:-2])
        )

    def is_expected(self, error: BaseException) -> bool:
        if not self.order["expected"]:
            return False
        try:
            return isinstance(error, self.value(self.order["expected"]))
        except Exception:
            return False


def looking(tree: ast.Module) -> None:
    """Record what the last expression gives; in a loop, each time."""
    body: list[ast.stmt] = tree.body
    while body and isinstance(body[-1], (ast.For, ast.With, ast.AsyncWith, ast.AsyncFor)):
        body = body[-1].body
    if body and isinstance(body[-1], ast.Expr):
        record = ast.Name(RECORD, ast.Load())
        body[-1] = ast.Expr(ast.Call(record, [body[-1].value], []))


def differs(value: Any, said: list[str]) -> bool:
    """Whether `value` differs at this index by this item."""
    if not said:
        return False
    try:
        return bare(repr(value[int(said[0])])) == said[1]
    except Exception:
        return False


def is_true(value: Any) -> bool:
    try:
        return bool(value)
    except Exception:  # an array, say
        return False


def bare(text: str) -> str:
    """Without what is another in each process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text.strip())


def shown(value: Any) -> str:
    """A value as code, where it is a literal of no great length."""
    try:
        text = repr(value)
        return text if len(text) <= MOST_SHOWN and ast.literal_eval(text) == value else ""
    except Exception:
        return ""


def digest(value: Any) -> str:
    try:
        return hashlib.sha256(bare(repr(value)).encode("utf-8", "replace")).hexdigest()[:16]
    except Exception:
        return ""


def tell(order: dict[str, Any], request: Any) -> None:
    said = json.dumps(Snippet(order, request).run())
    raise AssertionError(order["mark"] + said)
