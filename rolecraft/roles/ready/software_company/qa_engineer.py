"""The QA engineer: writes tests, runs them in a sandbox, and says whose fault a failure is."""

from __future__ import annotations

import asyncio
import re

from rolecraft.actions import Action, UserRequirement
from rolecraft.messages import Message
from rolecraft.roles.memory import History
from rolecraft.roles.ready.software_company.documents import (
    BugReport,
    Design,
    Finding,
    Findings,
    Requirements,
    TestReport,
)
from rolecraft.roles.ready.software_company.employee import Employee
from rolecraft.roles.ready.software_company.engineer import SummarizeCode, WriteCode
from rolecraft.roles.ready.software_company.planning import WriteDesign, WritePRD
from rolecraft.roles.ready.software_company.reading import shown
from rolecraft.roles.ready.source_files import SourceFile, code_in, files_of
from rolecraft.sandboxes import Execution, Sandbox, SandboxLimits, default_provider

TEST_FILE = "test_program.py"
COMMAND = ("python3", "-m", "unittest", "--verbose", TEST_FILE.removesuffix(".py"))


class WriteTest(Action):
    """Write tests for the program, or mend those that are wrong."""

    faults: list[str] = []

    async def run(self, history: History) -> Message:
        mend = ""
        if self.faults:
            faults = "\n".join(f"- {fault}" for fault in self.faults)
            mend = f"Your tests so far are wrong here; mend this and keep the rest:\n{faults}\n\n"
        answer = await self.ask(
            f"{shown(history, Requirements, Design, files=True)}\n\n{mend}"
            f"Write `{TEST_FILE}`, tests of this program with `unittest`, which lie beside its "
            f"files. Test what the customer wants and not what the code happens to do: every "
            f"example that the customer gave, one test for each requirement, and the edges "
            f"(nothing at all, one, the last, mistakes in the input). Run the program as its user "
            f"does (`subprocess.run([sys.executable, ...], input=..., text=True)`), and call "
            f"functions directly only where that says more. Answer with the file in one code block."
        )
        file = SourceFile(path=TEST_FILE, content=code_in(answer))
        self.record_artifact(file.path, file.content)
        return file.message()


class RunTests(Action):
    """Run the tests in the sandbox and report what was measured."""

    async def run(self, history: History) -> Message:
        qa: QaEngineer = self.role
        files = files_of(history)
        sandbox = qa.sandbox
        if sandbox is None:
            sandbox = await asyncio.to_thread(default_provider)
        limits = SandboxLimits(seconds=qa.test_seconds)
        execution = await sandbox.run(COMMAND, files=files, limits=limits)
        report = read_report(execution)
        self.record_tool_call("run_tests", {"files": sorted(files)}, report.output, ok=report.ok)
        for path in sorted(files):
            self.record_check(path, passed=report.ok, said=_last_line(report.output))
        return report.message()


class ReportBugs(Action):
    """Find out why tests fail, and whose work must change."""

    async def run(self, history: History) -> Message:
        document = await self.ask(
            f"{shown(history, Requirements, Design, TestReport, files=True)}\n\n"
            f"Find out why these tests fail. For each cause give one finding: what it concerns "
            f"(`code` if the code does not do what the customer wants, `test` if the test demands "
            f"what the customer does not want or is itself broken, `design` only if no code of "
            f"these files can do it), the file that must change, and the problem with what to "
            f"write instead. The customer's words decide, not the code and not the tests.",
            returns=BugReport,
        )
        return document.message()


class QaEngineer(Employee):
    """Tests what the engineer hands on. A failure is looked into, and mended or handed back.

    What is wrong with the tests is always mended here. With `mends_code` the rest is too, as in a
    company where work goes one way only; without it, the report goes back to whoever answers for
    it. After `max_repairs` mendings in one go the report stands as it is. Tests run in `sandbox`,
    that of `default_provider()` unless set.
    """

    profile = "QA engineer"
    goal = "that nothing wrong goes out and nothing right is held up"
    actions = [WriteTest, RunTests]
    watch = (UserRequirement, WritePRD, WriteDesign, WriteCode, SummarizeCode)
    works_on = (SummarizeCode,)
    answers_for = "test"
    mends_code: bool = True
    max_repairs: int = 1
    sandbox: Sandbox | None = None
    test_seconds: float = 20.0
    """How long all tests together may take."""

    async def _react(self) -> Message | None:
        self._repairs = 0
        faults = self._faults_of_tests()
        if faults or TEST_FILE not in files_of(self.rc.history):
            self.set_actions([WriteTest(faults), RunTests()])
        else:
            self.set_actions([RunTests()])
        return await super()._react()

    async def _act(self) -> Message | None:
        message = await super()._act()
        document = message.instruct_content if message is not None else None
        if isinstance(document, TestReport) and not document.ok:
            self.set_actions([ReportBugs()])
        elif isinstance(document, BugReport) and self._repairs < self.max_repairs:
            self._mend(document)
        return message

    def _mend(self, report: BugReport) -> None:
        if report.concerns != "test" and not self.mends_code:
            return  # those who answer for it have heard
        self._repairs += 1
        mending: list[Action] = [
            WriteCode(finding.path, f"Mend this: {finding.problem}")
            for finding in report.findings
            if finding.concerns != "test"
        ]
        if faults := _faults(report.findings):
            mending.append(WriteTest(faults))
        self.set_actions([*mending, RunTests()])

    def _faults_of_tests(self) -> list[str]:
        """What was found wrong with the tests since they were written last."""
        faults: list[str] = []
        for message in self.rc.history:
            document = message.instruct_content
            if isinstance(document, SourceFile) and document.path == TEST_FILE:
                faults = []
            elif isinstance(document, Findings):
                faults += _faults(document.findings)
        return faults


def _faults(findings: list[Finding]) -> list[str]:
    return [finding.problem for finding in findings if finding.concerns == "test"]


def read_report(execution: Execution) -> TestReport:
    """What `unittest` says at the end of its output. No end of it is a failure."""
    ran = re.findall(r"^Ran (\d+) tests?", execution.stderr, re.MULTILINE)
    end = re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", execution.stderr, re.MULTILINE)
    found = re.findall(r"(\w[a-z ]*)=(\d+)", end[-1] if end else "")
    counts = {name: int(count) for name, count in found}
    wrong = sum(counts.get(name, 0) for name in ("failures", "errors", "unexpected successes"))
    if not wrong and not (execution.ok and ran and int(ran[-1])):
        wrong = 1  # stopped on the way, or no test was there
    passed = int(ran[-1]) - wrong - counts.get("skipped", 0) if ran else 0
    return TestReport(passed=max(passed, 0), failed=wrong, output=_shortened(str(execution)))


def _shortened(output: str) -> str:
    """Both ends of an output, without the time that it took, which is another at every run."""
    output = re.sub(r"^(Ran \d+ tests?) in [\d.]+s", r"\1", output, flags=re.MULTILINE)
    return output if len(output) <= 8000 else f"{output[:2000]}\n[…]\n{output[-6000:]}"


def _last_line(output: str) -> str:
    return output.rstrip().rpartition("\n")[2]
