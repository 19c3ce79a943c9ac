"""The software company: real programs, real tests in a real sandbox; only the model is a stand-in.

The stand-in is the one of `examples/software_company.py`: it knows the program, lets the engineer
make one mistake, and lets the first tests be too few for the CTO.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rolecraft import FunctionModel, Limits, Role, Team, Trajectory, annotate
from rolecraft.actions import Finish
from rolecraft.environments.program_development import PROGRAMS
from rolecraft.errors import ProtocolViolation
from rolecraft.models import ModelCall
from rolecraft.roles.ready.software_company import (
    COMPANY,
    CYCLIC_COMPANY,
    HIERARCHY,
    RunTests,
    SignOff,
    cyclic_company,
    software_company,
)
from rolecraft.roles.ready.source_files import files_in
from rolecraft.sandboxes import Execution, FunctionSandbox, SandboxCall
from rolecraft.scenarios import Episode
from rolecraft.scenarios import software_company as scenarios
from rolecraft.scenarios.software_company import hidden_tests

EXAMPLE = Path(__file__).parents[2] / "examples" / "software_company.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("software_company_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def _bwrap(needs_program: Any) -> None:
    needs_program("bwrap", package="bubblewrap")


def deeds(trajectory: Trajectory) -> Iterator[str]:
    """Who did what, in order, without those who said nothing."""
    for event in trajectory.of("message"):
        yield f"{event.role} {event.data['cause_by'].rpartition('.')[2]}"


DAG = [
    "user UserRequirement",
    "ProductManager WritePRD",
    "Architect WriteDesign",
    "ProjectManager WriteTasks",
    "Engineer WriteCode",
    "Engineer WriteCode",
    "Engineer SummarizeCode",
    "QaEngineer WriteTest",
    "QaEngineer RunTests",
    "QaEngineer ReportBugs",
]
CYCLE = [
    "Engineer WriteCode",
    "Engineer SummarizeCode",
    "QaEngineer RunTests",
    "CTO ReviewProduct",
    "QaEngineer WriteTest",
    "QaEngineer RunTests",
    "CTO ReviewProduct",
    "CTO Finish",
]


# --- whole runs in the sandbox ---------------------------------------------------------------


@pytest.mark.usefixtures("_bwrap")
async def test_in_the_dag_the_work_goes_one_way_and_qa_mends_what_it_finds(
    example: ModuleType, tmp_path: Path
) -> None:
    episode: Episode = await example.play("snake", folder=tmp_path)
    assert list(deeds(episode.trajectory)) == [*DAG, "QaEngineer WriteCode", "QaEngineer RunTests"]
    assert episode.reward.value == 1.0
    assert episode.trajectory.stop_reason == "idle"
    assert COMPANY.violations(episode.trajectory) == []
    assert sorted(os.listdir(tmp_path)) == ["files", "run.jsonl", "run.mmd"]
    main = (tmp_path / "files" / "main.py").read_text("utf-8")
    assert main == PROGRAMS["snake"].files["main.py"]
    assert Trajectory.load(tmp_path / "run.jsonl").events == episode.trajectory.events


@pytest.mark.usefixtures("_bwrap")
async def test_in_the_cyclic_form_findings_go_back_and_the_cto_ends_the_run(
    example: ModuleType, tmp_path: Path
) -> None:
    episode: Episode = await example.play("to_do_list", folder=tmp_path, cyclic=True)
    assert list(deeds(episode.trajectory)) == [*DAG, *CYCLE]
    assert episode.reward.value == 1.0
    assert episode.trajectory.stop_reason == "finished"
    assert CYCLIC_COMPANY.violations(episode.trajectory) == []


@pytest.mark.usefixtures("_bwrap")
def test_the_example_is_one_command_and_says_where_everything_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--cyclic", "--program", "roman", "--save", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "reward = 1\nStopped: finished" in done.stdout
    for path in ("files", "run.jsonl", "run.mmd"):
        assert f"out/roman-1/{path}" in done.stdout
        assert (tmp_path / "out" / "roman-1" / path).exists()


@pytest.mark.usefixtures("_bwrap")
async def test_the_same_run_leaves_the_same_bytes(example: ModuleType, tmp_path: Path) -> None:
    """What tests print has times in it; the record has not."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        await example.play("caesar", folder=tmp_path / name)
    first, second = ((tmp_path / name / "run.jsonl").read_bytes() for name in ("a", "b"))
    assert first == second


@pytest.mark.usefixtures("_bwrap")
async def test_the_failure_taxonomy_finds_that_the_program_was_checked_in_its_last_form(
    example: ModuleType, tmp_path: Path
) -> None:
    episode: Episode = await example.play("roman", folder=tmp_path, cyclic=True)
    report = await annotate(episode.trajectory)
    verdicts = {finding.mode: finding.verdict for finding in report.findings}
    assert verdicts["verification.absent"] == "absent"
    assert "present" not in verdicts.values()


# --- the rest with a double of the sandbox ----------------------------------------------------


def results(passing: bool | None = None) -> FunctionSandbox:
    """A sandbox in which tests end as told, or as the files deserve."""

    def run(call: SandboxCall) -> Execution:
        passes = "readline" not in str(call.files["main.py"]) if passing is None else passing
        said = "OK" if passes else "FAILED (failures=1)"
        took = f"0.1{len(sandbox.calls)}s"
        return Execution(exit_code=int(not passes), stderr=f"Ran 2 tests in {took}\n\n{said}\n")

    sandbox = FunctionSandbox(run)
    return sandbox


def company(example: ModuleType, sandbox: FunctionSandbox, **options: Any) -> Team:
    options.setdefault("model", example.company_that_knows("roman"))
    return Team(
        cyclic_company(sandbox=sandbox),
        may_finish=HIERARCHY.heads,
        limits=Limits(rounds=30),
        **options,
    )


async def test_a_company_works_in_a_team_without_any_task_environment(example: ModuleType) -> None:
    run = await company(example, results(True)).run("Roman numerals, please")
    assert run.stop == "finished"
    assert set(files_in(run.trajectory)) == {"rules.py", "main.py", "test_program.py"}


async def test_without_a_sign_off_the_run_is_bounded_and_not_finished(
    example: ModuleType,
) -> None:
    run = await company(example, results(False)).run("Roman numerals, please")
    assert run.stop == "rounds"
    assert "CTO ReviewProduct" not in list(deeds(run.trajectory))


async def test_nobody_but_the_cto_may_sign_off(example: ModuleType) -> None:
    """Neither by right (`may_finish`) nor by the protocol of the company."""

    class Hasty(Role):
        name = "Hasty"
        actions = [Finish]
        watch = [RunTests]

    team = company(example, results(True))
    team.hire([Hasty()])
    run = await team.run("Roman numerals, please")
    done = list(deeds(run.trajectory))
    assert done.index("Hasty Finish") < done.index("CTO Finish")
    assert run.stop == "finished"
    assert [v.role for v in CYCLIC_COMPANY.violations(run.trajectory)] == ["Hasty", "Hasty"]

    team = company(example, results(True))
    team.roles["QaEngineer"].set_actions([SignOff])
    qa: Any = team.roles["QaEngineer"]
    qa._react = super(type(qa), qa)._react  # works off its list as any role does
    with pytest.raises(ProtocolViolation, match="Finish is for CTO, not for QaEngineer"):
        await team.run("Roman numerals, please")


async def test_a_cto_cannot_approve_what_fails_its_tests(example: ModuleType) -> None:
    """The QA engineer is at a loss with its tests; the CTO would rather be done."""
    knows = example.company_that_knows("roman")
    verdicts: list[str] = []

    def answer(call: ModelCall) -> str:
        asked = call.messages[-1].content
        if call.role == "QaEngineer" and "Find out why" in asked:
            return '{"findings": [{"concerns": "test", "path": "test_program.py", "problem": "?"}]}'
        if call.role == "CTO":
            verdicts.append(asked)
            return '{"approved": true, "reason": "It will do."}'
        return str(knows._function(call))

    team = company(example, results(False), model=FunctionModel(answer))
    with pytest.raises(ProtocolViolation, match="the tests do not pass"):
        await team.run("Roman numerals, please")
    assert len(verdicts) == 2
    assert "could not be sent: the tests do not pass" in verdicts[1]
    assert not any(deed.startswith("CTO") for deed in deeds(team.trajectory))


async def test_a_wrong_design_goes_back_to_the_architect_and_all_that_follows_is_new(
    example: ModuleType,
) -> None:
    knows = example.company_that_knows("roman")

    def answer(call: ModelCall) -> str:
        if call.role == "QaEngineer" and "Find out why" in call.messages[-1].content:
            return '{"findings": [{"concerns": "design", "path": "main.py", "problem": "?"}]}'
        said = str(knows._function(call))
        # From when on the architect has been told.
        mended = any("design, main.py: ?" in c.messages[-1].content for c in model.calls)
        return said.replace("readline", "read") if mended else said

    model = FunctionModel(answer)
    team = company(example, results(), model=model)
    run = await team.run("Roman numerals, please")
    again = [
        "Architect WriteDesign",
        "ProjectManager WriteTasks",
        *("Engineer WriteCode", "Engineer WriteCode", "Engineer SummarizeCode"),
        "QaEngineer RunTests",
        *CYCLE[3:],
    ]
    assert list(deeds(run.trajectory)) == [*DAG, *again]


async def test_tasks_that_forget_a_file_of_the_design_are_not_handed_on(
    example: ModuleType,
) -> None:
    knows = example.company_that_knows("roman")

    def answer(call: ModelCall) -> str:
        asked = call.messages[-1].content
        if call.role == "ProjectManager" and "no task writes rules.py" not in asked:
            return '{"tasks": [{"path": "main.py", "instruction": "all of it"}]}'
        return str(knows._function(call))

    team = Team(software_company(sandbox=results(True)), model=FunctionModel(answer))
    run = await team.run("Roman numerals, please")
    (violation,) = (e for e in run.trajectory.of("verify") if e.data.get("constraint"))
    assert violation.content == "no task writes rules.py, which the design plans"
    assert "rules.py" in files_in(run.trajectory)


# --- replay and recovery ------------------------------------------------------------------------


async def test_a_replay_asks_no_model_and_runs_no_test(example: ModuleType) -> None:
    sandbox = results()
    team = company(example, sandbox)
    run = await team.run("Roman numerals, please")
    assert len(sandbox.calls) == 3
    calls = len(team.env.model.calls)  # type: ignore[union-attr]
    again = await team.replay(run)
    assert again.trajectory.events == run.trajectory.events
    assert len(sandbox.calls) == 3
    assert len(team.env.model.calls) == calls  # type: ignore[union-attr]


async def test_a_company_that_was_killed_anywhere_ends_as_if_it_had_not_been(
    example: ModuleType, tmp_path: Path
) -> None:
    """The files are what the messages say, so there is no workspace that could be lost."""
    whole = tmp_path / "whole.jsonl"
    team = company(example, results(), journal=whole)
    run = await team.run("Roman numerals, please")
    team.close()
    lines = whole.read_bytes().splitlines(keepends=True)
    events = run.trajectory.events
    ends = [
        event.seq
        for event in run.trajectory.of("action_result")
        if event.cause is not None and events[event.cause].data["action"] == "RunTests"
    ]
    assert len(ends) == 3
    for at in range(2, len(lines), 3):
        cut = tmp_path / f"{at}.jsonl"
        cut.write_bytes(b"".join(lines[:at]))
        known = sum(end < at - 1 for end in ends)
        sandbox = results()
        other = company(example, sandbox)
        recovered = await other.recover(cut)
        other.close()
        assert files_in(recovered.trajectory) == files_in(run.trajectory)
        assert list(deeds(recovered.trajectory)) == list(deeds(run.trajectory))
        assert len(sandbox.calls) == 3 - known


def test_the_scenarios_differ_in_the_form_and_in_nothing_else() -> None:
    dag, cyclic = scenarios.software_company, scenarios.software_company_cyclic
    assert dag.reward is cyclic.reward is hidden_tests
    assert dag.tasks.sample(3) == cyclic.tasks.sample(3)
    assert dag.name == "software_company"
    assert cyclic.name == "software_company_cyclic"


def test_the_reward_is_the_share_of_hidden_tests() -> None:
    from rolecraft.trajectories.events import Signal

    signals = [Signal("tests.passed", 3.0), Signal("tests.failed", 1.0)]
    assert hidden_tests(signals).value == 0.75
