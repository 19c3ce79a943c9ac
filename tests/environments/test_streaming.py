"""A run as a stream: its events as they are recorded, and pieces of answers before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Role, Team, Trajectory
from rolecraft.environments.streaming import Delta
from rolecraft.errors import ModelUnavailable, UsageError
from rolecraft.models import ModelCall
from rolecraft.trajectories import Event
from rolecraft.trajectories.codec import encode_event


class Tell(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(f"{self.role.name}: {history[-1].content}?")


class Retell(Tell): ...


def answer(call: ModelCall) -> str:
    return f"I, {call.role}, say so"


def tellers(model: FunctionModel | None = None, **options: Any) -> Team:
    """Two act in the first round, one of them again in the second."""
    return Team(
        [
            Role(name="Ann", actions=[Tell]),
            Role(name="Bob", actions=[Retell]),
            Role(name="Cy", actions=[Tell], watch=[Retell]),
        ],
        model=model or FunctionModel(answer),
        **options,
    )


async def collected(stream: AsyncIterator[Event | Delta]) -> list[Event | Delta]:
    return [each async for each in stream]


def events_of(got: list[Event | Delta]) -> list[Event]:
    return [each for each in got if isinstance(each, Event)]


async def test_the_events_are_those_of_the_run_numbered_and_in_order() -> None:
    team = tellers()
    events = events_of(await collected(team.stream("rain")))
    assert [event.seq for event in events] == list(range(len(events)))
    assert events == team.trajectory.events
    assert events[-1].kind == "stop"
    run = await tellers().run("rain")
    assert list(map(encode_event, events)) == list(map(encode_event, run.trajectory.events))


async def test_an_answer_comes_in_pieces_before_its_event() -> None:
    got = await collected(tellers().stream("rain"))
    for event in events_of(got):
        if event.kind == "model_call":
            session = event.data["session"]
            pieces = [each for each in got if isinstance(each, Delta) and each.session == session]
            assert "".join(piece.text for piece in pieces) == event.content
            assert len(pieces) > 1
            assert {piece.role for piece in pieces} == {event.role}
            assert max(map(got.index, pieces)) < got.index(event)


async def test_pieces_come_while_the_round_is_under_way() -> None:
    """The events of a round in which several act come when it ends; pieces do not wait for that."""
    go_on = asyncio.Event()

    async def slow(call: ModelCall) -> str:
        if call.role == "Bob":
            await go_on.wait()
        return answer(call)

    heard = []
    async with asyncio.timeout(60):
        async for each in tellers(FunctionModel(slow)).stream("rain"):
            if isinstance(each, Delta) and not go_on.is_set():
                heard.append(each.role)
                if "".join(heard) == "Ann" * 4:
                    go_on.set()
    assert set(heard) == {"Ann"}


async def test_a_role_alone_is_heard_event_by_event() -> None:
    """Its action has not ended when its beginning is told."""
    seen = asyncio.Event()

    class Wait(Action):
        async def run(self) -> str:
            await seen.wait()
            return "done"

    kinds = []
    async with asyncio.timeout(60):
        async for each in Team([Role(name="Ann", actions=[Wait])]).stream("go"):
            assert isinstance(each, Event)
            kinds.append(each.kind)
            if each.kind == "action":
                seen.set()
    assert kinds == ["message", "action", "message", "stop"]


async def test_what_the_run_raises_comes_out_of_the_loop_after_its_events() -> None:
    def away(call: ModelCall) -> str:
        if call.role == "Bob":
            raise ModelUnavailable("The model is away.")
        return answer(call)

    got: list[Event | Delta] = []

    async def listen(stream: AsyncIterator[Event | Delta]) -> None:
        async for each in stream:
            got.append(each)  # noqa: PERF401 - it ends with an exception

    team = tellers(FunctionModel(away))
    with pytest.raises(ModelUnavailable) as caught:
        await listen(team.stream("rain"))
    assert "in round 1, role 'Bob'" in caught.value.__notes__
    assert [event.kind for event in events_of(got)][-3:] == ["action", "error", "stop"]
    assert events_of(got) == team.trajectory.events


async def test_a_wrong_call_comes_out_too() -> None:
    with pytest.raises(UsageError, match="The team has no roles"):
        await collected(Team().stream("rain"))
    with pytest.raises(UsageError, match="nothing to do"):
        await collected(tellers().stream())


async def test_leaving_early_cancels_the_run() -> None:
    cancelled = asyncio.Event()

    class Endless(Action):
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

    team = Team([Role(name="Ann", actions=[Endless])])
    async with aclosing(team.stream("go")) as stream:
        async for each in stream:
            if isinstance(each, Event) and each.kind == "action":
                break
    assert cancelled.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert team.trajectory.stop_reason == "cancelled"


async def test_leaving_early_without_closing_cancels_it_a_moment_later() -> None:
    """When nobody holds the stream any more: as every async generator."""
    ended = asyncio.Event()

    class Endless(Action):
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async for each in Team([Role(name="Ann", actions=[Endless])]).stream("go"):
        if isinstance(each, Event) and each.kind == "action":
            break
    async with asyncio.timeout(60):
        await ended.wait()


async def test_a_run_left_early_goes_on() -> None:
    async def stuck(call: ModelCall) -> str:
        if call.role == "Cy":
            await asyncio.Event().wait()
        return answer(call)

    team = tellers(FunctionModel(stuck))
    async with aclosing(team.stream("rain")) as stream:
        async for each in stream:
            if isinstance(each, Event) and each.role == "Cy":
                break
    assert team.trajectory.stop_reason == "cancelled"
    run = await tellers().recover(team.trajectory)
    assert run.stop == "idle"
    said = [event.content for event in run.trajectory.of("message")]
    whole = await tellers().run("rain")
    assert said == [event.content for event in whole.trajectory.of("message")]


async def test_a_journal_is_written_as_usual(tmp_path: Path) -> None:
    streamed, plain = tmp_path / "streamed.jsonl", tmp_path / "plain.jsonl"
    team = tellers(journal=streamed)
    events = events_of(await collected(team.stream("rain", rounds=2)))
    team.close()
    other = tellers(journal=plain)
    await other.run("rain", rounds=2)
    other.close()
    assert streamed.read_bytes() == plain.read_bytes()
    assert Trajectory.load(streamed).events == events


async def test_a_team_streams_one_idea_after_the_other() -> None:
    """Only what is new, and nothing goes to a stream that is over."""
    team = tellers()
    first = events_of(await collected(team.stream("rain")))
    second = events_of(await collected(team.stream("snow")))
    await team.run("hail")
    assert [event.seq for event in second] == list(range(len(first), len(first) + len(second)))
    assert second[0].content == "snow"
    assert len(team.trajectory.events) > len(first) + len(second)


async def test_one_role_may_be_spoken_to() -> None:
    events = events_of(await collected(tellers().stream("rain", send_to="Bob")))
    assert {event.role for event in events if event.kind == "action"} == {"Bob", "Cy"}


async def test_two_streams_at_once_are_refused() -> None:
    """One team plays one run."""
    team = tellers()
    async with aclosing(team.stream("rain")) as stream:
        await anext(stream)
        with pytest.raises(UsageError):
            await collected(team.stream("snow"))
