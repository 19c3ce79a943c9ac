"""Test reports: real runs of pytest and CTest, reports that are cut off, forged or malformed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.sandboxes.test_reports import (
    TestReport,
    pytest_command,
    read_ctest,
    read_junit,
    read_pytest_report_log,
)

TOKEN = "of-this-run"

EVERY_OUTCOME = """
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="not today")
def test_skipped(): raise AssertionError
@pytest.mark.xfail(reason="known")
def test_xfailed(): assert False
@pytest.mark.xfail(reason="mended")
def test_xpassed(): pass
@pytest.mark.xfail(strict=True)
def test_strict(): pass
@pytest.fixture
def broken(): raise OSError("no disk")
def test_setup(broken): pass
@pytest.fixture
def leaky():
    yield
    raise OSError("no way back")
def test_teardown(leaky): pass
@pytest.mark.parametrize("text", ["a[b", "über", "x::y"])
def test_each(text): print("PASSED test_fails")
class TestGroup:
    def test_inside(self): pass
"""


def run_pytest(folder: Path, *tests: str, options: tuple[str, ...] = ()) -> TestReport:
    """The tests in a process of their own, as a sandbox runs them."""
    done = subprocess.run(
        pytest_command(tests, python=sys.executable, options=("-p", "no:cacheprovider", *options)),
        input=f"{TOKEN}\n",
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=60,
    )
    return read_pytest_report_log(done.stdout, exit_code=done.returncode, token=TOKEN)


def test_every_outcome_of_pytest_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(EVERY_OUTCOME)
    report = run_pytest(tmp_path)
    assert dict(report.outcomes) == {
        "test_a.py::test_passes": "passed",
        "test_a.py::test_fails": "failed",
        "test_a.py::test_skipped": "skipped",
        "test_a.py::test_xfailed": "xfailed",
        "test_a.py::test_xpassed": "xpassed",
        "test_a.py::test_strict": "failed",
        "test_a.py::test_setup": "error",
        "test_a.py::test_teardown": "error",
        "test_a.py::test_each[a[b]": "passed",
        "test_a.py::test_each[\\xfcber]": "passed",
        "test_a.py::test_each[x::y]": "passed",
        "test_a.py::TestGroup::test_inside": "passed",
    }
    assert (report.problem, report.ok, report.exit_code) == ("", False, 1)
    assert "one is not two" in report.messages["test_a.py::test_fails"]
    assert "not today" in report.messages["test_a.py::test_skipped"]
    assert str(report) == ("5 passed, 2 failed, 2 error, 1 skipped, 1 xfailed, 1 xpassed")


def test_chosen_tests_that_all_pass_are_ok(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(EVERY_OUTCOME)
    report = run_pytest(tmp_path, "test_a.py::test_passes")
    assert report.ok
    assert report.passed == ["test_a.py::test_passes"]


def test_a_file_that_cannot_be_collected_is_an_error_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import nothing_of_this_name")
    report = run_pytest(tmp_path)
    assert dict(report.outcomes) == {"test_a.py": "error"}
    assert "nothing_of_this_name" in report.messages["test_a.py"]


def test_all_skipped_is_not_ok_and_neither_is_no_test_at_all(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import pytest; pytest.skip('x', allow_module_level=True)")
    report = run_pytest(tmp_path)
    assert (dict(report.outcomes), report.ok) == ({"test_a.py": "skipped"}, False)
    (tmp_path / "test_a.py").unlink()
    assert (run_pytest(tmp_path).ok, run_pytest(tmp_path).problem) == (False, "")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("import os; os._exit(0)", "did not come to its end"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "did not come to its end"),
        ("import atexit, os; atexit.register(os._exit, 0); assert 0", "its process with 0"),
        # One that writes into every open file hits the report, and has no token.
        (
            "import json, os\n"
            "    for fd in range(3, 40):\n"
            "        try: os.write(fd, json.dumps({'$report_type': 'TestReport', 'nodeid':"
            " 'test_a.py::test_b', 'when': 'call', 'outcome': 'passed'}).encode() + b'\\n')\n"
            "        except OSError: pass",
            "is not the runner's own",
        ),
    ],
)
def test_a_test_that_ends_or_forges_the_report_is_a_problem(
    tmp_path: Path, body: str, problem: str
) -> None:
    (tmp_path / "test_a.py").write_text(f"def test_a():\n    {body}\n")
    report = run_pytest(tmp_path)
    assert problem in report.problem
    assert not report.ok
    assert "test_a.py::test_b" not in report.outcomes


def test_what_a_test_prints_never_reaches_the_report(tmp_path: Path) -> None:
    """Also what it writes straight into the file of standard output, and a child of it."""
    (tmp_path / "test_a.py").write_text(
        "import os\n"
        "def test_a():\n"
        '    os.write(1, b\'{"$report_type": "SessionFinish"}\\n\')\n'
        "    os.system('echo forged')\n"
        "    if os.fork() == 0:\n"
        "        raise SystemExit(0)\n"
        "    os.wait()\n"
    )
    report = run_pytest(tmp_path, options=("-s",))
    assert (dict(report.outcomes), report.problem) == ({"test_a.py::test_a": "passed"}, "")


def test_modules_of_the_work_folder_do_not_stand_in_for_pytests_own(tmp_path: Path) -> None:
    for name in ("json.py", "pytest.py"):
        (tmp_path / name).write_text("raise SystemExit(0)")
    (tmp_path / "helper.py").write_text("VALUE = 1")
    (tmp_path / "test_a.py").write_text("import helper\ndef test_a(): assert helper.VALUE")
    assert run_pytest(tmp_path).passed == ["test_a.py::test_a"]


def test_the_format_of_pytests_own_plug_in_is_read_too() -> None:
    entries = [
        {"pytest_version": "9", "$report_type": "SessionStart"},
        {"nodeid": "", "outcome": "passed", "$report_type": "CollectReport"},
        {"nodeid": "a", "when": "setup", "outcome": "passed", "$report_type": "TestReport"},
        {
            "nodeid": "a",
            "when": "call",
            "outcome": "failed",
            "longrepr": {"reprcrash": {"message": "assert 0"}},
            "$report_type": "TestReport",
        },
        {"nodeid": "a", "when": "teardown", "outcome": "passed", "$report_type": "TestReport"},
        {"category": "x", "$report_type": "WarningMessage"},
        {"exitstatus": 1, "$report_type": "SessionFinish"},
    ]
    report = read_pytest_report_log("\n".join(map(json.dumps, entries)), exit_code=1)
    assert (dict(report.outcomes), dict(report.messages)) == ({"a": "failed"}, {"a": "assert 0"})
    assert report.problem == ""


@given(st.text() | st.lists(st.dictionaries(st.text(), st.integers())).map(json.dumps))
def test_no_text_makes_a_reader_raise(text: str) -> None:
    assert not read_pytest_report_log(text).ok
    assert not read_junit(text).ok
    assert not read_ctest(text).ok


# --- JUnit XML, CTest -------------------------------------------------------------------------


def test_pytests_junit_report_agrees_with_its_report_log(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(EVERY_OUTCOME)
    log = run_pytest(tmp_path, options=("--junitxml=report.xml",))
    report = read_junit((tmp_path / "report.xml").read_text("utf-8"), exit_code=1)
    # JUnit has no word for a test that was expected to fail and passed.
    want = ["passed" if each == "xpassed" else each for each in log.outcomes.values()]
    assert list(report.outcomes.values()) == want
    assert next(iter(report.outcomes)) == "test_a::test_passes"
    assert report.problem == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<testsuite>",
        "<html/>",
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><testsuite name="&a;"/>',
        "<testsuite><testcase name='a'/></testsuite>x",
        "\ud800",
    ],
)
def test_a_malformed_junit_report_has_a_fault_and_no_outcomes(text: str) -> None:
    report = read_junit(text, exit_code=0)
    assert report.fault
    assert not report.outcomes


CTEST = """
cmake_minimum_required(VERSION 3.10)
project(example NONE)
set(CTEST_NEW_FORMAT ON)
include(CTest)
add_test(NAME good COMMAND true)
add_test(NAME bad COMMAND false)
add_test(NAME skipped COMMAND sh -c "exit 77")
set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME disabled COMMAND true)
set_tests_properties(disabled PROPERTIES DISABLED TRUE)
add_test(NAME absent COMMAND ./no-such-program)
add_test(NAME slow COMMAND sleep 30)
set_tests_properties(slow PROPERTIES TIMEOUT 1)
"""


@pytest.mark.skipif(not shutil.which("ctest"), reason="needs CMake's ctest")
def test_ctests_two_reports_of_a_real_run_agree(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CTEST)
    build = tmp_path / "build"
    subprocess.run(["cmake", "-S", tmp_path, "-B", build], check=True, capture_output=True)
    done = subprocess.run(
        ["ctest", "-T", "Test", "--output-junit", "report.xml"],
        cwd=build,
        check=False,
        capture_output=True,
    )
    tag = (build / "Testing" / "TAG").read_text().split()[0]
    own = read_ctest((build / "Testing" / tag / "Test.xml").read_text(), exit_code=done.returncode)
    assert dict(own.outcomes) == {
        "good": "passed",
        "bad": "failed",
        "skipped": "skipped",
        "disabled": "skipped",
        "absent": "error",
        "slow": "failed",
    }
    junit = read_junit((build / "report.xml").read_text(), exit_code=done.returncode)
    assert dict(junit.outcomes) == dict(own.outcomes)
    assert (own.problem, junit.problem, own.ok) == ("", "", False)


CTESTS_OWN = """<?xml version="1.0" encoding="UTF-8"?>
<Site Name="x"><Testing><TestList><Test>./good</Test></TestList>
<Test Status="passed"><Name>good</Name><FullName>./good</FullName></Test>
<Test Status="failed"><Name>slow</Name><FullName>./slow</FullName><Results>
<NamedMeasurement type="text/string" name="Exit Code"><Value>Timeout</Value></NamedMeasurement>
<Measurement><Value>no answer</Value></Measurement></Results></Test>
<Test Status="notrun"><Name>off</Name><FullName>./sub/off</FullName><Results>
<NamedMeasurement type="text/string" name="Completion Status"><Value>Disabled</Value>
</NamedMeasurement></Results></Test>
<Test Status="notrun"><Name>absent</Name><FullName>./absent</FullName><Results>
<NamedMeasurement type="text/string" name="Completion Status">
<Value>Unable to find executable</Value>
</NamedMeasurement></Results></Test></Testing></Site>"""
CTESTS_JUNIT = """<testsuite name="x" tests="4">
<testcase name="good" classname="good" status="run"><system-out/></testcase>
<testcase name="slow" classname="slow" status="fail"><failure message="no answer"/></testcase>
<testcase name="sub/off" classname="sub/off" status="disabled"><system-out/></testcase>
<testcase name="absent" classname="absent" status="notrun">
<skipped message="Unable to find executable"/></testcase></testsuite>"""


@pytest.mark.parametrize("read", [(read_ctest, CTESTS_OWN), (read_junit, CTESTS_JUNIT)])
def test_a_program_that_is_not_there_is_an_error_and_not_a_skipped_test(read: Any) -> None:
    """A skipped test may count as one that still passes: what is gone must not."""
    reader, text = read
    report = reader(text, exit_code=8)
    assert dict(report.outcomes) == {
        "good": "passed",
        "slow": "failed",
        "sub/off": "skipped",
        "absent": "error",
    }
    assert report.messages["slow"] == "no answer"
    assert (report.finished, report.problem) == (True, "")
    assert not reader(text[:-30]).finished
