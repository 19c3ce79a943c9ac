"""`CodeAct`: mends a small repository end to end, and every way in which its run ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Role, ScriptedModel, Team
from rolecraft.actions import tool
from rolecraft.actions.codeact import RunTests, codeact_tools
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.errors import UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models import Completion
from rolecraft.roles.ready.codeact import CodeAct, WorkInSandbox
from rolecraft.sandboxes import LocalProcess, SandboxSpec
from rolecraft.sandboxes.live import LiveSandbox, SandboxProvider
from rolecraft.sandboxes.test_runners import Pytest
from rolecraft.trajectories.events import Signal

REPOSITORY = {
    "shapes.py": "def area(width, height):\n    return width + height\n",
    "tests/test_shapes.py": (
        "from shapes import area\n\n\ndef test_area():\n    assert area(2, 3) == 6\n\n\n"
        "def test_nothing():\n    assert area(0, 0) == 0\n"
    ),
}


PYTEST = Pytest(python=sys.executable, options=("-p", "no:cacheprovider"))
TOOLS = [
    RunTests(runner=PYTEST) if isinstance(tool, RunTests) else tool for tool in codeact_tools()
]


def calls(*named: tuple[str, dict[str, Any]]) -> Completion:
    return Completion(
        text="",
        tool_calls=[
            ToolCall(name, arguments, str(at)) for at, (name, arguments) in enumerate(named)
        ],
    )


class Repair(TaskEnvironment):
    """A repository with a bug, graded by its tests."""

    sandbox: LiveSandbox
    provider: SandboxProvider = LocalProcess()

    async def setup(self) -> None:
        self.sandbox = await self.provider.create(SandboxSpec(files=REPOSITORY))

    async def grade(self) -> list[Signal]:
        report = (await PYTEST.run(self.sandbox)).report
        return [
            Signal("tests.passed", float(len(report.passed))),
            Signal("tests.failed", float(len(report.failed))),
        ]

    async def aclose(self) -> None:
        await self.sandbox.close()
        await super().aclose()


async def test_a_scripted_role_mends_a_bug_end_to_end() -> None:
    script = [
        calls(("execute_bash", {"command": "ls; cd tests"})),
        calls(("search_files", {"pattern": r"def area"}), ("run_tests", {})),
        calls(("str_replace_editor", {"command": "view", "path": "shapes.py"})),
        calls(
            (
                "str_replace_editor",
                {
                    "command": "str_replace",
                    "path": "shapes.py",
                    "old_str": "width + height",
                    "new_str": "width * height",
                },
            )
        ),
        calls(("execute_bash", {"command": "basename $PWD; git diff --stat 2>/dev/null; true"})),
        calls(("run_tests", {"tests": ["tests/test_shapes.py::test_area"]})),
        calls(("finish", {"message": "`area` multiplies now; the tests pass."})),
    ]
    env = Repair(
        Task("shapes", "area(2, 3) is 5"), [CodeAct(model=ScriptedModel(script), tools=TOOLS)]
    )
    trajectory = await env.episode()
    assert trajectory.stop_reason == "finished"
    signals = {signal.name: signal.value for signal in trajectory.signals}
    assert (signals["tests.passed"], signals["tests.failed"]) == (2, 0)
    told = [event.content for event in trajectory.of("tool_result")]
    assert "tests\n[exit code 0]" in told[0]
    assert told[1] == "shapes.py\n1:def area(width, height):"
    assert told[2].startswith("1 passed, 1 failed\nfailed: tests/test_shapes.py::test_area\n")
    assert told[5] == "tests\n[exit code 0]"  # the shell was still in the folder
    assert told[6] == "1 passed"
    checks = [event.data["passed"] for event in trajectory.of("verify")]
    assert checks == [False, True]
    (artifact,) = trajectory.of("artifact")
    assert artifact.artifact is not None
    assert artifact.artifact.name == "shapes.py"
    last = [*trajectory.of("message")][-1]
    assert last.content == "`area` multiplies now; the tests pass."
    assert last.data["metadata"] == {"ended": "finished"}


async def played(*replies: Any, **fields: Any) -> Message:
    async with await LocalProcess().create(SandboxSpec(files=REPOSITORY)) as sandbox:
        role = CodeAct(model=ScriptedModel(replies), actions=[WorkInSandbox(**fields)])
        team = Team([role])
        team.env.sandbox = sandbox  # type: ignore[attr-defined]
        await team.run("go")
        return role.rc.memory.get()[-1]


SAME = calls(("execute_bash", {"command": "echo x >> log; cat log"}))
OTHER = calls(("execute_bash", {"command": "true"}))


async def test_the_same_action_three_turns_running_ends_the_run_before_the_third() -> None:
    last = await played(SAME, SAME, SAME)
    assert last.metadata == {"ended": "stuck"}
    assert "echo x >> log" in last.content


async def test_the_same_action_with_another_between_is_no_circle() -> None:
    last = await played(SAME, SAME, OTHER, SAME, SAME, "That is all.")
    assert (last.content, last.metadata) == ("That is all.", {"ended": "said"})


async def test_a_role_that_never_finishes_ends_after_max_steps_without_an_error() -> None:
    last = await played(SAME, OTHER, SAME, OTHER, max_steps=4)
    assert last.metadata == {"ended": "max_steps"}


async def test_a_model_that_calls_a_tool_wrongly_is_told_and_goes_on() -> None:
    wrong = calls(("execute_bash", {"cmd": "ls"}), ("finish", {}))
    last = await played(wrong, calls(("finish", {"message": "done"})))
    assert (last.content, last.metadata) == ("done", {"ended": "finished"})


def test_a_bound_that_would_stop_every_run_is_an_error() -> None:
    with pytest.raises(UsageError, match="2 or more"):
        WorkInSandbox(same_turns=1)


async def test_any_tool_can_end_a_roles_work() -> None:
    """`ends=True` is no privilege of `finish`; other calls of the same answer still run."""
    done: list[str] = []

    @tool(ends=True)
    async def submit(answer: int) -> int:
        """Submit the answer."""
        done.append("submit")
        return answer

    @tool
    async def note(text: str) -> None:
        """Take a note."""
        done.append(text)

    script = [calls(("submit", {"answer": 42}), ("note", {"text": "after"}))]
    role = Role(name="Ann", tools=[submit, note], model=ScriptedModel(script))
    team = Team([role])
    run = await team.run("go")
    assert role.rc.memory.get()[-1].content == "42"
    assert done == ["submit", "after"]
    assert run.trajectory.stop_reason == "finished"


async def test_a_run_that_broke_off_goes_on_in_a_new_sandbox_without_asking_again(
    tmp_path: Path,
) -> None:
    """The calls are done again, because the new sandbox begins at the beginning."""
    arguments = {
        "command": "str_replace",
        "path": "shapes.py",
        "old_str": "width + height",
        "new_str": "width * height",
    }
    begun = [
        calls(("execute_bash", {"command": "cd tests; pwd; date +%N"})),  # never twice the same
        calls(("str_replace_editor", arguments), ("no_tool", {})),
    ]
    task, journal = Task("shapes", "area(2, 3) is 5"), tmp_path / "run.jsonl"
    broken = ScriptedModel([*begun, ConnectionResetError("the server is gone")])
    with pytest.raises(ConnectionResetError):
        await Repair(task, [CodeAct(model=broken, tools=TOOLS)], journal=journal).episode()
    rest = ScriptedModel(
        [
            calls(("execute_bash", {"command": "basename $PWD; grep -c '\\*' ../shapes.py"})),
            calls(("finish", {"message": "Mended."})),
        ]
    )
    env = Repair(task, [CodeAct(model=rest, tools=TOOLS)])
    trajectory = await env.recover(journal)
    assert len(rest.calls) == 2
    assert trajectory.stop_reason == "finished"
    told = [event.content for event in trajectory.of("tool_result")]
    assert told[3] == "tests\n1\n[exit code 0]"
    signals = {signal.name: signal.value for signal in trajectory.signals}
    assert (signals["tests.passed"], signals["tests.failed"]) == (2, 0)


async def test_a_run_that_was_over_is_graded_again_with_its_work_done_again(
    tmp_path: Path,
) -> None:
    """Nobody is asked, but the new sandbox must hold what the role has made."""
    arguments = {"path": "shapes.py", "content": "def area(a, b):\n    return a * b\n"}
    script = [calls(("write_file", arguments)), calls(("finish", {"message": "Mended."}))]
    task, journal = Task("shapes", "area(2, 3) is 5"), tmp_path / "run.jsonl"
    first = Repair(task, [CodeAct(model=ScriptedModel(script), tools=TOOLS)], journal=journal)
    was = await first.episode()
    nobody = ScriptedModel()
    again = await Repair(task, [CodeAct(model=nobody, tools=TOOLS)]).recover(journal)
    assert not nobody.calls
    assert [(each.name, each.value) for each in again.signals] == [
        (each.name, each.value) for each in was.signals
    ]
    assert ("tests.passed", 2.0) in [(each.name, each.value) for each in again.signals]


async def test_a_replay_does_nothing_in_the_sandbox() -> None:
    async with await LocalProcess().create(SandboxSpec(files=REPOSITORY)) as sandbox:
        team = Team([CodeAct(model=ScriptedModel([SAME, "Done."]))])
        team.env.sandbox = sandbox  # type: ignore[attr-defined]
        run = await team.run("go")
        again = await team.replay(run)
        assert again.trajectory.events == run.trajectory.events
        assert await sandbox.read("log") == b"x\n"
