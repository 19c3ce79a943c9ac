"""Running tests in a live sandbox, so that the runner's own report comes back.

run = await Pytest().run(sandbox, ["tests/test_a.py"])
run.report.passed
"""

from __future__ import annotations

import posixpath
import re
import secrets
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from rolecraft.sandboxes.base import Execution, SandboxLimits
from rolecraft.sandboxes.live import SandboxFileError
from rolecraft.sandboxes.test_reports import (
    TestReport,
    pytest_command,
    read_ctest,
    read_junit,
    read_pytest_report_log,
)

if TYPE_CHECKING:
    from rolecraft.sandboxes.live import LiveSandbox

_REPORT_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class TestRun:
    """A run of tests: what the runner reports, and how its process ended."""

    __test__: ClassVar[bool] = False

    report: TestReport
    execution: Execution

    @property
    def printed(self) -> str:
        """What the runner and the tests printed, as far as it was kept."""
        return self.execution.stderr


class TestRunner(Protocol):
    """Runs tests in a sandbox. Any number at once."""

    async def run(
        self,
        sandbox: LiveSandbox,
        tests: Sequence[str] = (),
        *,
        limits: SandboxLimits | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> TestRun:
        """Run `tests`, by the runner's own names for them; all, if none are given."""
        ...


TestRunner.__test__ = False  # type: ignore[attr-defined]  # no part of the protocol


@dataclass(frozen=True, slots=True)
class Pytest:
    """pytest of the sandbox's `python`. `options` stand before the tests."""

    python: str = "python3"
    options: Sequence[str] = ()

    async def run(
        self,
        sandbox: LiveSandbox,
        tests: Sequence[str] = (),
        *,
        limits: SandboxLimits | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> TestRun:
        """See `TestRunner`. The report comes through a pipe, signed with a token of this run."""
        limits = limits or sandbox.spec.limits
        token = secrets.token_hex(16)
        done = await sandbox.run(
            pytest_command(tests, python=self.python, options=self.options),
            stdin=f"{token}\n",
            limits=replace(limits, output_bytes=max(limits.output_bytes, _REPORT_BYTES)),
            cwd=cwd,
            env=env,
        )
        report = read_pytest_report_log(done.stdout, exit_code=done.exit_code, token=token)
        return TestRun(report, done)


class _WritesReport:
    """A runner that leaves a report (JUnit XML, unless `read` is another) in the sandbox."""

    __slots__ = ()

    def read(self, text: str, exit_code: int) -> TestReport:
        """The report."""
        return read_junit(text, exit_code=exit_code)

    @abstractmethod
    def plan(self, folder: str, tests: Sequence[str]) -> tuple[Sequence[str], str]:
        """The command, run in `folder` of the sandbox, and the path of the report."""

    async def run(
        self,
        sandbox: LiveSandbox,
        tests: Sequence[str] = (),
        *,
        limits: SandboxLimits | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> TestRun:
        """See `TestRunner`. A report that lay there before is deleted first."""
        command, path = self.plan(posixpath.join(sandbox.folder, cwd), tests)
        await sandbox.run(["rm", "-f", "--", path])
        done = await sandbox.run(command, limits=limits, cwd=cwd, env=env)
        # What is printed is read at one place, whatever the runner.
        done = replace(done, stdout="", stderr=f"{done.stdout}{done.stderr}")
        try:
            text = (await sandbox.read(path, max_bytes=_REPORT_BYTES)).decode("utf-8", "replace")
        except SandboxFileError as error:
            fault = f"the runner left no report: {error.reason}"
            return TestRun(TestReport(exit_code=done.exit_code, fault=fault), done)
        return TestRun(self.read(text, done.exit_code), done)


@dataclass(frozen=True, slots=True)
class JUnit(_WritesReport):
    """A runner that writes JUnit XML into the file `report` of the sandbox.

    The tests' names stand after `command`.
    """

    command: Sequence[str]
    report: str

    def plan(self, folder: str, tests: Sequence[str]) -> tuple[Sequence[str], str]:
        """See `_WritesReport.plan`."""
        return [*self.command, *tests], posixpath.join(folder, self.report)


@dataclass(frozen=True, slots=True)
class CTestXml(JUnit):
    """A runner that writes CTest's own `Test.xml` into the file `report` of the sandbox."""

    def read(self, text: str, exit_code: int) -> TestReport:
        """See `_WritesReport.read`."""
        return read_ctest(text, exit_code=exit_code)


@dataclass(frozen=True, slots=True)
class CTest(_WritesReport):
    """CTest of a build folder. It must be 3.21 or later, which can write JUnit XML.

    A test that is asked for and not known is not in the report.
    """

    folder: str = "build"
    options: Sequence[str] = ()

    def plan(self, folder: str, tests: Sequence[str]) -> tuple[Sequence[str], str]:
        """See `_WritesReport.plan`."""
        built = posixpath.join(folder, self.folder)
        path = posixpath.join(built, "rolecraft-junit.xml")
        command = ["ctest", "--test-dir", built, "--output-junit", path, *self.options]
        if tests:
            command += ["-R", f"^({'|'.join(map(re.escape, tests))})$"]
        return command, path
