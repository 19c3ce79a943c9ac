"""Roles of the software company one by one: what wakes them, and how they plan their work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from rolecraft import Message, Role, ScriptedModel, Team
from rolecraft.actions import UserRequirement
from rolecraft.roles.ready.software_company import (
    CTO,
    Architect,
    BugReport,
    Design,
    Engineer,
    Finding,
    QaEngineer,
    ReportBugs,
    Requirements,
    ReviewProduct,
    RunTests,
    SummarizeCode,
    TaskList,
    TestReport,
    Verdict,
    WriteCode,
    WriteDesign,
    WritePRD,
    WriteTasks,
)
from rolecraft.roles.ready.software_company.as_text import as_text
from rolecraft.roles.ready.software_company.documents import CodeSummary, Concern, FileTask
from rolecraft.roles.ready.software_company.qa_engineer import TEST_FILE, read_report
from rolecraft.roles.ready.software_company.reading import shown
from rolecraft.roles.ready.source_files import SourceFile
from rolecraft.sandboxes import Execution, FunctionSandbox, SandboxCall

DESIGN = Design.model_validate(
    {
        "approach": "one file",
        "entry_point": "main.py",
        "files": [{"path": "main.py", "purpose": "all"}],
    }
)
TASKS = TaskList(
    tasks=[FileTask(path="b.py", instruction="b"), FileTask(path="a.py", instruction="a")]
)
SUMMARY = '{"summary": "It is complete."}'


def by(action: type, document: Any) -> Message:
    return Message(str(document), cause_by=action, sent_from="somebody", instruct_content=document)


def finding(concerns: Concern, path: str = "main.py") -> Finding:
    return Finding(concerns=concerns, path=path, problem=f"the {concerns} is wrong")


def bugs(*concerns: Concern) -> BugReport:
    return BugReport(findings=[finding(concern) for concern in concerns])


def rejected(*concerns: Concern) -> Verdict:
    findings = [finding(concern) for concern in concerns]
    return Verdict(approved=False, reason="not yet", findings=findings)


def code(text: str = "pass") -> str:
    return f"```python\n{text}\n```"


def planned(role: Role) -> list[list[str]]:
    """The action lists that were swapped in."""
    return [event.data["actions"] for event in role.trajectory.of("action_swap")]


def ending(*passing: bool) -> FunctionSandbox:
    """A sandbox in which the tests end as told, one run after the other."""
    left = list(passing)

    def run(call: SandboxCall) -> Execution:
        ok = left.pop(0)
        said = "OK" if ok else "FAILED (errors=1)"
        return Execution(exit_code=int(not ok), stderr=f"Ran 1 test in 0.0s\n\n{said}\n")

    return FunctionSandbox(run)


# --- who starts to work on what ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "message", "works"),
    [
        (Architect, by(WritePRD, Requirements(product="p", requirements=["r"])), True),
        (Architect, Message("a wish", cause_by=UserRequirement), False),
        (Architect, by(ReportBugs, bugs("code")), False),
        (Architect, by(ReportBugs, bugs("code", "design")), True),
        (Engineer, by(WriteTasks, TASKS), True),
        (Engineer, by(WriteDesign, DESIGN), False),
        (Engineer, by(ReportBugs, bugs("test", "code")), True),
        (Engineer, by(ReportBugs, bugs("code", "design")), False),
        (Engineer, by(ReviewProduct, rejected("test")), False),
        (QaEngineer, by(ReviewProduct, rejected("test")), True),
        (QaEngineer, by(SummarizeCode, CodeSummary(summary="s")), True),
        (QaEngineer, by(WriteCode, SourceFile(path="a", content="")), False),
        (QaEngineer, by(ReviewProduct, Verdict(approved=True, reason="good")), False),
        (CTO, by(RunTests, TestReport(passed=1, failed=0, output="")), True),
        (CTO, by(RunTests, TestReport(passed=1, failed=1, output="")), False),
        (CTO, by(RunTests, TestReport(passed=0, failed=0, output="")), False),
        (CTO, by(ReportBugs, bugs("code")), False),
        (CTO, by(ReportBugs, bugs("test")), True),
        (Engineer, Message("Ann here", sent_from="Ann", send_to="Engineer"), True),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
async def test_a_role_reads_along_and_starts_on_what_concerns_it(
    role: type[Role], message: Message, works: bool
) -> None:
    somebody = role(model=ScriptedModel())
    somebody.put_message(message)
    assert bool(await somebody._observe()) is works
    assert [m.content for m in somebody.rc.history] == [message.content]


def test_whose_turn_it_is_when_several_are_concerned() -> None:
    """A new design makes new code, and new code is tested again anyway."""
    assert bugs("test", "code", "design").concerns == "design"
    assert bugs("test", "code").concerns == "code"
    assert bugs("test").concerns == "test"
    assert Verdict(approved=True, reason="good").concerns is None


# --- the engineer ------------------------------------------------------------------------------


async def test_the_tasks_become_the_action_list_in_their_order() -> None:
    engineer = Engineer(model=ScriptedModel([code("b = 1"), code("a = 1"), SUMMARY]))
    await engineer.run([Message("a wish"), by(WriteDesign, DESIGN), by(WriteTasks, TASKS)])
    assert planned(engineer) == [["WriteCode", "WriteCode", "SummarizeCode"]]
    artifacts = [event.artifact.name for event in engineer.trajectory.of("artifact")]  # type: ignore[union-attr]
    assert artifacts == ["b.py", "a.py"]
    second = engineer.model.calls[1].messages[-1].content  # type: ignore[union-attr]
    assert "b = 1" in second, "a file is written with those before it in view"
    assert "a wish" in second, "and with the customer's own words"


async def test_gaps_are_written_once_more_and_then_handed_on_as_they_are() -> None:
    gap = json.dumps({"summary": "s", "gaps": [{"path": "a.py", "instruction": "the rest"}]})
    engineer = Engineer(model=ScriptedModel([code(), code(), gap, code("more"), gap]))
    await engineer.run(by(WriteTasks, TASKS))
    assert planned(engineer)[1:] == [["WriteCode", "SummarizeCode"]]
    engineer.model.assert_complete()  # type: ignore[union-attr]


async def test_a_report_is_mended_file_by_file_and_only_what_concerns_the_code() -> None:
    engineer = Engineer(model=ScriptedModel([code(), SUMMARY]))
    await engineer.run(by(ReportBugs, bugs("test", "code")))
    (action, _) = engineer.trajectory.of("action")
    assert action.data["fields"] == {
        "path": "main.py",
        "instruction": "Mend this: the code is wrong",
    }


# --- the QA engineer ---------------------------------------------------------------------------


def handed_on(*files: str) -> list[Message]:
    written = [by(WriteCode, SourceFile(path=path, content="1")) for path in files]
    return [*written, by(SummarizeCode, CodeSummary(summary="s"))]


async def qa(sandbox: FunctionSandbox, *answers: Any, **fields: Any) -> QaEngineer:
    script = [a if isinstance(a, str) else a.model_dump_json() for a in answers]
    tester = QaEngineer(model=ScriptedModel(script), sandbox=sandbox, **fields)
    await tester.run(handed_on("main.py"))
    tester.model.assert_complete()  # type: ignore[union-attr]
    return tester


async def test_tests_run_with_all_files_and_are_recorded_as_checks_of_them() -> None:
    sandbox = ending(True)
    tester = await qa(sandbox, code("tests"))
    assert [call.files for call in sandbox.calls] == [{"main.py": "1", TEST_FILE: "tests\n"}]
    checks = {e.data["target"]: e.data["passed"] for e in tester.trajectory.of("verify")}
    assert checks == {"main.py": True, TEST_FILE: True}


async def test_a_failure_is_mended_once_and_the_report_then_stands() -> None:
    tester = await qa(
        ending(False, False), code("tests"), bugs("code"), code("mended"), bugs("code")
    )
    assert planned(tester) == [
        ["WriteTest", "RunTests"],
        ["ReportBugs"],
        ["WriteCode", "RunTests"],
        ["ReportBugs"],
    ]


async def test_one_who_hands_back_mends_only_the_tests() -> None:
    handed_back = await qa(ending(False), code("tests"), bugs("code"), mends_code=False)
    assert planned(handed_back)[-1] == ["ReportBugs"]
    mended = await qa(
        ending(False, True), code("tests"), bugs("test"), code("others"), mends_code=False
    )
    assert planned(mended)[-1] == ["WriteTest", "RunTests"]


async def test_tests_stay_unless_something_was_found_wrong_with_them() -> None:
    sandbox = ending(False, True, True)
    tester = await qa(sandbox, code("tests"), bugs("code", "test"), mends_code=False)
    tester.model = ScriptedModel([code("better tests")])
    await tester.run(handed_on("main.py"))
    assert planned(tester)[-1] == ["WriteTest", "RunTests"]
    assert "the test is wrong" in tester.model.calls[0].messages[-1].content
    await tester.run(handed_on("main.py"))
    assert planned(tester)[-1] == ["RunTests"]
    assert sandbox.calls[-1].files[TEST_FILE] == "better tests\n"


@pytest.mark.parametrize(
    ("execution", "passed", "failed"),
    [
        (Execution(exit_code=0, stderr="Ran 3 tests in 0.1s\n\nOK\n"), 3, 0),
        (Execution(exit_code=0, stderr="Ran 3 tests in 0.1s\n\nOK (skipped=1)\n"), 2, 0),
        (
            Execution(exit_code=1, stderr="Ran 5 tests in 1s\n\nFAILED (failures=2, errors=1)\n"),
            2,
            3,
        ),
        (Execution(exit_code=1, stderr="Ran 1 test in 1s\n\nFAILED (failures=3)\n"), 0, 3),
        (Execution(exit_code=5, stderr="Ran 0 tests in 0.0s\n\nNO TESTS RAN\n"), 0, 1),
        (Execution(exit_code=0, stderr="Ran 0 tests in 0.0s\n\nOK\n"), 0, 1),
        (Execution(exit_code=137, timed_out=True, stderr="test_a ... "), 0, 1),
        (Execution(exit_code=1, stderr="SyntaxError: invalid syntax"), 0, 1),
        (Execution(exit_code=0, stdout="Ran 9 tests\nOK"), 0, 1),  # what the program prints
    ],
)
def test_a_report_is_what_the_test_runner_said_at_its_end(
    execution: Execution, passed: int, failed: int
) -> None:
    report = read_report(execution)
    assert (report.passed, report.failed, report.ok) == (passed, failed, not failed)


def test_a_report_says_nothing_that_is_another_at_every_run() -> None:
    slow, quick = (
        read_report(Execution(exit_code=0, stderr=f"Ran 3 tests in {took}s\n\nOK\n", seconds=took))
        for took in (0.5, 0.1)
    )
    assert slow == quick


def test_a_report_of_endless_output_keeps_its_beginning_and_its_end() -> None:
    stderr = "begin" + "x" * 50_000 + "\nRan 1 test in 0s\n\nOK\n"
    report = read_report(Execution(exit_code=0, stderr=stderr))
    assert report.ok
    assert report.output.startswith("begin")
    assert report.output.endswith("OK")
    assert len(report.output) < 9_000


# --- documents ---------------------------------------------------------------------------------


def test_a_design_names_each_file_once_and_the_entry_point_is_one_of_them() -> None:
    file = {"path": "a.py", "purpose": "p"}
    for wrong in (
        {"entry_point": "b.py", "files": [file]},
        {"entry_point": "a.py", "files": [file, file]},
        {"entry_point": "/a.py", "files": [file]},
    ):
        with pytest.raises(ValidationError):
            Design.model_validate({"approach": "x", **wrong})


@pytest.mark.parametrize(
    "verdict", [{"approved": True, "findings": [finding("code")]}, {"approved": False}]
)
def test_a_verdict_approves_or_says_what_is_wrong(verdict: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="name no findings, or name findings"):
        Verdict(reason="r", **verdict)


def test_documents_read_as_indented_lists() -> None:
    assert as_text(DESIGN) == (
        "approach: one file\nentry point: main.py\nfiles:\n  - path: main.py\n    purpose: all"
    )


def test_a_prompt_shows_the_latest_document_and_file_of_each_kind() -> None:
    later = DESIGN.model_copy(update={"approach": "two files"})
    history = [
        Message("a wish", cause_by=UserRequirement),
        by(WriteDesign, DESIGN),
        by(WriteCode, SourceFile(path="a", content="old")),
        by(WriteDesign, later),
        by(WriteCode, SourceFile(path="a", content="new")),
    ]
    text = shown(history, Design, Requirements, files=True)
    assert "a wish" in text
    assert "two files" in text
    assert "new" in text
    assert "one file" not in text
    assert "old" not in text
    assert "Requirements" not in text


async def test_roles_of_the_company_work_in_other_teams_under_other_names() -> None:
    class WriteStory(WritePRD):
        pass

    team = Team(
        [
            Role(name="Author", actions=[WriteStory]),
            Architect(name="Bob", watch=[WriteStory], works_on=[WriteStory]),
        ],
        model=ScriptedModel(
            per_role={
                "Author": ['{"product": "p", "requirements": ["r"]}'],
                "Bob": [DESIGN.model_dump_json()],
            }
        ),
    )
    run = await team.run("a wish")
    assert run.message is not None
    assert run.message.instruct_content == DESIGN
