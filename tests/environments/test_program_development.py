"""`program_development`: what a program prints is compared outside of where it runs."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Role, Trajectory
from rolecraft.environments import Task
from rolecraft.environments.program_development import (
    HELD_OUT,
    PROGRAMS,
    ProgramEnvironment,
    ProgramTasks,
)
from rolecraft.errors import UnknownName
from rolecraft.messages import Message
from rolecraft.roles.ready.source_files import SourceFile, files_in
from rolecraft.sandboxes import Execution, FunctionSandbox


class HandIn(Action):
    """Hand in files that are written already."""

    files: dict[str, str]

    async def run(self) -> None:
        for path, content in self.files.items():
            self.role.publish_message(SourceFile(path=path, content=content).message())


def printing(text: str = "", **execution: Any) -> FunctionSandbox:
    """A sandbox in which every program prints `text`."""
    done = Execution(**{"exit_code": 0, "stdout": text, **execution})
    return FunctionSandbox(lambda call: done)


async def measured(
    task: Task, files: dict[str, str], **options: Any
) -> tuple[dict[str, float], Trajectory]:
    env = ProgramEnvironment(task, [Role(name="Ann", actions=[HandIn(files)])], **options)
    trajectory = await env.episode()
    return {signal.name: signal.value for signal in trajectory.signals}, trajectory


# --- tasks -----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others() -> None:
    tasks = ProgramTasks().sample(30, seed=3)
    assert tasks == ProgramTasks().sample(30, seed=3)
    assert tasks != ProgramTasks().sample(30, seed=4)
    assert len({task.id for task in tasks}) == 30


def test_a_program_is_in_one_split_only() -> None:
    train, test = (ProgramTasks().sample(40, split=split) for split in ("train", "test"))
    programs = [{task.data["program"] for task in split} for split in (train, test)]
    assert programs[1] == HELD_OUT
    assert not programs[0] & programs[1]
    assert len(programs[0] | programs[1]) == len(PROGRAMS) >= 10


def test_the_team_sees_the_example_and_no_hidden_test() -> None:
    for task in ProgramTasks().sample(10):
        assert task.data["example"]["stdout"].strip() in task.prompt
        inputs = [test["stdin"] for test in task.data["tests"]]
        assert len(set(inputs)) == 6
        assert task.data["example"]["stdin"] not in inputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_hidden_tests_tell_programs_apart(name: str) -> None:
    """No single output is right for most of them, so that a constant program fails."""
    tests = ProgramTasks(hidden=20).task(name).data["tests"]
    outputs = [test["stdout"] for test in tests]
    assert max(map(outputs.count, outputs)) <= 4


def test_an_unknown_program_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'snake'"):
        ProgramTasks().task("snakes")


# --- grading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
async def test_the_reference_passes_its_hidden_tests_in_the_sandbox(
    name: str, needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    task = ProgramTasks(hidden=2).task(name)
    signals, trajectory = await measured(task, PROGRAMS[name].files)
    assert signals == {
        "files.written": 2.0,
        "code.runs": 1.0,
        "example.passed": 1.0,
        "tests.passed": 2.0,
        "tests.failed": 0.0,
        "test.1": 1.0,
        "test.2": 1.0,
        "turns": 1.0,
    }
    assert trajectory.stop_reason == "idle"


async def test_a_program_that_knows_only_the_example_passes_no_hidden_test(
    needs_program: Any,
) -> None:
    needs_program("bwrap", package="bubblewrap")
    task = ProgramTasks(hidden=3).task("roman")
    signals, _ = await measured(task, {"main.py": f"print({task.data['example']['stdout']!r})"})
    assert signals["code.runs"] == signals["example.passed"] == 1.0
    assert (signals["tests.passed"], signals["tests.failed"]) == (0.0, 3.0)


async def test_no_right_output_is_ever_inside_the_sandbox() -> None:
    task = ProgramTasks().task("caesar")
    sandbox = printing("nothing")
    await measured(task, {"main.py": "pass"}, sandbox=sandbox)
    assert len(sandbox.calls) == 7
    for call in sandbox.calls:
        assert call.files == {"main.py": "pass"}
        inputs = [test["stdin"] for test in [task.data["example"], *task.data["tests"]]]
        assert call.stdin in inputs


@pytest.mark.parametrize("end", [{"exit_code": 1}, {"timed_out": True, "exit_code": 137}])
async def test_a_right_output_of_a_program_that_breaks_off_does_not_count(
    end: dict[str, Any],
) -> None:
    task = ProgramTasks(hidden=1).task("roman")
    right = printing(task.data["tests"][0]["stdout"], **end)
    signals, _ = await measured(task, {"main.py": "pass"}, sandbox=right)
    assert signals["tests.passed"] == signals["code.runs"] == 0.0


async def test_without_a_main_file_nothing_runs_and_every_test_fails() -> None:
    sandbox = printing()
    task = ProgramTasks().task("bank")
    signals, _ = await measured(task, {"bank.py": "pass"}, sandbox=sandbox)
    assert sandbox.calls == []
    assert (signals["files.written"], signals["tests.failed"]) == (1.0, 6.0)


async def test_the_last_word_on_a_file_counts() -> None:
    class Twice(Role):
        actions = [HandIn({"main.py": "1"}), HandIn({"main.py": "2", "a/b.py": "3"})]

    env = ProgramEnvironment(ProgramTasks().task("bank"), [Twice()], sandbox=printing())
    await env.episode()
    assert env.files == {"main.py": "2", "a/b.py": "3"}


async def test_the_files_are_in_the_record_and_nowhere_else(tmp_path: Path) -> None:
    """A run that is read back from its journal has its files again."""
    files = {"main.py": "print('é')\n", "lib/rules.py": "x = 1\n"}
    journal = tmp_path / "run.jsonl"
    env = ProgramEnvironment(
        ProgramTasks().task("bank"),
        [Role(name="Ann", actions=[HandIn(files)])],
        sandbox=printing(),
        journal=journal,
    )
    await env.episode()
    assert env.files == files_in(Trajectory.load(journal)) == files
    assert os.listdir(tmp_path) == ["run.jsonl"]


async def test_any_teams_own_type_with_a_path_and_a_content_is_a_file() -> None:
    from pydantic import BaseModel

    class Page(BaseModel):
        path: str
        content: str

    class WritePage(Action):
        async def run(self) -> Page:
            return Page(path="main.py", content="pass")

    class Escape(Action):
        async def run(self) -> Message:
            return Message("out", instruct_content=Page(path="../main.py", content="bad"))

    task = ProgramTasks(hidden=1).task("bank")
    team = [Role(name="Ann", actions=[WritePage, Escape])]
    env = ProgramEnvironment(task, team, sandbox=printing())
    await env.episode()
    assert env.files == {"main.py": "pass"}


def test_a_reference_stands_alone() -> None:
    """Its source is handed over as a file, so it can use no name of its module."""
    for program in PROGRAMS.values():
        names: dict[str, Any] = {}
        exec(inspect.getsource(program.solve), names)
        assert names[program.solve.__name__](program.example) == program.solve(program.example)
