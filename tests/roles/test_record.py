"""What actions write into the trajectory themselves, and what comes of it when things fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rolecraft import Action, Environment, Message, Role, ScriptedModel, Team
from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import annotate


class Build(Action):
    async def run(self, history: Any) -> str:
        self.record_tool_call("compile", {"file": "a.py"}, "ok")
        self.record_artifact("a.py", "print(1)")
        self.record_check("a.py", passed=True, said="1 passed")
        return "built"


async def test_tool_calls_artifacts_and_checks_have_the_action_as_cause() -> None:
    role = Role(name="dev", actions=[Build])
    await role.run("go")
    events = role.trajectory.events
    kinds = ["message", "action", "tool_call", "tool_result", "artifact", "verify", "message"]
    assert [event.kind for event in events] == kinds
    assert [event.cause for event in events] == [None, 0, 1, 2, 1, 1, 1]
    assert events[2].data == {"tool": "compile", "arguments": {"file": "a.py"}}
    assert (events[5].data, events[5].content) == ({"target": "a.py", "passed": True}, "1 passed")


async def test_a_recorded_check_is_what_the_verification_detector_looks_for() -> None:
    class NoCheck(Build):
        async def run(self, history: Any) -> str:
            self.record_artifact("a.py", "print(1)")
            return "built"

    verdicts = []
    for action in (Build, NoCheck):
        run = await Team([Role(name="dev", actions=[action])]).run("go")
        report = await annotate(run)
        verdicts += [f.verdict for f in report.findings if f.mode == "verification.absent"]
    assert verdicts == ["absent", "present"]


async def test_a_task_that_outlives_its_round_still_points_to_its_action() -> None:
    """It used to write the handle of a turn that was long numbered: a line no reader takes."""
    late: list[asyncio.Task[str]] = []
    go = asyncio.Event()

    class Later(Action):
        async def run(self, history: Any) -> str:
            async def ask_late() -> str:
                await go.wait()
                return await self.ask("late?")

            late.append(asyncio.create_task(ask_late()))
            return "soon"

    roles = [Role(name=name, actions=[Later]) for name in "ab"]
    env = Environment(roles, model=ScriptedModel(["yes", "yes"]))
    env.publish_message("go")
    await env.run()
    go.set()
    await asyncio.gather(*late)
    calls = list(env.trajectory.of("model_call"))
    assert [env.trajectory.events[call.cause or 0].kind for call in calls] == ["action"] * 2
    assert all(event.cause is None or event.cause < event.seq for event in env.trajectory.events)


@pytest.mark.parametrize("slow", ["a", "b"])
async def test_what_actions_publish_through_the_environment_keeps_its_place(slow: str) -> None:
    class Shout(Action):
        async def run(self, history: Any) -> None:
            for _ in range(5 if self.role.name == slow else 0):
                await asyncio.sleep(0)
            self.role.rc.env.publish_message(Message(f"from {self.role.name}", send_to="<none>"))

    env = Environment([Role(name=name, actions=[Shout]) for name in "ab"])
    env.publish_message("go")
    await env.run()
    said = [event.content for event in env.trajectory.of("message")]
    assert said == ["go", "from a", "from b"]


async def test_one_message_object_said_twice_is_two_messages() -> None:
    class Twice(Action):
        async def run(self, history: Any) -> None:
            message = Message("hello")
            self.role.publish_message(message)
            self.role.publish_message(message)

    role = Role(name="r", actions=[Twice])
    await role.run("go")
    assert [event.content for event in role.trajectory.of("message")] == ["go", "hello", "hello"]


async def test_an_action_put_into_todo_by_hand_is_recorded() -> None:
    class Odd(Role):
        actions = (Build,)

        async def _think(self) -> bool:
            if self.rc.started:
                return False
            self.rc.todo = Build(name="ByHand")
            return True

    role = Odd()
    await role.run("go")
    assert [e.data["action"] for e in role.trajectory.of("action")] == ["ByHand"]


async def test_a_second_run_into_the_same_journal_is_refused(tmp_path: Any) -> None:
    """Two runs in one file would be read as one trajectory."""
    path = tmp_path / "run.jsonl"
    team = Team([Role(name="dev", actions=[Build])], journal=path)
    await team.run("go")
    team.env.close()
    with pytest.raises(UsageError, match="holds a run already"):
        await Team([Role(name="dev", actions=[Build])], journal=path).run("go")


async def test_a_run_stays_as_it_was_when_the_team_runs_again() -> None:
    team = Team([Role(name="dev", actions=[Build])])
    first = await team.run("one")
    before = len(first.trajectory.events)
    await team.run("two")
    assert len(first.trajectory.events) == before
    assert len(team.trajectory.events) > before


async def test_an_error_that_cannot_be_recorded_comes_out_all_the_same() -> None:
    class FullDisk:
        def __init__(self) -> None:
            self.full = False

        def write(self, events: Any) -> None:
            if self.full:
                raise OSError(28, "No space left on device")

    class Fill(Action):
        async def run(self, history: Any) -> str:
            sink.full = True
            raise ValueError("the real one")

    sink = FullDisk()
    env = Environment([Role(name="r", actions=[Fill])])
    env.recorder.sinks = (*env.recorder.sinks, sink)
    env.publish_message("go")
    with pytest.raises(ValueError, match="the real one") as caught:
        await env.run()
    assert any("could not be recorded" in note for note in caught.value.__notes__)


async def test_a_list_swapped_while_a_users_think_waits_is_begun() -> None:
    ran: list[str] = []

    class Note(Action):
        label: str

        async def run(self, history: Any) -> None:
            ran.append(self.label)

    class Waits(Role):
        async def _think(self) -> bool | None:
            found = await super()._think()
            await asyncio.sleep(0)
            return found

    role = Waits(actions=[Note("old")])
    running = asyncio.create_task(role.run("go"))
    await asyncio.sleep(0)
    role.set_actions([Note("new 1"), Note("new 2")])
    await running
    assert ran == ["new 1", "new 2"]
