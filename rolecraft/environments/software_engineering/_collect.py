"""Says which tests pytest collects in the current folder, as one line of JSON.

Never imported: its text is handed to `python -I -c`. The first line of standard input has the
settings. All of it must run on every Python from 3.8 on: that of the project.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from typing import Any


class Collected:
    """The plug-in of pytest."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.errors: dict[str, str] = {}

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome == "failed":
            lines = str(report.longrepr).strip().splitlines()
            self.errors[report.nodeid] = lines[-1].strip() if lines else "an error"

    def pytest_collection_finish(self, session: Any) -> None:
        self.tests = [item.nodeid for item in session.items]


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    sys.path += settings["site"]
    sys.dont_write_bytecode = True
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYTHON"))]:
        del os.environ[name]

    import pytest

    here = os.getcwd()
    sys.path[:0] = [*(os.path.join(here, each) for each in settings["path"]), here]
    arguments = [*sys.argv[1:], "--collect-only"]
    if importlib.util.find_spec("xdist"):
        arguments.append("-n0")
    out = os.dup(1)
    os.dup2(2, 1)  # for what pytest and the modules print
    collected = Collected()
    pytest.main(arguments, plugins=[collected])
    with os.fdopen(out, "w") as file:
        json.dump({"tests": collected.tests, "errors": collected.errors}, file)


if __name__ == "__main__":
    main()
