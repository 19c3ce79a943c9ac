"""Teams: one idea in, one run out; limits that bind, and ends that are recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolecraft import (
    Action,
    Environment,
    Limits,
    Message,
    Role,
    ScriptedModel,
    Team,
    Trajectory,
    UserRequirement,
)
from rolecraft.errors import DuplicateRole, LimitReached, UsageError
from rolecraft.models import Completion
from rolecraft.trajectories import Usage


class Draft(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content)


class Review(Action):
    async def run(self, history: Any) -> str:
        return f"good: {history[-1].content}"


class Writer(Role):
    actions = [Draft]


class Editor(Role):
    actions = [Review]
    watch = [Draft]


def stops(team: Team) -> list[Any]:
    return [event.data["reason"] for event in team.trajectory.of("stop")]


async def test_a_team_of_one_s_own_roles_works() -> None:
    """Warts 6 and 9: it wanted a role called Mike, and ignored `send_to`."""
    team = Team([Writer(), Editor()], model=ScriptedModel(["draft"]))
    run = await team.run("an idea")
    assert (run.stop, run.message.content) == ("idle", "good: draft")
    assert [e.content for e in run.trajectory.of("message")] == ["an idea", "draft", "good: draft"]
    assert run.trajectory.about["task"] == {"prompt": "an idea"}
    assert stops(team) == ["idle"]
    assert run.trajectory == team.trajectory


async def test_an_idea_can_be_sent_to_one_role() -> None:
    team = Team([Writer(), Editor()])
    run = await team.run("read this", send_to="Editor")
    assert run.message.content == "good: read this"
    assert [e.role for e in run.trajectory.of("action")] == ["Editor"]


async def test_metagpt_s_calls_hire_invest_run_project_and_run() -> None:
    team = Team(model=ScriptedModel(["draft"]))
    team.hire([Writer(), Editor()])
    team.invest(3.0)
    team.run_project("an idea")
    run = await team.run(n_round=5)
    assert run.message.content == "good: draft"
    assert team.idea == "an idea"
    assert team.env.limits == Limits(usd=3.0)
    assert list(team.roles) == ["Writer", "Editor"]


async def test_rounds_are_bounded_and_the_next_call_goes_on() -> None:
    team = Team([Writer(), Editor()], model=ScriptedModel(["draft"]))
    assert (await team.run("an idea", rounds=1)).stop == "rounds"
    run = await team.run()
    assert (run.stop, run.message.content) == ("idle", "good: draft")
    assert stops(team) == ["rounds", "idle"]


async def test_a_team_can_be_given_a_second_idea() -> None:
    team = Team([Writer(), Editor()], model=ScriptedModel(["one", "two"]))
    await team.run("first")
    assert (await team.run("second")).message.content == "good: two"


async def test_a_team_with_nothing_to_do_says_so() -> None:
    with pytest.raises(UsageError, match=r"nothing to do: `await team\.run"):
        await Team([Writer()]).run()


async def test_a_team_without_roles_says_so() -> None:
    with pytest.raises(UsageError, match=r"no roles. Give it some: `Team\(\["):
        await Team().run("an idea")


async def test_an_idea_that_nobody_takes_up_is_an_error() -> None:
    with pytest.raises(UsageError, match="Nobody takes up the idea 'x': no role watches"):
        await Team([Editor()]).run("x")


def test_two_roles_of_one_name_are_refused() -> None:
    with pytest.raises(DuplicateRole):
        Team([Writer()]).hire([Writer()])


def test_an_environment_brings_its_own_settings() -> None:
    env = Environment()
    assert Team(env=env).env is env
    with pytest.raises(UsageError, match="brings its own model and limits"):
        Team(env=env, limits=Limits(calls=1))


def priced(usd: float) -> Completion:
    return Completion(text="x", usage=Usage(10, 5, usd))


async def test_a_limit_stops_the_team_before_the_call_and_is_recorded() -> None:
    """Wart 7: the balance was checked once a round, and the exception was swallowed."""
    team = Team(
        [Writer(actions=[Draft] * 5)],
        model=ScriptedModel([priced(0.4)] * 5),
        limits=Limits(calls=3),
    )
    with pytest.raises(LimitReached) as caught:
        await team.run("an idea")
    assert (caught.value.limit, caught.value.allowed, caught.value.used) == ("calls", 3, 3)
    *_, limit, stop = team.trajectory.events
    assert (limit.kind, limit.role, limit.data["limit"]) == ("limit", "Writer", "calls")
    assert stop.data["reason"] == "limit"
    assert [e.kind for e in team.trajectory.events].count("model_call") == 3


async def test_money_is_limited_too_and_an_investment_adds_to_what_was_spent() -> None:
    team = Team([Writer(actions=[Draft] * 2)], model=ScriptedModel([priced(0.4)] * 9))
    team.invest(1.0)
    run = await team.run("one")
    assert run.usage == Usage(20, 10, 0.8, 2)
    budget = team.env.budget
    team.invest(0.7)
    assert team.env.budget is budget  # sessions that are open are bound by it too
    with pytest.raises(LimitReached, match=r"limit of \$0.7 does not cover"):
        await team.run("two")


async def test_an_investment_keeps_the_other_limits() -> None:
    team = Team([Writer()], model=ScriptedModel(["a", "b"]), limits=Limits(calls=1, rounds=9))
    await team.run("one")
    team.invest(5.0)
    assert team.env.limits == Limits(usd=5.0, calls=1, rounds=9)
    with pytest.raises(LimitReached, match="limit of 1 model call "):
        await team.run("two")


class Fail(Action):
    async def run(self) -> None:
        raise ZeroDivisionError("by zero")


async def test_an_exception_comes_out_as_it_was_and_is_recorded_once() -> None:
    team = Team([Role(name="Ann", actions=[Fail])])
    with pytest.raises(ZeroDivisionError, match="by zero"):
        await team.run("an idea")
    assert [e.kind for e in team.trajectory.events] == ["message", "action", "error", "stop"]
    assert stops(team) == ["error"]


async def test_an_exception_outside_of_actions_is_recorded_too() -> None:
    class Confused(Role):
        actions = [Review]

        async def _think(self) -> bool:
            raise RuntimeError("what now?")

    team = Team([Confused()])
    with pytest.raises(RuntimeError):
        await team.run("an idea")
    (error,) = team.trajectory.of("error")
    assert (error.role, error.content, error.data) == (
        "Confused",
        "what now?",
        {"type": "RuntimeError"},
    )
    assert team.trajectory.events[error.cause].content == "an idea"


async def test_cancelling_is_recorded() -> None:
    entered = asyncio.Event()

    class Wait(Action):
        async def run(self) -> None:
            entered.set()
            await asyncio.Event().wait()

    team = Team([Role(actions=[Wait])])
    running = asyncio.create_task(team.run("an idea"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stops(team) == ["cancelled"]


async def test_a_run_is_saved_and_drawn(tmp_path: Path) -> None:
    run = await Team([Writer(), Editor()], model=ScriptedModel(["draft"]), id="demo").run("idea")
    path = run.save(f"{tmp_path}/runs/")
    assert path.name == "demo.jsonl"
    assert Trajectory.load(path).events == run.trajectory.events
    assert "sequenceDiagram" in run.sequence_diagram()


async def test_watching_two_kinds_of_work_closes_a_loop() -> None:
    class Stubborn(Editor):
        async def _act(self) -> Message | None:
            if len(self.rc.memory.get_by_action(Draft)) > 2:
                return None
            return await super()._act()

    writer = Writer(watch=[UserRequirement, Review])
    run = await Team([writer, Stubborn()], model=ScriptedModel(["a", "b", "c"])).run("idea")
    assert [e.content for e in run.trajectory.of("message")] == [
        "idea", "a", "good: a", "b", "good: b", "c",
    ]  # fmt: skip


async def test_a_run_prints_as_one_short_line() -> None:
    run = await Team([Writer(), Editor()], model=ScriptedModel(["draft\nof it"])).run("idea")
    events = len(run.trajectory.events)
    said = "Editor: good: draft of it"
    assert str(run) == f"Run 'run': idle after 2 rounds, {events} events, 1 model call; {said}"
