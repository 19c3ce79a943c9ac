"""Runs pytest and reports every test on the standard output that it was started with.

Never imported: `pytest_command` hands this text to `python -c`, so that no file of it lies in the
work folder. The report is JSON lines in the format of `pytest --report-log`; what pytest and the
tests print goes to standard error. The first line of standard input is a token that stands in each
line of the report, so that a line that a test has written is told apart.
"""

import os
import sys

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from collections.abc import Callable


def main(watch: "Callable[[Callable[..., None]], list[object]] | None" = None) -> int:
    """`watch` gets the function that writes a line, and gives further plug-ins.

    This function is on the stack of every test, so it has no token among its variables.
    """
    # Without the work folder on the path, for a module there may be called `json`.
    sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]
    # Python takes a compiled file for a source of the same length and second: an edit may be both.
    sys.dont_write_bytecode = True
    import pytest

    sys.path.insert(0, os.getcwd())  # as `python -m pytest` has it
    return int(pytest.main(sys.argv[1:], plugins=plugins(watch)))


def plugins(watch: "Callable[[Callable[..., None]], list[object]] | None") -> "list[object]":
    import json

    import pytest

    token = sys.stdin.readline().strip()
    out, process = os.dup(1), os.getpid()
    os.dup2(2, 1)

    def write(kind: str, **fields: object) -> None:
        if os.getpid() != process:  # a test that has forked comes to its end in the child too
            return
        line = {"$report_type": kind, **fields, "token": token}
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(out, data) :]

    def text_of(report: "pytest.TestReport | pytest.CollectReport") -> str:
        said = report.longrepr
        text = str(said[-1] if isinstance(said, tuple) else said or "")
        return text if len(text) <= 8000 else f"{text[:3000]}\n[...]\n{text[-5000:]}"

    class Report:
        def pytest_sessionstart(self) -> None:
            write("SessionStart", pytest_version=pytest.__version__)

        def pytest_collectreport(self, report: "pytest.CollectReport") -> None:
            if report.outcome != "passed":
                write(
                    "CollectReport",
                    nodeid=report.nodeid,
                    outcome=report.outcome,
                    longrepr=text_of(report),
                )

        def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
            if report.when != "call" and report.outcome == "passed":
                return
            about = {"wasxfail": report.wasxfail} if hasattr(report, "wasxfail") else {}
            write(
                "TestReport",
                nodeid=report.nodeid,
                when=report.when,
                outcome=report.outcome,
                duration=report.duration,
                longrepr=text_of(report),
                **about,
            )

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(self, exitstatus: int) -> None:
            write("SessionFinish", exitstatus=int(exitstatus))

    return [Report(), *(watch(write) if watch else ())]


if __name__ == "__main__":
    sys.exit(main())
