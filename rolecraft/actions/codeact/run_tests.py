"""`RunTests`: which tests pass, by the runner's own report."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from rolecraft.actions.codeact._text import head_and_tail, how_it_ended, plain
from rolecraft.actions.codeact._tool import SandboxTool
from rolecraft.actions.tool import ToolResult
from rolecraft.errors import ToolError
from rolecraft.sandboxes.test_reports import NO_TESTS, TestReport
from rolecraft.sandboxes.test_runners import Pytest, TestRun, TestRunner

_LISTED = 30
_STARTING = re.compile(
    r"^\S+:\d+: \w*DeprecationWarning: (?:.*\n){1,6}?  warnings\.warn\(.*\n", re.MULTILINE
)
"""What a plug-in of pytest says of its own settings, which are nobody's here, as pytest starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult(ToolResult):
    """What `RunTests` found."""

    __test__: ClassVar[bool] = False

    report: TestReport


class RunTests(SandboxTool):
    """Tests of the work folder, by `runner` (pytest unless given), for at most `seconds`.

    The run is recorded as a check: passed if at least one test ran, none failed, and the report
    can be relied on. Of what the runner printed at most `characters` are told, and only if tests
    failed or the report is none. `seconds` may be more than the sandbox's own limit of a command.
    """

    name: str = "run_tests"
    runner: TestRunner = Pytest()
    seconds: float = 300.0
    characters: int = 10_000

    async def use(self, tests: list[str] = []) -> TestResult:  # noqa: B006 (nobody changes it)
        """Run tests, and say which passed, failed, could not run, or were skipped.

        Args:
            tests: which tests, by file or name as the test runner knows them
                (`tests/test_a.py::test_one`); all of them, unless given.
        """
        if flags := [test for test in tests if test.startswith("-")]:
            raise ToolError(f"`tests` are files and names of tests, not options: {flags}.")
        limits = self.sandbox.spec.limits
        cpu_seconds = max(limits.cpu_seconds, int(self.seconds))
        limits = replace(limits, seconds=self.seconds, cpu_seconds=cpu_seconds)
        run = await self.runner.run(self.sandbox, tests, limits=limits)
        report = run.report
        if self._owner is not None:
            target = ", ".join(tests) or "tests"
            passed = None if report.problem else report.ok
            self.record_check(target, passed=passed, said=str(report))
        parts = [_in_short(run)]
        for name, ids in (("failed", report.failed), ("error", report.errors)):
            parts += [f"{name}: {each}" for each in ids[:_LISTED]]
            parts += [f"[... {len(ids) - _LISTED} more]"] if len(ids) > _LISTED else []
        if not report.ok and not _found_none(report):
            printed = _STARTING.sub("", plain(run.printed))
            parts.append(head_and_tail(printed, self.characters).strip("\n"))
        if run.execution.failure is not None:
            parts.append(how_it_ended(run.execution, self.seconds))
        return TestResult(text="\n".join(filter(None, parts)), report=report)


def _in_short(run: TestRun) -> str:
    """How many tests ended how; of a run without tests, why there were none."""
    report = run.report
    if _found_none(report):
        return (
            "No test was found here, or none of those asked for. (Tests that judge the work later "
            "need not be here.)"
        )
    if not report.outcomes and "No module named 'pytest'" in run.printed:
        return "pytest is not installed in this sandbox, so no test was run."
    return str(report)


def _found_none(report: TestReport) -> bool:
    return not report.outcomes and report.exit_code == NO_TESTS and not report.problem
