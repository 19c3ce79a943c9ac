"""Running twice: a role or team that is run again goes on, and `reset()` lets it begin again.

The rule: whatever a first run left (memory, action list, attributes) is there in the second. After
`reset()` the same inputs give the first trace again, byte for byte.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Message, Role, Run, Team, Trajectory
from rolecraft.errors import UsageError
from rolecraft.models import ModelCall
from rolecraft.trajectories.codec import encode_event, encode_line


def written(trajectory: Trajectory) -> list[bytes]:
    return [encode_line(trajectory.header()), *map(encode_event, trajectory.events)]


class Outline(Action):
    """Plans chapters: the action list is another one afterwards."""

    times: int = 0

    async def run(self, history: Any) -> str:
        self.times += 1
        self.role.seen.append(len(history))
        self.role.notes.setdefault("topics", []).append(history[-1].content)
        return f"outline {self.times}"


class Chapter(Action):
    number: int

    async def run(self, history: Any) -> str:
        return f"{self.number}: {await self.ask(f'after {len(history)} messages')}"


class Writer(Role):
    actions = [Outline]
    seen: list[int] = []
    notes: dict[str, list[str]] = {}
    finished: int = 0

    async def _act(self) -> Message | None:
        message = await super()._act()
        if message is not None and message.content.startswith("outline"):
            self.set_actions([Chapter(1), Chapter(2)])
        else:
            self.finished += 1
            self.latest = message
        return message


def answer(call: ModelCall) -> str:
    return f"written {call.messages[-1].content}"


def writer(**fields: Any) -> Writer:
    return Writer(name="Ann", model=FunctionModel(answer), **fields)


def pair(**options: Any) -> Team:
    """A writer, and a reader who hears of chapters."""
    reader = Role(name="Bob", actions=[Outline], watch=[Chapter])
    reader.seen, reader.notes = [], {}
    return Team([writer(), reader], **options)


# --- a role ----------------------------------------------------------------------------------


async def test_a_role_that_is_run_again_keeps_what_it_has() -> None:
    role = writer()
    await role.run("rain")
    message = await role.run("snow")
    assert message is not None
    assert message.content == "2: written after 6 messages", "the chapters again, no outline"
    assert role.finished == 4
    assert role.seen == [1]
    assert [m.content for m in role.rc.memory.get()][:2] == ["rain", "outline 1"]


async def test_after_a_reset_a_role_leaves_the_first_trace_again() -> None:
    role = writer()
    await role.run("rain")
    first = written(role.trajectory)
    for _ in range(2):
        await role.run("snow")
        role.reset()
        await role.run("rain")
        assert written(role.trajectory) == first


async def test_a_reset_takes_back_attributes_lists_and_the_action_list() -> None:
    role = writer(seen=[7])
    await role.run("rain")
    assert hasattr(role, "latest")
    role.reset()
    assert (role.seen, role.notes, role.finished) == ([7], {}, 0)
    assert not hasattr(role, "latest")
    assert role.states == ["0. Outline"]
    assert role.actions[0].times == 0
    assert role.rc.memory.get() == []
    assert role.rc.inbox == []


async def test_a_reset_keeps_what_was_there_before_the_first_run() -> None:
    """Also what the role was told to remember, and how it was set up by hand."""
    role = writer()
    role.rc.memory.add(Message("be brief", sent_from="boss"))
    role.set_actions([Chapter(5), Chapter(6)])
    role._set_react_mode("by_order", max_react_loop=1)
    role.notes["rules"] = ["none"]
    await role.run("rain")
    first = written(role.trajectory)
    role.set_actions([Outline])
    role._watch([Chapter])
    role.notes["rules"].append("one")
    role.reset()
    assert role.states == ["0. Chapter", "1. Chapter"]
    assert role.notes == {"rules": ["none"]}
    assert [m.content for m in role.rc.memory.get()] == ["be brief"]
    await role.run("rain")
    assert written(role.trajectory) == first


async def test_a_reset_before_the_first_run_changes_nothing() -> None:
    role = writer(finished=3)
    role.notes["x"] = []
    role.reset()
    assert (role.finished, role.notes) == (3, {"x": []})


async def test_a_reset_after_a_failure_takes_back_what_was_half_done() -> None:
    class Break(Action):
        async def run(self) -> None:
            self.role.seen.append(0)
            raise ValueError("no")

    role = Role(name="Ann", actions=[Outline, Break])
    role.seen, role.notes = [], {}
    with pytest.raises(ValueError, match="no"):
        await role.run("rain")
    first = written(role.trajectory)
    role.reset()
    assert role.seen == []
    with pytest.raises(ValueError, match="no"):
        await role.run("rain")
    assert written(role.trajectory) == first


async def test_a_role_cannot_be_reset_while_it_acts() -> None:
    class Reset(Action):
        async def run(self) -> None:
            self.role.reset()

    with pytest.raises(UsageError, match="is already running"):
        await Role(name="Ann", actions=[Reset]).run("go")


# --- a team ----------------------------------------------------------------------------------


async def test_a_team_that_is_run_again_goes_on_in_the_same_record() -> None:
    team = pair()
    first = await team.run("rain")
    second = await team.run("snow")
    before = len(first.trajectory.events)
    assert second.trajectory.events[:before] == first.trajectory.events
    assert second.trajectory.events[before].content == "snow"
    assert [event.data["reason"] for event in second.trajectory.of("stop")] == ["idle", "idle"]
    said = [event.content for event in second.trajectory.of("message") if event.role == "Ann"]
    assert said[0] == "outline 1"
    assert sum(text.startswith("outline") for text in said) == 1


async def test_after_a_reset_a_team_leaves_the_first_trace_again() -> None:
    team = pair()
    first = await team.run("rain")
    for _ in range(2):
        await team.run("snow")
        team.reset()
        assert written((await team.run("rain")).trajectory) == written(first.trajectory)


async def test_after_a_reset_a_team_records_to_another_file(tmp_path: Path) -> None:
    team = pair(journal=tmp_path / "first.jsonl")
    await team.run("rain")
    team.reset()
    team.env.journal = tmp_path / "second.jsonl"
    await team.run("rain")
    team.close()
    assert (tmp_path / "first.jsonl").read_bytes() == (tmp_path / "second.jsonl").read_bytes()


async def test_after_a_reset_without_a_file_it_records_to_memory(tmp_path: Path) -> None:
    team = pair(journal=tmp_path / "first.jsonl")
    first = await team.run("rain")
    before = (tmp_path / "first.jsonl").read_bytes()
    team.reset()
    assert written((await team.run("rain")).trajectory) == written(first.trajectory)
    assert (tmp_path / "first.jsonl").read_bytes() == before


async def test_a_team_cannot_be_reset_while_it_runs() -> None:
    class Reset(Action):
        async def run(self) -> None:
            team.reset()

    team = Team([Role(name="Ann", actions=[Reset])])
    with pytest.raises(UsageError, match="is already running"):
        await team.run("go")


async def test_a_team_can_be_reset_after_it_was_cancelled() -> None:
    entered = asyncio.Event()

    class Wait(Action):
        async def run(self) -> str:
            if not entered.is_set():
                entered.set()
                await asyncio.Event().wait()
            return "waited"

    team = Team([Role(name=name, actions=[Wait]) for name in ("Ann", "Bob")])
    running = asyncio.create_task(team.run("go"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    team.reset()
    run = await team.run("go")
    assert [event.content for event in run.trajectory.of("message")] == ["go", "waited", "waited"]


# --- one role of a team ----------------------------------------------------------------------


async def forgetful() -> tuple[Team, Run]:
    team = pair()
    await team.run("rain")
    team.roles["Ann"].reset()
    return team, await team.run("snow")


async def test_one_role_of_a_team_can_be_reset_and_the_record_says_so() -> None:
    team, run = await forgetful()
    (reset,) = run.trajectory.of("reset")
    assert reset.role == "Ann"
    said = [event.content for event in run.trajectory.of("message") if event.role == "Ann"]
    assert [text for text in said if text.startswith("outline")] == ["outline 1", "outline 1"]
    assert team.roles["Ann"].finished == 2
    assert team.roles["Bob"].seen == [2, 5], "the other remembers"


async def test_no_key_and_no_id_is_given_twice_in_a_record() -> None:
    _, run = await forgetful()
    runs = [(e.role, e.data["run"]) for e in run.trajectory.of("action")]
    ids = [event.data["id"] for event in run.trajectory.of("message")]
    sessions = [event.data["session"] for event in run.trajectory.of("model_call")]
    for given in (runs, ids, sessions):
        assert len(set(given)) == len(given) > 2


async def test_a_role_of_a_team_that_is_reset_hears_what_it_heard_at_first() -> None:
    team = pair()
    await team.run("rain")
    team.roles["Bob"]._watch([Outline])
    await team.run("snow")
    team.roles["Bob"].reset()
    run = await team.run("hail")
    assert run.message is not None
    assert run.message.sent_from == "Bob"


async def test_a_run_in_which_a_role_was_reset_is_replayed() -> None:
    team, run = await forgetful()
    assert written((await team.replay(run)).trajectory) == written(run.trajectory)


async def test_a_run_in_which_a_role_was_reset_is_gone_on_with() -> None:
    team, run = await forgetful()
    again = pair()
    await again.recover(run)
    assert again.roles["Ann"].finished == 2
    assert written((await again.run("hail")).trajectory) == written(
        (await team.run("hail")).trajectory
    )
