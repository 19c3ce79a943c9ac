"""What may be said in the company: who hands which document on, in answer to what.

Beside the types it holds what no type can say: that the tasks are the files of the design, and
that nothing is signed off whose tests fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.actions import Finish, UserRequirement
from rolecraft.messages import Message
from rolecraft.roles.ready.software_company.cto import ReviewProduct
from rolecraft.roles.ready.software_company.documents import (
    BugReport,
    CodeSummary,
    Design,
    Requirements,
    TaskList,
    TestReport,
    Verdict,
)
from rolecraft.roles.ready.software_company.engineer import SummarizeCode, WriteCode
from rolecraft.roles.ready.software_company.planning import WriteDesign, WritePRD, WriteTasks
from rolecraft.roles.ready.software_company.qa_engineer import ReportBugs, RunTests, WriteTest
from rolecraft.roles.ready.software_company.reading import latest
from rolecraft.roles.ready.source_files import SourceFile
from rolecraft.roles.remedies.closing import Hierarchy, SuperiorCloses
from rolecraft.roles.remedies.protocol import May, MessageProtocol

HIERARCHY = Hierarchy(
    {
        "ProductManager": "CTO",
        "Architect": "CTO",
        "QaEngineer": "CTO",
        "ProjectManager": "Architect",
        "Engineer": "Architect",
    }
)
"""QA does not report to those whose work it tests."""


def tasks_are_the_design(tasks: TaskList, before: Sequence[Message]) -> str | None:
    """A file without a task is never written, a task without a plan fits nothing."""
    design = latest(before, Design)
    if design is None:
        return "there is no design yet"
    planned = {file.path for file in design.files}
    listed = {task.path for task in tasks.tasks}
    if missing := sorted(planned - listed):
        return f"no task writes {', '.join(missing)}, which the design plans"
    if extra := sorted(listed - planned):
        return f"the design has no {', '.join(extra)}"
    return None


def files_exist(report: BugReport | Verdict, before: Sequence[Message]) -> str | None:
    """A finding about a file that nobody wrote or planned sends its reader nowhere."""
    design = latest(before, Design)
    known = {m.instruct_content.path for m in before if isinstance(m.instruct_content, SourceFile)}
    known |= {file.path for file in design.files} if design is not None else set()
    unknown = sorted({finding.path for finding in report.findings} - known)
    if not unknown:
        return None
    return f"there is no {', '.join(unknown)}; the files are {', '.join(sorted(known))}"


def tests_pass(_: object, before: Sequence[Message]) -> str | None:
    report = latest(before, TestReport)
    if report is None or not report.ok:
        return "the tests do not pass"
    return None


def approved(verdict: Verdict, before: Sequence[Message]) -> str | None:
    """Whoever approves, approves what was tested."""
    if verdict.approved:
        return tests_pass(verdict, before)
    return files_exist(verdict, before)


PLANNING = (
    May("ProductManager", WritePRD, Requirements, answers=[UserRequirement]),
    May("Architect", WriteDesign, Design, answers=[WritePRD, ReportBugs, ReviewProduct]),
    May(
        "ProjectManager",
        WriteTasks,
        TaskList,
        answers=[WriteDesign],
        consistent=tasks_are_the_design,
    ),
)

COMPANY = MessageProtocol(
    [
        *PLANNING,
        May("Engineer", WriteCode, SourceFile, answers=[WriteTasks]),
        May("Engineer", SummarizeCode, CodeSummary, answers=[WriteTasks]),
        May("QaEngineer", WriteTest, SourceFile, answers=[SummarizeCode]),
        May("QaEngineer", RunTests, TestReport, answers=[SummarizeCode]),
        May("QaEngineer", ReportBugs, BugReport, answers=[SummarizeCode], consistent=files_exist),
        May("QaEngineer", WriteCode, SourceFile, answers=[SummarizeCode]),
    ]
)
"""The DAG: everything answers what comes before it, and QA mends what it finds."""

_FOUND_WRONG = (ReportBugs, ReviewProduct)

CYCLIC_COMPANY = MessageProtocol(
    [
        *PLANNING,
        May("Engineer", WriteCode, SourceFile, answers=[WriteTasks, *_FOUND_WRONG]),
        May("Engineer", SummarizeCode, CodeSummary, answers=[WriteTasks, *_FOUND_WRONG]),
        May("QaEngineer", WriteTest, SourceFile, answers=[SummarizeCode, ReviewProduct]),
        May("QaEngineer", RunTests, TestReport, answers=[SummarizeCode, ReviewProduct]),
        May(
            "QaEngineer",
            ReportBugs,
            BugReport,
            answers=[SummarizeCode, ReviewProduct],
            consistent=files_exist,
        ),
        May("CTO", ReviewProduct, Verdict, answers=[RunTests, ReportBugs], consistent=approved),
        May("CTO", Finish, answers=[RunTests, ReportBugs], consistent=tests_pass),
    ],
    checks=[SuperiorCloses(HIERARCHY, opens=[WriteCode], closes=[Finish])],
)
"""The cyclic form: what is found wrong is answered, QA mends no code, and the CTO closes."""
