"""The parts of a test runner that is running, to be told from what they are replaced with.

Never imported: the guard (`_guard.py`) is given this text, and runs it before the code under test.
"""

from __future__ import annotations

import sys
from operator import attrgetter, is_

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from typing import Any

WATCHED = ("_pytest", "pytest", "pluggy", "unittest")
"""Packages that make up the runner."""
CORE = (
    *("_pytest.runner", "_pytest.reports", "_pytest.python", "_pytest.unittest"),
    *("_pytest.skipping", "_pytest.outcomes", "_pytest._code.code", "_pytest.assertion.util"),
    *("pluggy._callers", "pluggy._hooks", "pluggy._manager", "pluggy._result", "unittest.case"),
)
"""Modules that make a result of what a test did."""
BUILTINS = (
    *("AssertionError", "BaseException", "Exception", "SystemExit", "isinstance", "issubclass"),
    *("len", "all", "any", "sorted", "repr", "str", "bytes", "int", "float", "bool", "list"),
    *("dict", "set", "frozenset", "tuple", "getattr", "hasattr", "type", "zip", "sum", "min"),
    *("max", "abs", "enumerate", "map", "filter", "object", "callable", "iter", "next"),
)


class Runner:
    """What the runner consists of when this is made."""

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] in WATCHED]
        spaces = {name: [Space(space) for space in spaces_of(name)] for name in names}
        builtin = Space(vars(sys.modules["builtins"]), BUILTINS)
        self.all = [builtin, *(each for found in spaces.values() for each in found)]
        self.core = [builtin, *(each for name in CORE for each in spaces.get(name, ()))]
        self.classes = [
            (space, set(space)) for name in names for space in list(spaces_of(name))[1:]
        ]
        self.tracing = tracing()

    def replaced(self) -> str:
        """The name of something that is another now; what was added does not count."""
        return next((each.name_of_difference() for each in self.all if each.differs()), "")

    def differs(self, *, wholly: bool) -> str:
        """The name of something that is another now; empty if all is the same.

        Unless `wholly`, only what makes a result of a test is looked at.
        """
        for each in self.all if wholly else self.core:
            if each.differs():
                return each.name_of_difference()
        for space, names in self.classes if wholly else ():
            if len(space) > len(names):
                added = [name for name in set(space) - names if is_code(space[name])]
                if added:
                    return str(min(added))
        return "" if tracing() == self.tracing else "sys.settrace"


class Space:
    """Functions and classes of one module or class. It is looked at after every test, so the loops
    are those of C.
    """

    def __init__(self, space: Any, names: tuple[str, ...] = ()) -> None:
        self.space = space
        self.names = names or tuple(name for name, value in space.items() if is_code(value))
        self.values = [space[name] for name in self.names]
        found = [function_of(value) for value in self.values]
        self.functions = [each for each in found if type(each) is type(function_of)]
        self.codes = [each.__code__ for each in self.functions]
        self.defaults = [each.__defaults__ for each in self.functions]

    def differs(self) -> bool:
        # Identity, not equality: what is put there may say that it equals anything.
        return not (
            all(map(is_, map(self.space.get, self.names), self.values))
            and all(map(is_, map(CODE, self.functions), self.codes))
            and all(map(is_, map(DEFAULTS, self.functions), self.defaults))
        )

    def name_of_difference(self) -> str:
        for name, value in zip(self.names, self.values):  # noqa: B905 - from Python 3.10 on
            if self.space.get(name) is not value:
                return name
        return next(
            each.__name__
            for each, code, given in zip(  # noqa: B905
                self.functions, self.codes, self.defaults
            )
            if each.__code__ is not code or each.__defaults__ is not given
        )


CODE, DEFAULTS = attrgetter("__code__"), attrgetter("__defaults__")


def function_of(value: Any) -> Any:
    """The function of a method or property; others are what they are."""
    return getattr(value, "fget", None) or getattr(value, "__func__", value)


def is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, (property, staticmethod, classmethod))


def spaces_of(name: str) -> list[Any]:
    """Where the functions of a module are: its own names, and those of its classes."""
    module = sys.modules.get(name)
    if module is None:
        return []
    own = list(vars(module).values())
    classes = [value for value in own if isinstance(value, type) and value.__module__ == name]
    return [vars(module), *map(vars, dict.fromkeys(classes))]


def tracing() -> tuple[Any, ...]:
    """Who is called for each line that runs, if it is not coverage."""
    calls = (sys.gettrace(), sys.getprofile())
    return tuple(
        None if type(call).__module__.partition(".")[0] == "coverage" else call for call in calls
    )
