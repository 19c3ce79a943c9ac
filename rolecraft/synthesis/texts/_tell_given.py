"""Tells what a test is given for its arguments, in the place of running it.

Never imported: its text, with `ORDER` and an empty test behind it, is put beside the tests of a
project (see `proof.py`). All of it must run on every Python from 3.8 on: that of the project.
"""

from __future__ import annotations

import ast
import json

import pytest

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from typing import Any

ORDER: dict[str, Any] = {}
MOST = 3000
"""Characters of a value as it is written, and of all together: a report is cut at 5000."""


class Telling:
    """A plug-in, so that it does not matter which test comes first."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> None:
        if pyfuncitem.nodeid == ORDER["test"]:
            given = {name: pyfuncitem.funcargs.get(name) for name in ORDER["names"]}
            raise AssertionError(ORDER["mark"] + json.dumps(written(given)))


def written(given: dict[str, Any]) -> dict[str, str]:
    """Those values that a literal says, by name."""
    found: dict[str, str] = {}
    for name, value in given.items():
        try:
            text = repr(value)
            said = len(text) <= MOST and bool(ast.literal_eval(text) == value)
        except Exception:  # of what no literal says, or of a comparison of its own
            continue
        if said and len(json.dumps({**found, name: text})) <= MOST:
            found[name] = text
    return found


def pytest_generate_tests(metafunc: Any) -> None:
    """Where pytest gives a file of tests its plug-ins for the first time."""
    metafunc.config.pluginmanager.register(Telling())
