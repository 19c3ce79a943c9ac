"""The sources of tests, as they were before the code under test ran.

Never imported: the guard (`_guard.py`) is given this text, and runs it before the code under test.
"""

from __future__ import annotations

import _imp
import base64
import contextlib
import importlib.machinery
import importlib.util
import inspect
import marshal
import os
import sys
import types
from pathlib import Path

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


class Held(type(Path())):  # type: ignore[misc]
    """A path whose file is read from memory."""

    source: bytes

    def read_bytes(self) -> bytes:
        return self.source


class Sources:
    """What the files at `paths` hold when this is made. Each check gives a text that says what is
    wrong with a test, empty if nothing is.
    """

    def __init__(self, paths: Iterable[str], ready: dict[str, list[str]]) -> None:
        """`ready` has what `compiled` gave for some of them, when they held the same."""
        self.sources: dict[str, bytes] = {}
        for path in paths:
            with contextlib.suppress(OSError), open(path, "rb") as file:  # pytest will miss it
                self.sources[path] = file.read()
        self.ready: dict[str, types.CodeType] = {}
        for path, (by, text) in ready.items():
            if by == compiler() and path in self.sources:
                self.ready[path] = marshal.loads(base64.b64decode(text))
                # The work folder may be another. It is what importlib does.
                _imp._fix_co_filename(self.ready[path], path)  # type: ignore[attr-defined]
        self.modules: dict[str, types.CodeType] = {}
        self.texts: dict[str, list[str]] = {}
        self.codes: dict[str, dict[str, Any]] = {}

    def hold(self) -> None:
        """Have pytest read them from memory, and keep what it compiles of the tests."""
        from _pytest.assertion import rewrite

        self.hold_tests(rewrite)
        self.hold_helpers()

    def hold_tests(self, rewrite: Any) -> None:
        compiled, cached = rewrite._rewrite_test, rewrite._read_pyc

        def _rewrite_test(fn: Any, config: Any) -> Any:
            path = str(fn)
            if path not in self.sources:
                return compiled(fn, config)
            if path in self.ready:
                result = os.stat(path), self.ready[path]
            else:
                held = Held(path)
                held.source = self.sources[path]
                result = compiled(held, config)
            self.modules[path] = result[1]
            self.codes[path] = functions_in(result[1])
            return result

        def _read_pyc(source: Any, *rest: Any, **named: Any) -> Any:
            return None if str(source) in self.sources else cached(source, *rest, **named)

        rewrite._rewrite_test, rewrite._read_pyc = _rewrite_test, _read_pyc

    def compiled(self, paths: Iterable[str], config: Any) -> dict[str, list[str]]:
        """What pytest makes of tests: the compiler, and the code, marshalled and in base64."""
        from _pytest.assertion import rewrite

        found = {}
        for path in paths:
            with contextlib.suppress(Exception):  # such as one of syntax, which its run will show
                code = rewrite._rewrite_test(Path(path), config)[1]
                found[path] = [compiler(), base64.b64encode(marshal.dumps(code)).decode()]
        return found

    def hold_helpers(self) -> None:
        """The same for modules beside the tests, which Python itself imports."""
        loader: Any = importlib.machinery.SourceFileLoader
        get_data = loader.get_data
        compiled = {importlib.util.cache_from_source(path) for path in self.sources}

        def held_data(this: Any, path: str) -> Any:
            if path in compiled:
                raise OSError("this module is read from its source")
            held = self.sources.get(str(path))
            return get_data(this, path) if held is None else held

        loader.get_data = held_data

    def other_code(self, item: Any) -> str:
        """A test's function must be the one that its file defines."""
        path = path_of(item)
        function = getattr(item, "function", None)
        if path not in self.codes or function is None:
            return ""
        name = getattr(item, "originalname", None) or item.name
        owner = getattr(item, "cls", None)
        expected = self.codes[path].get(name if owner is None else f"{owner.__qualname__}.{name}")
        if expected is None or not is_plain(expected, self.lines(path)):
            return ""
        with contextlib.suppress(ValueError):
            function = inspect.unwrap(function)
        if getattr(function, "__code__", None) is expected:
            return ""
        return f"the test {item.nodeid} is not what its file defines"

    def lines(self, path: str) -> list[str]:
        if path not in self.texts:
            self.texts[path] = self.sources[path].decode("utf-8", "replace").splitlines()
        return self.texts[path]

    def other_names(self, item: Any) -> str:
        """Nobody else may have put names into the module of a test."""
        path = path_of(item)
        if path not in self.modules or getattr(item, "module", None) is None:
            return ""
        name = foreign_name(vars(item.module), self.modules[path])
        return f"`{name}` of the tests' module was replaced" if name else ""

    def unread(self, item: Any, config: Any) -> str:
        """A test's module must have been made from the source that is held."""
        path = path_of(item)
        rewritten = getattr(config.option, "assertmode", "rewrite") == "rewrite"
        missing = path in self.sources and path not in self.codes
        if rewritten and missing and hasattr(item, "obj"):
            return f"{os.path.relpath(path)} was not read by pytest"
        return ""

    def says(self, item: Any, word: str) -> bool:
        """Whether a test's file, or a conftest file, has the word. Marks come from nowhere else."""
        files = [path_of(item), *(each for each in self.sources if each.endswith("conftest.py"))]
        return any(word.encode() in self.sources.get(each, b"") for each in files)

    def changed(self) -> Iterator[str]:
        """Those whose file is another now."""
        for path, source in self.sources.items():
            try:
                with open(path, "rb") as file:
                    same = file.read() == source
            except OSError:
                same = False
            if not same:
                yield path


def compiler() -> str:
    """Code that one Python and pytest have made is of use to the very same only."""
    import pytest

    return f"{sys.version} {importlib.util.MAGIC_NUMBER.hex()} {pytest.__version__}"


def path_of(item: Any) -> str:
    return str(getattr(item, "path", None) or getattr(item, "fspath", ""))


def functions_in(module: types.CodeType) -> dict[str, Any]:
    """Each function that a module's code defines, by its name; None for a name that comes twice."""
    found: dict[str, Any] = {}

    def walk(code: types.CodeType, prefix: str) -> None:
        for value in code.co_consts:
            if isinstance(value, types.CodeType) and not value.co_name.startswith("<"):
                name = prefix + value.co_name
                found[name] = None if name in found else value
                walk(value, name + ".")

    walk(module, "")
    return found


def is_plain(code: types.CodeType, lines: list[str]) -> bool:
    """Whether a function has no decorators but pytest's marks, so that it stays what it is."""
    for number in range(code.co_firstlineno - 1, len(lines)):
        text = lines[number].strip()
        if text.startswith(("def ", "async def ")):
            return True
        if text.startswith("@") and not text.startswith("@pytest.mark."):
            return False
    return False


def foreign_name(space: dict[str, Any], code: Any) -> str:
    """A name in a test module that its own code did not put there, and that changes what tests do.

    `raise AssertionError` looks the name up in the module first, and so do calls of `len`.
    """
    import builtins

    own = set(code.co_names)
    if "pytestmark" in space and "pytestmark" not in own and ("*",) not in code.co_consts:
        return "pytestmark"
    watched = {"AssertionError"} if ("*",) in code.co_consts else set(vars(builtins))
    for name in watched & set(space) - own:
        if not name.startswith("__"):
            return str(name)
    if space.get("__builtins__", builtins) not in (builtins, vars(builtins)):
        return "__builtins__"
    right = {"pytest": "pytest", "unittest": "unittest", "@py_builtins": "builtins"}
    right["@pytest_ar"] = "_pytest.assertion.rewrite"
    for name, module in right.items():
        if name in space and space[name] is not sys.modules.get(module):
            return name
    return ""
