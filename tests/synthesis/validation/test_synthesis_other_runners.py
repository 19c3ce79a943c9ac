"""Runners that leave a report: each run in a sandbox of its own, and the verdicts are the same."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Bubblewrap
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.validation.checking import check
from rolecraft.synthesis.verdicts import Verdict

SCRIPT = '''"""Runs three checks of `sums.txt` and writes what came of them."""
import os, pathlib, sys, time

first, second = map(int, pathlib.Path("sums.txt").read_text().split())
if first < 0:
    os.kill(os.getpid(), 9)
if first == 50:
    time.sleep(9999)
if first == 60:
    sys.exit("cannot be built")
checks = {"first": first == 1, "second": second == 2, "sum": first + second == 3, "true": True}
if first >= 70:
    del checks["second"]
if first == 70:
    del checks["true"]
xml = "".join(
    f"<testcase name='{name}'>{'' if ok else '<failure message=&quot;no&quot;/>'}</testcase>"
    for name, ok in checks.items()
).replace("&quot;", '"')
pathlib.Path("out").mkdir()
pathlib.Path("out/report.xml").write_text(f"<testsuite>{xml}</testsuite>")
sys.exit(0 if all(checks.values()) else 1)
'''
XML = '''"""The same checks, as CTest's own `Test.xml`."""
import pathlib, sys

first, second = map(int, pathlib.Path("sums.txt").read_text().split())
checks = {"first": first == 1, "second": second == 2, "sum": first + second == 3, "true": True}
tests = "".join(
    f"<Test Status='{'passed' if ok else 'failed'}'><Name>{name}</Name></Test>"
    for name, ok in checks.items()
)
pathlib.Path("out").mkdir()
pathlib.Path("out/report.xml").write_text(f"<Site><Testing>{tests}</Testing></Site>")
sys.exit(0 if all(checks.values()) else 8)
'''


@pytest.fixture
def sums(small: Any) -> Any:
    small.code = "sums.txt"
    small.write({"sums.txt": "1 2\n", "check.py": SCRIPT, "xml.py": XML})
    small.project |= {
        "runner": "junit",
        "test_command": ("python3", "check.py"),
        "report": "out/report.xml",
        "tests": ("check.py", "xml.py"),
    }
    small.tests = ("first", "second", "sum", "true")
    return small


PATIENT = 60.0
"""Seconds: here a limit is wall time, and a busy machine takes some to start a Python."""


async def test_each_end_of_a_command_is_a_status(sums: Any) -> None:
    ends = {
        "1 3": "valid",
        "01 2": "no_test_fails",
        "7 8": "too_many_fail",
        "-1 2": "crashed",
        "60 2": "does_not_load",
        "70 2": "no_test_passes",
        "80 2": "valid",
    }
    found = await sums.verdicts(
        *(sums.candidate("1 2", new) for new in ends), cap=0.5, time_limit=PATIENT, workers=2
    )
    assert [each.status for each in found] == list(ends.values())
    assert found[0].fail_to_pass == ("second", "sum")
    assert found[-1].fail_to_pass == ("first", "sum")
    assert found[-1].lost == ("second",)


async def test_a_command_that_does_not_end_is_a_timeout(sums: Any) -> None:
    (verdict,) = await sums.verdicts(sums.candidate("1 2", "50 2"), time_limit=1.0)
    assert verdict.status == "timeout"


async def test_without_a_sandbox_no_candidate_gets_a_verdict(sums: Any) -> None:
    """A full disk, say: it once was a `crashed` for each of them, for good."""

    class Refuses(Bubblewrap):
        async def create(self, spec: Any = None) -> Any:
            raise SandboxError("There is none.")

    with pytest.raises(SandboxError, match="There is none"):
        await sums.verdicts(sums.candidate("1 2", "1 3"), provider=Refuses())
    assert sums.folder.verdicts.read_text() == ""


async def test_ctests_own_report_is_read_as_well(sums: Any) -> None:
    sums.project |= {"runner": "ctest", "test_command": ("python3", "xml.py")}
    bug = sums.candidate("1 2", "1 3")
    (verdict,) = await sums.verdicts(bug, time_limit=PATIENT)
    assert verdict.fail_to_pass == ("second", "sum")
    (found,) = [each async for each in check(sums.plan(), [(bug, verdict)], again=1)]
    assert found.sound, found.problems


CMAKE = """cmake_minimum_required(VERSION 3.21)
project(areas CXX)
enable_testing()
add_executable(square tests/square.cpp)
add_executable(round tests/round.cpp)
add_test(NAME square COMMAND square)
add_test(NAME round COMMAND round)
"""


@pytest.mark.slow
async def test_a_repository_in_c_plus_plus(small: Any, needs_program: Any) -> None:
    needs_program("cmake", package="cmake")
    needs_program("g++", package="g++")
    small.code = "src/areas.hpp"
    test = '#include "../src/areas.hpp"\nint main() {{ return {} == {} ? 0 : 1; }}\n'
    small.write(
        {
            "CMakeLists.txt": CMAKE,
            "src/areas.hpp": "inline int square(int side) { return side * side; }\n"
            "inline int half(int side) { return side / 2; }\n",
            "tests/square.cpp": test.format("square(3)", 9),
            "tests/round.cpp": test.format("half(3)", 1),
        }
    )
    build = "cmake -S . -B build && cmake --build build && ctest --test-dir build"
    small.project |= {
        "runner": "junit",
        "test_command": ("sh", "-c", f"{build} --output-junit report.xml"),
        "report": "build/report.xml",
    }
    small.tests = ("square", "round")
    bugs = [
        small.candidate("side * side", "side + side"),
        small.candidate("side / 2", "side * 2 / 4"),
        small.candidate("return side / 2", "return side / "),
    ]
    found = await small.verdicts(*bugs, time_limit=PATIENT)
    assert [each.status for each in found] == ["valid", "no_test_fails", "does_not_load"]
    assert found[0].fail_to_pass == ("square",)
    running = check(small.plan(), [(bugs[0], found[0])], again=1, cheat=1)
    (proved,) = [each async for each in running]
    assert proved.sound, proved.problems
    assert (proved.tried, proved.cheats) == (4, ()), "three ends before `main`, and other tests"


def test_where_no_cheat_is_known_it_is_said_that_none_was_tried(sums: Any) -> None:
    """It once said `0 cheats taken for a solution`, after it had tried three of pytest."""
    sums.plan()
    bug = sums.candidate("1 2", "1 3")
    with Ledger(sums.folder.candidates, Candidate, key=lambda each: each.id) as candidates:
        candidates.append(bug)
    verdict = Verdict(candidate=bug.id, status="valid", fail_to_pass=("second", "sum"))
    with Ledger(sums.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(verdict)
    done = CliRunner().invoke(app, ["synth", "check", str(sums.folder.path), "--again", "1"])
    assert done.exit_code == 0, done.output
    assert "cheats not tried." in done.output
    assert "Cheats were not tried on 1 task" in done.output
    assert "taken for a solution" not in done.output
