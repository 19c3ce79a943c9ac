"""Rounds: snapshot, act at the same time, commit in the order of the roles; and what ends them."""

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
    Trajectory,
    UserRequirement,
)
from rolecraft.errors import LimitReached, UsageError
from rolecraft.messages import USER_REQUIREMENT
from rolecraft.trajectories import Event
from rolecraft.trajectories.jsonl import load


class Say(Action):
    """Say a word, after giving others `yields` turns of the event loop."""

    word: str = "hi"
    yields: int = 0

    async def run(self) -> str:
        for _ in range(self.yields):
            await asyncio.sleep(0)
        return self.word


class Ping(Say): ...


class Pong(Say): ...


class See(Action):
    """Say what came last from somebody else."""

    async def run(self, history: Any) -> str:
        return f"saw {history[-1].content}"


def ping_pong(**options: Any) -> Environment:
    ping = Role(name="ping", actions=[Ping], watch=[UserRequirement, Pong])
    pong = Role(name="pong", actions=[Pong], watch=[Ping])
    env = Environment([ping, pong], **options)
    env.publish_message("go")
    return env


def said(env: Environment) -> list[str]:
    return [f"{e.time} {e.role}: {e.content}" for e in env.trajectory.of("message")]


# --- what a role sees ------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("fast", "see"), ("see", "fast")])
@pytest.mark.parametrize("yields", [0, 1, 50])
async def test_nobody_sees_in_a_round_what_is_said_in_it(
    yields: int, order: tuple[str, str]
) -> None:
    """Wart 12: it depended on whether the other role's action happened to await."""
    roles = {
        "fast": Role(name="fast", actions=[Say("quick", yields=yields)]),
        "see": Role(name="see", actions=[See], watch=[UserRequirement, Say]),
    }
    env = Environment([roles[name] for name in order])
    env.publish_message("go")
    await env.run()
    first = {"fast": "1 fast: quick", "see": "1 see: saw go"}
    assert said(env) == ["0 user: go", *[first[name] for name in order], "2 see: saw quick"]


async def test_events_are_recorded_in_the_order_of_the_roles_not_of_finishing() -> None:
    roles = [Role(name=str(n), actions=[Say(str(n), yields=9 - n)]) for n in range(3)]
    env = Environment(roles)
    env.publish_message("go")
    await env.run()
    assert said(env) == ["0 user: go", "1 0: 0", "1 1: 1", "1 2: 2"]
    assert [event.seq for event in env.trajectory.events] == list(range(7))
    for event in env.trajectory.events[1:]:
        assert env.trajectory.events[event.cause].role in ("user", event.role)


async def test_roles_of_a_round_act_at_the_same_time() -> None:
    barrier = asyncio.Barrier(3)

    class Meet(Action):
        async def run(self) -> None:
            await barrier.wait()

    env = Environment([Role(name=str(n), actions=[Meet]) for n in range(3)])
    env.publish_message("go")
    async with asyncio.timeout(60):
        await env.run()


async def test_an_event_of_the_environment_within_an_action_is_among_those_of_the_role() -> None:
    class Measure(Action):
        yields: int

        async def run(self) -> str:
            for _ in range(self.yields):
                await asyncio.sleep(0)
            env = self.role.rc.env
            event = Event("verify", data={"target": self.role.name, "passed": True})
            events.append(event)
            first = env.record(event)
            env.record(Event("verify", data={"target": "more", "passed": True}, cause=first))
            return "measured"

    events: list[Event] = []
    env = Environment([Role(name=str(n), actions=[Measure(5 - n)]) for n in range(2)])
    env.publish_message("go")
    await env.run()
    kinds = [event.kind for event in env.trajectory.events]
    assert kinds == ["message", *["action", "verify", "verify", "message"] * 2]
    assert sorted(event.seq for event in events) == [2, 6]
    assert [e.cause for e in env.trajectory.of("verify")] == [None, 2, None, 6]


# --- counting --------------------------------------------------------------------------------


async def test_a_one_step_job_takes_one_round() -> None:
    """Wart 13: it took two to be idle."""
    env = Environment([Role(actions=[Say])])
    env.publish_message("go")
    assert await env.run() == "idle"
    assert (env.rounds, env.turns, env.messages) == (1, 1, 2)


async def test_a_round_in_which_nobody_acts_is_not_counted() -> None:
    env = Environment([Role(actions=[Say])])
    for _ in range(3):
        assert await env.run() == "idle"
    assert env.rounds == 0


async def test_rounds_bound_one_call_and_the_next_goes_on() -> None:
    env = ping_pong()
    assert await env.run(rounds=3) == "rounds"
    assert await env.run(rounds=0) == "rounds"
    assert await env.run(rounds=2) == "rounds"
    assert said(env) == ["0 user: go", *[f"{n + 1} p{'io'[n % 2]}ng: hi" for n in range(5)]]


async def test_the_round_limit_is_for_all_calls_together() -> None:
    env = ping_pong(limits=Limits(rounds=5))
    assert await env.run(rounds=3) == "rounds"
    assert await env.run() == "rounds"
    assert env.rounds == 5
    assert await env.run() == "rounds"
    assert env.rounds == 5


async def test_an_environment_cannot_run_while_it_runs() -> None:
    class Again(Action):
        async def run(self) -> None:
            await self.role.rc.env.run()

    env = Environment([Role(actions=[Again])], id="play")
    env.publish_message("go")
    with pytest.raises(UsageError, match="Environment 'play' is already running"):
        await env.run()


# --- failures --------------------------------------------------------------------------------


class Fail(Action):
    text: str = "broken"
    kind: type[BaseException] = ValueError
    yields: int = 0

    async def run(self) -> None:
        for _ in range(self.yields):
            await asyncio.sleep(0)
        raise self.kind(self.text)


async def failing(*roles: Role) -> tuple[Environment, pytest.ExceptionInfo[Exception]]:
    env = Environment(roles)
    env.publish_message("go")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the tests look at it
        await env.run()
    return env, caught


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "in company"])
async def test_an_exception_keeps_its_type_and_tells_role_action_and_round(others: int) -> None:
    """Wart 8: it became `Exception(988 characters of traceback)`."""
    company = [Role(name="other", actions=[Say])][:others]
    _, caught = await failing(Role(name="Ann", actions=[Fail]), *company)
    assert (caught.type, str(caught.value)) == (ValueError, "broken")
    assert caught.value.__notes__ == [
        "raised in action 'Fail' of role 'Ann'",
        "in round 1, role 'Ann'",
    ]


async def test_the_work_of_the_others_in_that_round_is_committed() -> None:
    slow, fast = Say("slow", yields=20), Say("fast")
    env, _ = await failing(
        Role(name="slow", actions=[slow]),
        Role(name="fails", actions=[Say("before"), Fail]),
        Role(name="fast", actions=[fast]),
        Role(name="watcher", actions=[Say], watch=[Say]),
    )
    assert said(env) == ["0 user: go", "1 slow: slow", "1 fails: before", "1 fast: fast"]
    (error,) = env.trajectory.of("error")
    assert (error.role, error.content, error.data["type"]) == ("fails", "broken", "ValueError")
    assert len(env.roles["watcher"].rc.inbox) == 3
    assert all(role.is_idle for name, role in env.roles.items() if name != "watcher")


async def test_of_several_failures_the_first_role_s_comes_out_and_names_the_others() -> None:
    _, caught = await failing(
        Role(name="a", actions=[Fail("late", yields=9)]),
        Role(name="b", actions=[Fail("early", kind=KeyError)]),
    )
    assert (caught.type, str(caught.value)) == (ValueError, "late")
    assert caught.value.__notes__[-1] == "role 'b' also raised KeyError: 'early'"


async def test_after_a_failure_the_environment_can_go_on() -> None:
    env, _ = await failing(
        Role(name="Ann", actions=[Fail]), Role(name="Bob", actions=[Say], watch=[UserRequirement])
    )
    env.publish_message(Message("again", send_to="Bob"))
    assert await env.run() == "idle"
    assert said(env)[-1] == "2 Bob: hi"


class Gate:
    """Lets a test wait until an action runs."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.cancelled = 0

    async def wait(self) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@pytest.mark.parametrize("others", [0, 2])
async def test_cancelling_commits_what_was_done_and_leaves_no_task(others: int) -> None:
    gate = Gate()

    class Stuck(Action):
        async def run(self) -> None:
            await gate.wait()

    stuck = [Role(name=f"stuck {n}", actions=[Say("before"), Stuck]) for n in range(others + 1)]
    env = Environment(stuck)
    env.publish_message("go")
    running = asyncio.create_task(env.run())
    await gate.entered.wait()
    env.publish_message(Message("meanwhile", send_to="stuck 0"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert gate.cancelled == others + 1
    assert said(env) == [
        "0 user: go",
        *[f"1 {role.name}: before" for role in stuck],
        "1 user: meanwhile",
    ]
    assert [event.seq for event in env.trajectory.events] == list(range(len(env.trajectory.events)))
    assert not env.in_round
    assert all(not role.rc.acting and role.rc.outbox is None for role in stuck)


async def test_an_action_that_cancels_itself_is_not_swallowed() -> None:
    env = Environment(
        [Role(name="a", actions=[Fail(kind=asyncio.CancelledError)]), Role(name="b", actions=[Say])]
    )
    env.publish_message("go")
    with pytest.raises(asyncio.CancelledError):
        await env.run()
    assert said(env) == ["0 user: go", "1 b: hi"]


# --- limits on models ------------------------------------------------------------------------


class Ask(Action):
    async def run(self) -> str:
        return await self.ask("?")


async def test_a_limit_stops_before_the_call_that_would_cross_it() -> None:
    model = ScriptedModel(["1", "2", "3"])
    env = Environment([Role(name="Ann", actions=[Ask] * 3)], model=model, limits=Limits(calls=2))
    env.publish_message("go")
    with pytest.raises(LimitReached, match="limit of 2 model calls is used up") as caught:
        await env.run()
    assert len(model.calls) == 2
    assert (caught.value.limit, caught.value.allowed) == ("calls", 2)
    (limit,) = env.trajectory.of("limit")
    assert limit.data == {
        "limit": "calls",
        "allowed": 2,
        "used": 2,
        "needed": 1,
        "doing": "a call of 'scripted'",
        "when": "before",
        "decision": "raise",
        "session": "Ann/3/1",
        "action": "Ask",
    }
    assert (limit.role, env.trajectory.events[limit.cause].data["action"]) == ("Ann", "Ask")
    assert list(env.trajectory.of("error")) == []


async def test_a_role_s_own_model_goes_before_the_environment_s() -> None:
    shared, own = ScriptedModel(["shared"]), ScriptedModel(["own"])
    roles = [Role(name="a", actions=[Ask]), Role(name="b", actions=[Ask], model=own)]
    env = Environment(roles, model=shared)
    env.publish_message("go")
    await env.run()
    assert [role.rc.memory.get()[-1].content for role in roles] == ["shared", "own"]


def test_roles_that_name_the_same_model_share_one() -> None:
    name = "openai/gpt-4o-mini"
    roles = [Role(name="a"), Role(name="b", model=name)]
    env = Environment(roles, model=name)
    assert roles[0].open_session().model is roles[1].open_session().model
    assert env.has_model


# --- the record ------------------------------------------------------------------------------


async def test_a_role_alone_in_its_round_is_on_disk_before_the_round_ends(tmp_path: Path) -> None:
    """Under kill -9, completed work is not lost."""
    journal = tmp_path / "run.jsonl"
    seen: list[list[str]] = []

    class Look(Action):
        async def run(self) -> str:
            seen.append([event.kind for event in load(journal).events])
            return "looked"

    env = Environment([Role(actions=[Look, Look])], journal=journal)
    env.publish_message("go")
    await env.run()
    env.close()
    assert seen == [["message", "action"], ["message", "action", "message", "action"]]


async def test_journal_and_memory_hold_the_same(tmp_path: Path) -> None:
    in_memory, on_disk = ping_pong(), ping_pong(journal=tmp_path / "run.jsonl")
    for env in (in_memory, on_disk):
        await env.run(rounds=4)
        env.stop("rounds")
    assert on_disk.trajectory.events == in_memory.trajectory.events
    assert on_disk.trajectory.header() == in_memory.trajectory.header()
    on_disk.close()
    on_disk.close()


async def test_further_sinks_may_be_added_to_the_record(tmp_path: Path) -> None:
    for journal in (None, tmp_path / "run.jsonl"):
        env = ping_pong(journal=journal)
        seen = Trajectory()
        env.recorder.sinks = (*env.recorder.sinks, seen)
        await env.run(rounds=2)
        assert [e.content for e in env.trajectory.of("message")] == ["go", "hi", "hi"]
        assert seen.events == env.trajectory.events[1:]
        env.close()


async def test_the_header_says_who_plays() -> None:
    ann = Role(name="Ann", profile="editor", actions=[Ping], watch=[UserRequirement, Pong])
    env = Environment([ann], seed=7, about={"task": {"prompt": "x"}})
    about = env.trajectory.about
    assert (about["seed"], about["task"]) == (7, {"prompt": "x"})
    (role,) = about["roles"]
    assert (role["name"], role["profile"], role["actions"]) == ("Ann", "editor", ["Ping"])
    assert role["class"] == "rolecraft.roles.role.Role"
    assert role["watch"] == sorted([USER_REQUIREMENT, f"{__name__}.Pong"])
