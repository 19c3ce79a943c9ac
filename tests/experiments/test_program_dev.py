"""The 32 programs: each has a reference that passes, and planted mistakes that do not.

Everything runs in the sandbox. Three programs are checked every time, all of them with `-m slow`.
"""

from __future__ import annotations

from typing import Any

import pytest
from planted_mistakes import MISTAKES

from rolecraft import Action, Role
from rolecraft.environments import Task
from rolecraft.environments.program_development import (
    ENTRY_POINT,
    PROGRAMS,
    ProgramEnvironment,
    program_dev,
    records,
)
from rolecraft.roles.ready.source_files import SourceFile
from rolecraft.sandboxes import Execution, FunctionSandbox

TASKS = {task.data["program"]: task for task in program_dev()}
QUICK = ("roman", "template", "search_files")
EACH = [
    pytest.param(name, id=name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in TASKS
]


class HandIn(Action):
    """Hand in files that are written already."""

    files: dict[str, str]

    async def run(self) -> None:
        for path, content in self.files.items():
            self.role.publish_message(SourceFile(path=path, content=content).message())


async def failed(task: Task, files: dict[str, str], **options: Any) -> tuple[float, bool]:
    """How many hidden tests fail, and whether the example is right."""
    env = ProgramEnvironment(task, [Role(name="Ann", actions=[HandIn(files)])], **options)
    signals = {signal.name: signal.value for signal in (await env.episode()).signals}
    return signals["tests.failed"], signals["example.passed"] == 1


def reference(name: str) -> dict[str, str]:
    if name in PROGRAMS:
        return PROGRAMS[name].files
    return {ENTRY_POINT: records()[name].reference}


def mistaken(name: str, number: int) -> dict[str, str]:
    right, wrong = MISTAKES[name][number]
    files = reference(name)
    path = next(path for path in files if path != ENTRY_POINT or len(files) == 1)
    assert right in files[path], f"the reference of {name} has no {right!r}"
    return {**files, path: files[path].replace(right, wrong, 1)}


def test_there_are_32_programs_and_two_mistakes_for_each() -> None:
    assert len(TASKS) == 32
    assert MISTAKES.keys() == TASKS.keys()
    assert all(len(mistakes) >= 2 for mistakes in MISTAKES.values())


@pytest.mark.parametrize("name", EACH)
async def test_the_reference_passes_and_each_mistake_is_found(
    name: str, needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    task = TASKS[name]
    assert await failed(task, reference(name)) == (0, True)
    for number in range(len(MISTAKES[name])):
        wrong, _ = await failed(task, mistaken(name, number))
        assert wrong >= 1, f"mistake {number} of {name} is not found"


@pytest.mark.parametrize("name", TASKS)
def test_no_single_output_passes_and_the_team_sees_the_example_only(name: str) -> None:
    data = TASKS[name].data
    assert len(data["tests"]) >= 6
    outputs = [test["stdout"] for test in data["tests"]]
    assert max(map(outputs.count, outputs)) <= len(outputs) / 2
    assert data["example"]["stdout"].rstrip() in TASKS[name].prompt
    assert data["example"] not in data["tests"]


async def test_a_test_brings_its_arguments_and_files_and_the_teams_give_way() -> None:
    sandbox = FunctionSandbox(lambda call: Execution(exit_code=0))
    files = {"main.py": "pass", "rules.py": "", "data": "in the way", "data2/a": "kept"}
    await failed(TASKS["duplicate_files"], files, sandbox=sandbox)
    first = sandbox.calls[0]
    assert list(first.command) == ["python3", "main.py", "data"]
    assert set(first.files) == {
        "main.py", "rules.py", "data2/a", "data/a.txt", "data/sub/b.txt", "data/c.txt"
    }  # fmt: skip
