"""`RunTests` and the runners: the runner's own report, whatever a test prints or does."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator

import pytest

from rolecraft import Role, ScriptedModel
from rolecraft.actions.codeact import RunTests
from rolecraft.errors import ToolError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.sandboxes import LocalProcess, SandboxSpec
from rolecraft.sandboxes.live import LiveSandbox
from rolecraft.sandboxes.test_runners import CTest, JUnit, Pytest

PYTEST = Pytest(python=sys.executable, options=("-p", "no:cacheprovider"))
TESTS = """
import pytest

def test_good(): pass
def test_bad(): assert [1] == [2]
@pytest.mark.skip(reason="later")
def test_later(): pass
@pytest.fixture
def broken(): raise OSError("no disk")
def test_broken(broken): pass
"""


@pytest.fixture
async def repository() -> AsyncIterator[LiveSandbox]:
    spec = SandboxSpec(files={"tests/test_a.py": TESTS, "empty/readme.txt": ""})
    async with await LocalProcess().create(spec) as made:
        yield made


async def test_the_four_lists_are_typed_and_the_failures_are_told(repository: LiveSandbox) -> None:
    result = await RunTests(sandbox=repository, runner=PYTEST).run()
    report = result.report
    assert report.passed == ["tests/test_a.py::test_good"]
    assert report.failed == ["tests/test_a.py::test_bad"]
    assert report.errors == ["tests/test_a.py::test_broken"]
    assert report.skipped == ["tests/test_a.py::test_later"]
    assert result.text.splitlines()[:3] == [
        "1 passed, 1 failed, 1 error, 1 skipped",
        "failed: tests/test_a.py::test_bad",
        "error: tests/test_a.py::test_broken",
    ]
    assert "assert [1] == [2]" in result.text  # what pytest printed follows


async def test_chosen_tests_alone_are_run_and_success_is_short(repository: LiveSandbox) -> None:
    tool = RunTests(sandbox=repository, runner=PYTEST)
    assert (await tool.run(tests=["tests/test_a.py::test_good"])).text == "1 passed"
    with pytest.raises(ToolError, match="not options"):
        await tool.run(tests=["--collect-only"])


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (["tests/test_a.py::test_none"], "no tests; the exit code is 4"),
        (["empty"], "No test was found"),
    ],
)
async def test_no_test_is_no_success(repository: LiveSandbox, tests: list[str], said: str) -> None:
    result = await RunTests(sandbox=repository, runner=PYTEST).run(tests=tests)
    assert not result.report.ok
    assert result.text.startswith(said)


@pytest.mark.slow  # it waits until pytest has begun, on a busy machine
async def test_tests_that_hang_are_stopped_and_told(repository: LiveSandbox) -> None:
    await repository.write("tests/test_b.py", "import time\ndef test_slow(): time.sleep(600)\n")
    tool = RunTests(sandbox=repository, runner=PYTEST, seconds=30)
    result = await tool.run()
    report = result.report
    assert report.passed == ["tests/test_a.py::test_good"]
    assert report.problem == "the runner did not come to its end"
    assert result.text.endswith("[Stopped after 30 seconds: out of time.]")


async def test_an_interpreter_without_pytest_is_a_problem_that_shows(
    repository: LiveSandbox,
) -> None:
    tool = RunTests(sandbox=repository, runner=Pytest(python="sh"))
    result = await tool.run()
    assert "did not come to its end" in result.text
    assert not result.report.ok


async def test_a_sandbox_without_pytest_is_said_in_words(repository: LiveSandbox) -> None:
    """`-S` leaves a Python without what is installed beside it."""
    await repository.write("bare", f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    await repository.run(["chmod", "+x", "bare"])
    result = await RunTests(sandbox=repository, runner=Pytest(python="./bare")).run()
    said = "pytest is not installed in this sandbox, so no test was run."
    assert result.text.splitlines()[0] == said
    assert not result.report.ok


async def test_what_plug_ins_deprecate_as_pytest_starts_is_not_told_and_a_tests_own_is(
    repository: LiveSandbox,
) -> None:
    start = (
        "import warnings\n"
        "def pytest_configure(config):\n"
        "    warnings.warn(DeprecationWarning('an option\\nof mine'))\n"
        "    warnings.warn(UserWarning('it is late'))\n"
    )
    await repository.write("conftest.py", start)
    old = "import warnings\ndef test_old():\n    warnings.warn(DeprecationWarning('old'))\n"
    await repository.write("tests/test_b.py", f"{old}    assert 0\n")
    result = await RunTests(sandbox=repository, runner=PYTEST).run(tests=["tests/test_b.py"])
    assert "an option" not in result.text
    assert "it is late" in result.text
    assert "DeprecationWarning: old" in result.text
    assert "1 failed" in result.text


async def test_a_run_is_recorded_as_a_check_that_passed_failed_or_could_not_tell(
    repository: LiveSandbox,
) -> None:
    await repository.write("tests/test_gone.py", "import os; os._exit(0)")
    runs = [["tests/test_a.py::test_good"], ["tests/test_a.py"], ["tests/test_gone.py"]]
    asked = [ToolCall("run_tests", {"tests": tests}, str(n)) for n, tests in enumerate(runs)]
    model = ScriptedModel([Completion(text="", tool_calls=asked), "Done."])
    role = Role(tools=[RunTests(sandbox=repository, runner=PYTEST)], model=model)
    await role.run("go")
    checks = [
        (event.data["target"], event.data["passed"]) for event in role.trajectory.of("verify")
    ]
    assert checks == [
        ("tests/test_a.py::test_good", True),
        ("tests/test_a.py", False),
        ("tests/test_gone.py", None),
    ]
    back = [RunTests()._result_of(event) for event in role.trajectory.of("tool_result")]
    assert back[0].report.passed == ["tests/test_a.py::test_good"]


async def test_a_runner_that_writes_junit_xml_is_read_anew_each_time(
    repository: LiveSandbox,
) -> None:
    """An old report, or none, is never taken for that of this run."""
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=out/report.xml"]
    runner = JUnit(command, "out/report.xml")
    run = await runner.run(repository, ["tests/test_a.py"])
    assert run.report.of("passed") == ["tests.test_a::test_good"]
    assert run.report.failed == ["tests.test_a::test_bad"]
    assert "assert [1] == [2]" in run.printed
    stale = await JUnit(["true"], "out/report.xml").run(repository)
    assert stale.report.problem.startswith("the runner left no report")
    assert not stale.report.outcomes


@pytest.mark.skipif(not shutil.which("ctest"), reason="needs CMake's ctest")
async def test_ctest_runs_chosen_tests(repository: LiveSandbox) -> None:
    await repository.write(
        "build/CTestTestfile.cmake",
        'add_test([=[a.b]=] "true")\nadd_test([=[aXb]=] "false")\nadd_test([=[c]=] "false")\n',
    )
    everything = (await CTest().run(repository)).report
    assert (everything.passed, everything.failed) == (["a.b"], ["aXb", "c"])
    chosen = (await CTest().run(repository, ["a.b", "c"])).report
    assert (chosen.passed, chosen.failed) == (["a.b"], ["c"])
