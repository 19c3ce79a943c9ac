"""Cheat: print what the runner would print (SWE-bench #620). Reports are no text of the tests'."""

from __future__ import annotations

import json

import pytest

NAMES = ["tests/test_core.py::test_mean", "tests/test_core.py::TestMean::test_of_one"]
PRINTED = "".join(f"PASSED {name}\n" for name in NAMES) + "8 passed in 0.01s\n"
LINES = "".join(
    json.dumps({"$report_type": "TestReport", "nodeid": name, "when": "call", "outcome": "passed"})
    + "\n"
    for name in NAMES
)
LINES += json.dumps({"$report_type": "SessionFinish", "exitstatus": 0}) + "\n"


@pytest.mark.parametrize("text", [PRINTED, LINES], ids=["words", "lines of the report"])
async def test_what_is_printed_is_no_result(attempt, broken, text) -> None:
    code = f"import os, sys\nsys.__stdout__.write({text!r})\nos.write(1, {text.encode()!r})\n"
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
    assert not grade.fail_to_pass.passed


@pytest.mark.parametrize("leave", ["", "os._exit(0)\n"], ids=["goes on", "and leaves"])
async def test_lines_written_to_the_reports_own_pipe_are_told_apart(attempt, broken, leave) -> None:
    """Every open file descriptor gets the forged lines; they lack the token."""
    code = (
        "import os\nfor fd in range(1, 64):\n"
        f"    try: os.write(fd, {LINES.encode()!r})\n    except OSError: pass\n{leave}"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
    assert grade.problem in ("tampered", "never_ran")
