"""What a test runner reports, by its own report and never by the text that it prints.

    command = pytest_command(["tests/test_a.py"])
    done = await sandbox.run(command, stdin="token\n")
    report = read_pytest_report_log(done.stdout, exit_code=done.exit_code, token="token")

pytest's report log, JUnit XML and CTest's `Test.xml` become the same `TestReport`. A report that is
cut off, malformed or at odds with the exit code raises nothing: its `problem` says what is wrong.
Code under test shares the runner's process and can, in the end, say anything in its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal, get_args
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
"""`error` is a failure before or after the test itself: of its set-up, of its collection."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
NO_TESTS = 5
"""pytest's exit code where no test was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """What became of each test of one run."""

    __test__: ClassVar[bool] = False  # pytest takes what is called `Test...` for a test

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """By the runner's own id of the test (pytest's node id), in the order of the report."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """What the report says of tests that did not pass, as far as it says anything."""
    exit_code: int | None = None
    """The runner's, as the sandbox saw it."""
    finished: bool = False
    """The report has its end: the runner was not killed and did not leave early."""
    fault: str = ""
    """What is wrong with the report as a text: not to be read, cut off, lines that are forged."""

    def of(self, *outcomes: Outcome) -> list[str]:
        """The ids of the tests that ended in one of these ways."""
        return [name for name, outcome in self.outcomes.items() if outcome in outcomes]

    @property
    def passed(self) -> list[str]:
        return self.of("passed")

    @property
    def failed(self) -> list[str]:
        return self.of("failed")

    @property
    def errors(self) -> list[str]:
        return self.of("error")

    @property
    def skipped(self) -> list[str]:
        return self.of("skipped")

    @property
    def problem(self) -> str:
        """Why the report cannot be relied on, or nothing."""
        if self.fault:
            return self.fault
        if not self.finished:
            return "the runner did not come to its end"
        wrong = self.of("failed", "error")
        if self.exit_code == 0 and wrong:
            return f"the exit code is 0, but {len(wrong)} of the tests did not pass"
        if self.exit_code and not wrong and not (self.exit_code == NO_TESTS and not self.outcomes):
            return f"the exit code is {self.exit_code}, but no test failed"
        return ""

    @property
    def ok(self) -> bool:
        """At least one test ran, none failed, and the report can be relied on."""
        return (
            not self.problem
            and bool(self.of("passed", "xfailed", "xpassed"))
            and not self.of("failed", "error")
        )

    def __str__(self) -> str:
        counts = {outcome: len(self.of(outcome)) for outcome in OUTCOMES}
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        return "; ".join(filter(None, (said or "no tests", self.problem)))


@cache
def _driver() -> str:
    return Path(__file__).with_name("_pytest_driver.py").read_text("utf-8")


def pytest_command(
    tests: Sequence[str] = (), *, python: str = "python3", options: Sequence[str] = ()
) -> list[str]:
    """A command that runs `tests` (node ids, files, folders; all if none) and reports on stdout.

    What pytest prints comes on stderr. The first line of stdin is a token: `read_pytest_report_log`
    then takes no line without it. pytest itself is imported before the work folder is on the path.
    """
    return [python, "-c", _driver(), *options, *tests]


def read_pytest_report_log(
    text: str, *, exit_code: int | None = None, token: str = ""
) -> TestReport:
    """The report of `pytest_command`, or of pytest's plug-in `--report-log`.

    A test that fails in set-up or tear-down is an `error`; of two reports on one test the worse
    one holds.
    """
    outcomes: dict[str, Outcome] = {}
    messages: dict[str, str] = {}
    finished, faults = False, []
    for number, line in enumerate(filter(None, text.split("\n")), 1):
        try:
            entry = json.loads(line)
            kind = entry["$report_type"]
            genuine = entry.get("token", "") == token
            found = _pytest_entry(entry) if kind in ("TestReport", "CollectReport") else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            faults.append(f"line {number} of the report is none of pytest's")
            continue
        if not genuine:
            faults.append(f"line {number} of the report is not the runner's own")
        elif finished:
            faults.append(f"line {number} of the report comes after its end")
        elif kind == "SessionFinish":
            finished = True
            status = entry.get("exitstatus")
            if exit_code is not None and status != exit_code:
                faults.append(f"pytest ended with {status}, its process with {exit_code}")
        elif found is not None:
            name, outcome = found
            if outcomes.get(name) not in ("failed", "error"):
                outcomes[name] = outcome
            if said := _pytest_text(entry):
                messages[name] = said
    return TestReport(
        outcomes=outcomes,
        messages=messages,
        exit_code=exit_code,
        finished=finished,
        fault=faults[0] if faults else "",
    )


def _pytest_entry(entry: Mapping[str, object]) -> tuple[str, Outcome] | None:
    """The test that an entry is about and what became of it; None if it says nothing yet."""
    name, outcome, when = entry["nodeid"], entry["outcome"], entry.get("when")
    if not isinstance(name, str) or not isinstance(outcome, str):
        raise TypeError
    if outcome == "failed":
        return name, "failed" if when == "call" else "error"
    expected = "wasxfail" in entry
    if outcome == "skipped":
        return name, "xfailed" if expected else "skipped"
    if outcome == "passed" and when == "call":
        return name, "xpassed" if expected else "passed"
    return None


def _pytest_text(entry: Mapping[str, object]) -> str:
    match entry.get("longrepr"):
        case str(text):
            return text
        case [*_, str(reason)]:
            return reason
        case {"reprcrash": {"message": str(message)}}:
            return message
    return ""


def read_junit(text: str, *, exit_code: int | None = None) -> TestReport:
    """A JUnit XML report: of pytest, of `ctest --output-junit`, of most other runners.

    A test's id is `classname::name`, or its name alone where it has no class.
    """
    try:
        root = _parsed(text)
    except (expat.ExpatError, ValueError, AssertionError) as error:
        return TestReport(exit_code=exit_code, fault=f"the JUnit report cannot be read: {error}")
    if root.tag not in ("testsuites", "testsuite"):
        return TestReport(
            exit_code=exit_code, fault=f"the JUnit report begins with `<{root.tag[:80]}>`"
        )
    found = (_junit_case(case) for case in root.iter("testcase"))
    return _collected(found, exit_code)


def _junit_case(case: Element) -> tuple[str, Outcome, str]:
    name, group = case.get("name", ""), case.get("classname", "")
    name = f"{group}::{name}" if group and group != name else name
    for tag, outcome in _JUNIT:
        node = case.find(tag)
        if node is not None:
            said = "\n".join(filter(None, (node.get("message"), node.text)))
            if node.get("type") == "pytest.xfail":
                return name, "xfailed", said
            if case.get("status") == "notrun" and not _ctest_skips(node.get("message", "")):
                return name, "error", said  # CTest's, of a program that is not there
            return name, outcome, said
    return name, "skipped" if case.get("status") == "disabled" else "passed", ""


_JUNIT: tuple[tuple[str, Outcome], ...] = (
    ("error", "error"),
    ("failure", "failed"),
    ("skipped", "skipped"),
)


def read_ctest(text: str, *, exit_code: int | None = None) -> TestReport:
    """CTest's own `Test.xml`, which `ctest -T Test` writes into `Testing/<tag>/`."""
    try:
        root = _parsed(text)
    except (expat.ExpatError, ValueError, AssertionError) as error:
        return TestReport(exit_code=exit_code, fault=f"CTest's report cannot be read: {error}")
    testing = root.find("Testing")
    if root.tag != "Site" or testing is None:
        return TestReport(exit_code=exit_code, fault="CTest's report has no `<Site><Testing>`")
    return _collected((_ctest_case(case) for case in testing.findall("Test")), exit_code)


def _ctest_case(case: Element) -> tuple[str, Outcome, str]:
    name = (case.findtext("FullName") or case.findtext("Name") or "").removeprefix("./")
    why = ""
    for measured in case.iter("NamedMeasurement"):
        if measured.get("name") == "Completion Status":
            why = measured.findtext("Value") or ""
    said = case.findtext("Results/Measurement/Value") or why
    match case.get("Status"):
        case "passed":
            return name, "passed", ""
        case "notrun" if _ctest_skips(why):
            return name, "skipped", why
        case "notrun":
            return name, "error", why or said
    return name, "failed", said


def _ctest_skips(why: str) -> bool:
    """Whether a test was not run because somebody wanted it so."""
    return why == "Disabled" or why.startswith("SKIP_")


def _collected(found: Iterator[tuple[str, Outcome, str]], exit_code: int | None) -> TestReport:
    outcomes: dict[str, Outcome] = {}
    messages: dict[str, str] = {}
    for name, outcome, said in found:
        if outcomes.get(name) not in ("failed", "error"):
            outcomes[name] = outcome
        if said and outcome != "passed":
            messages[name] = said
    # The text is whole, else the XML would not have been.
    return TestReport(outcomes=outcomes, messages=messages, exit_code=exit_code, finished=True)


def _parsed(text: str) -> Element:
    """XML without a document type: what entities expand to has no bound. Raises `ValueError`."""
    builder = TreeBuilder()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True

    def doctype(*_: object) -> None:
        raise ValueError("it declares a document type")

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(text.encode("utf-8", "replace"), True)
    return builder.close()
