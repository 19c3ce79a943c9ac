"""Roles with a long-term memory: what they keep, and what they recall in which run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecraft import (
    Action,
    Environment,
    Message,
    Role,
    ScriptedModel,
    Team,
    UserRequirement,
)
from rolecraft.actions.failed import failed
from rolecraft.errors import LongTermMemoryError, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.roles import Remembered, SqliteMemory, UseTools, recall


class Note(Action):
    async def run(self, history: Sequence[Message]) -> str:
        return f"noted: {history[-1].content}"


class Look(Action):
    """Say what is remembered of the last message."""

    async def run(self, history: Sequence[Message]) -> str:
        found = await self.recall(history[-1].content, 2)
        return " | ".join(each.content for each in found) or "nothing"


class Lister:
    """A memory in a list that finds everything, and counts how often it was asked."""

    def __init__(self) -> None:
        self.kept: list[Remembered] = []
        self.asked: list[str] = []

    async def add(self, memories: Sequence[Remembered]) -> None:
        self.kept += [each for each in memories if each not in self.kept]

    async def search(self, query: str, k: int = 5) -> list[Remembered]:
        self.asked.append(query)
        return self.kept[::-1][:k]

    async def forget(self, ids: Iterable[str] = (), **of: Any) -> int:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


# --- what is kept ----------------------------------------------------------------------------


async def test_what_a_role_takes_up_and_says_is_kept_with_where_it_came_from() -> None:
    memory = Lister()
    await Role(name="Ann", actions=[Note], long_term=memory).run("tea at four")
    assert [(m.source, m.content, m.trajectory, m.message) for m in memory.kept] == [
        ("user", "tea at four", "Ann", "user>Ann:1"),
        ("Ann", "noted: tea at four", "Ann", "Ann:2"),
    ]
    assert memory.kept[0].cause_by == "rolecraft.actions.UserRequirement"
    assert memory.kept[1].cause_by == Note().address


async def test_roles_that_share_a_memory_keep_each_message_once() -> None:
    memory = Lister()
    ann = Role(name="Ann", actions=[Note], long_term=memory)
    bob = Role(name="Bob", actions=[Note], watch=[Note], long_term=memory)
    await Team([ann, bob], id="monday").run("tea")
    assert [m.content for m in memory.kept] == ["tea", "noted: tea", "noted: noted: tea"]
    assert {m.trajectory for m in memory.kept} == {"monday"}


async def test_empty_messages_are_not_kept() -> None:
    class Sigh(Action):
        async def run(self) -> str:
            return "  "

    memory = Lister()
    await Role(name="Ann", actions=[Sigh], long_term=memory).run("tea")
    assert [m.content for m in memory.kept] == ["tea"]


async def test_without_a_memory_nothing_is_kept_and_recalling_says_how_to_get_one() -> None:
    role = Role(name="Ann", actions=[Look])
    with pytest.raises(UsageError, match=r"'Ann' .*no long-term memory.*Role\(long_term="):
        await role.run("tea")


# --- what is recalled ------------------------------------------------------------------------


async def test_an_action_recalls_what_an_earlier_run_kept(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        for told in ("Ann likes tea.", "Bob likes coffee."):
            await Role(name="Ann", actions=[Note], long_term=memory).run(told)
        asked = Role(name="Ann", actions=[Look], long_term=memory)
        answer = await asked.run("Who likes coffee?")
    assert str(answer) == "Ann: Bob likes coffee. | noted: Bob likes coffee."


async def test_a_recall_is_a_tool_call_in_the_record() -> None:
    memory = Lister()
    await memory.add([Remembered("tea at four", "Ann")])
    role = Role(name="Bob", actions=[Look], long_term=memory)
    await role.run("when?")
    call, result = role.trajectory.of("tool_call", "tool_result")
    assert call.data["tool"] == "recall"
    assert call.data["arguments"] == {"query": "when?", "k": 2}
    assert '"content": "tea at four"' in result.content
    assert result.cause == call.seq


async def test_a_role_recalls_in_its_own_code_too() -> None:
    class Knowing(Role):
        async def _act(self) -> Message | None:
            found = await self.recall("tea", 1)
            return Message(found[0].content if found else "nothing")

    memory = Lister()
    await memory.add([Remembered("tea at four")])
    assert str(await Knowing(name="Ann", actions=[Note], long_term=memory).run("?")) == (
        "Ann: tea at four"
    )


async def test_a_model_may_recall_by_itself() -> None:
    memory = Lister()
    await memory.add([Remembered("tea at four", "Bob")])
    calls = [ToolCall("recall", {"query": "tea", "k": 1}, id="c1")]
    model = ScriptedModel([Completion(text="", tool_calls=calls), "At four."])
    role = Role(name="Ann", model=model, long_term=memory, actions=[UseTools(tools=[recall])])
    assert str(await role.run("When is tea?")) == "Ann: At four."
    assert "tea at four" in model.calls[-1].messages[-1].content


async def test_what_fits_the_news_best_is_in_the_prompt() -> None:
    class Ask(Action):
        async def run(self, history: Sequence[Message]) -> str:
            return await self.ask(history[-1].content)

    memory = Lister()
    model = ScriptedModel(["At four.", "Yes."])
    role = Role(name="Ann", goal="help", actions=[Ask], model=model, long_term=memory, recall_top=2)
    await role.run("When is tea?")
    assert model.calls[0].messages[0].content == "Your goal: help."
    await role.run("Really?")
    assert model.calls[1].messages[0].content == (
        "Your goal: help.\n\nWhat you remember from the past:\n"
        "- Ann: At four.\n- user: When is tea?"
    )
    assert memory.asked == ["When is tea?", "Really?"]


# --- in which run ----------------------------------------------------------------------------


class Slow(Action):
    steps: int = 0

    async def run(self, history: Sequence[Message]) -> str:
        for _ in range(self.steps):
            await asyncio.sleep(0)
        found = await self.recall("tea coffee wine", 9)
        return f"{self.role.name} tea {len(found)}"


@pytest.mark.parametrize(("ann", "bob"), [(0, 0), (0, 40), (40, 0)])
async def test_what_is_recalled_does_not_depend_on_who_is_faster(ann: int, bob: int) -> None:
    """What is said in a round is kept when the round is over, in the order of the roles."""
    async with SqliteMemory(":memory:") as memory:
        await memory.add([Remembered("wine at eight", "Eve")])
        everybody = [Slow, UserRequirement]
        env = Environment(
            [
                Role(name="Ann", actions=[Slow(steps=ann)], watch=everybody, long_term=memory),
                Role(name="Bob", actions=[Slow(steps=bob)], watch=everybody, long_term=memory),
            ]
        )
        env.publish_message(Message("coffee at ten"))
        await env.run(3)
        said = [event.content for event in env.trajectory.of("message")]
        results = [event.content for event in env.trajectory.of("tool_result")]
    assert said[1:] == [f"{name} tea {count}" for count in (1, 4, 6) for name in ("Ann", "Bob")]
    assert results[-1].index("Bob tea 4") < results[-1].index("Ann tea 4"), "the later first"


async def test_a_replay_recalls_from_the_record_and_keeps_nothing() -> None:
    memory = Lister()
    await memory.add([Remembered("tea at four")])

    def team(memory: Any) -> Team:
        return Team([Role(name="Ann", actions=[Look], long_term=memory)])

    run = await team(memory).run("when?")
    memory.kept.append(Remembered("tea at five"))
    empty = Lister()
    again = await team(empty).replay(run.trajectory)
    assert again.message is not None
    assert again.message.content == "tea at four"
    assert empty.asked == []
    assert empty.kept == []


async def test_a_reset_role_still_remembers() -> None:
    memory = Lister()
    role = Role(name="Ann", actions=[Look], long_term=memory)
    await role.run("tea")
    role.reset()
    assert role.long_term is memory
    await role.run("tea")
    assert memory.asked == ["tea", "tea"]
    assert str(role.rc.memory.get()[-1]) == "Ann: nothing | tea"


async def test_a_memory_that_fails_is_an_error_and_what_it_missed_is_kept_later() -> None:
    class Broken(Lister):
        broken = True

        async def add(self, memories: Sequence[Remembered]) -> None:
            if self.broken:
                raise LongTermMemoryError("m.db", "cannot be used: disk full")
            await super().add(memories)

    memory = Broken()
    role = Role(name="Ann", actions=[Note], long_term=memory)
    with pytest.raises(LongTermMemoryError, match="disk full"):
        await role.run("tea")
    memory.broken = False
    await role.run("coffee")
    assert [m.content for m in memory.kept] == [
        "tea", "noted: tea", "coffee", "noted: coffee",
    ]  # fmt: skip


# --- working memory --------------------------------------------------------------------------


async def test_working_memory_is_empty_again_for_the_next_task() -> None:
    class Keeping(Role):
        async def _act(self) -> Message | None:
            self.rc.working_memory.add(Message("a note"))
            self.seen = self.rc.working_memory.count()
            return await super()._act()

    role = Keeping(actions=[Note])
    for _ in range(2):
        await role.run("tea")
        assert role.seen == 1
        assert len(role.rc.working_memory) == 0


async def test_working_memory_lasts_until_a_step_of_the_plan_succeeds() -> None:
    class Step(Action):
        async def run(self) -> str | Message:
            return failed("no bread") if not self.role.seen else "done"

    class Keeping(Role):
        actions = [Step]
        react_mode = "plan_and_act"
        seen: Sequence[int] = ()

        async def _act(self) -> Message | None:
            message = await super()._act()
            self.rc.working_memory.add(Message("a note"))
            self.seen = [*self.seen, self.rc.working_memory.count()]
            return message

    plan = '{"steps": [{"action": "Step"}, {"action": "Step"}]}'
    role = Keeping(model=ScriptedModel([plan, plan]))
    await role.run("breakfast")
    assert role.seen == [1, 2, 1], "failed, done instead, the step after it"


async def test_an_error_of_an_action_is_not_hidden_by_one_of_the_memory() -> None:
    class Fail(Action):
        async def run(self) -> str:
            raise ConnectionError("the archive is down")

    class Broken(Lister):
        async def add(self, memories: Sequence[Remembered]) -> None:
            raise LongTermMemoryError("m.db", "cannot be used: disk full")

    with pytest.raises(ConnectionError, match="archive"):
        await Team([Role(name="Ann", actions=[Fail], long_term=Broken())]).run("tea")
    team = Team([Role(name="Ann", actions=[Note], long_term=Broken())])
    with pytest.raises(LongTermMemoryError, match="disk full"):
        await team.run("tea")
    assert [event.content for event in team.trajectory.of("message")] == ["tea", "noted: tea"]


async def test_a_run_that_was_killed_anywhere_recalls_and_keeps_as_if_it_had_not_been(
    tmp_path: Path,
) -> None:
    """Also when the process died between the end of a round and the keeping of what it said."""

    class Following(Lister):
        """Knows what it held when the journal had a given length."""

        def __init__(self) -> None:
            super().__init__()
            self.then: list[tuple[int, list[Remembered]]] = [(0, [])]

        async def add(self, memories: Sequence[Remembered]) -> None:
            await super().add(memories)
            self.then.append((journal.stat().st_size, list(self.kept)))

    def team(memory: Any, **options: Any) -> Team:
        ann = Role(name="Ann", actions=[Look], long_term=memory)
        bob = Role(name="Bob", actions=[Look], watch=[Look, UserRequirement], long_term=memory)
        cy = Role(name="Cy", actions=[Look], watch=[Look], long_term=memory)
        return Team([ann, bob, cy], **options)

    journal, memory = tmp_path / "whole.jsonl", Following()
    whole_team = team(memory, journal=journal)
    await whole_team.run("tea", rounds=3)
    whole_team.env.close()
    whole = journal.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in ends[1:-1]:
        known = [kept for size, kept in memory.then if size <= cut]
        for held in known[-2:]:
            path = tmp_path / "cut.jsonl"
            path.write_bytes(whole[:cut])
            again = Lister()
            again.kept = list(held)
            recovering = team(again)
            await recovering.recover(path)
            recovering.env.close()
            assert path.read_bytes() == whole, f"cut at {cut}"
            assert again.kept == memory.kept, f"cut at {cut}"
