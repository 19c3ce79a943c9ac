"""The same inputs give the same journal, byte for byte, however long actions take.

Every run of a program yields to the event loop at other moments, and the event loop runs what is
ready in a random order. The lines of the journal are always the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from rolecraft import (
    Action,
    Environment,
    FunctionModel,
    Limits,
    Message,
    Role,
    Sampling,
    Team,
    UserRequirement,
)
from rolecraft.messages import SELF
from rolecraft.models import ModelCall
from rolecraft.trajectories import Event
from rolecraft.trajectories.codec import encode_event, encode_line


class ShuffledLoop(asyncio.SelectorEventLoop):
    """Runs what is ready in a random order, as another machine or another day might."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def _run_once(self) -> None:
        self.chance.shuffle(self._ready)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class Pause:
    """How often an action lets go of the event loop: never, once, or a random number of times."""

    def __init__(self, how: str, chance: random.Random) -> None:
        self.how, self.chance = how, chance

    async def __call__(self) -> None:
        times = {"never": 0, "once": 1}.get(self.how)
        for _ in range(self.chance.randrange(8) if times is None else times):
            await asyncio.sleep(0)


Program = Callable[[Pause], Environment]


# --- two roles -------------------------------------------------------------------------------


class Ping(Action):
    pause: Pause

    async def run(self, history: Any) -> str | None:
        await self.pause()
        return f"{len(history)} from {self.role.name}" if len(history) < 12 else None


class Pong(Ping): ...


def exchange(pause: Pause) -> Environment:
    """Two roles that answer each other and the user, so that both act in the same rounds."""
    watch = [UserRequirement, Ping, Pong]
    return Environment(
        [
            Role(name="ping", actions=[Ping(pause)], watch=watch),
            Role(name="pong", actions=[Pong(pause), Pong(pause)], watch=watch),
        ]
    )


# --- three roles, everything at once ---------------------------------------------------------


class Report(Action):
    """Ask twice at once, record what was measured, speak in between, and grow the plan."""

    pause: Pause
    depth: int = 0

    async def run(self, history: Any) -> str:
        env = self.role.rc.env
        first, second = self.role.open_session(), self.role.open_session()
        await self.pause()
        answers = [
            await self.ask("one", session=first),
            await self.ask("two", session=second, sampling=Sampling(seed=second.seed)),
        ]
        call = env.record(Event("tool_call", data={"tool": "look"}))
        await self.pause()
        env.record(Event("tool_result", content="seen", data={"ok": True}, cause=call))
        if len(history) == 1:
            self.role.publish_message(Message("note", send_to=SELF))
            self.role.publish_message(Message("help", send_to="critic"))
        if self.depth < 2:
            self.role.set_actions([Report(self.pause, self.depth + 1)])
        await self.pause()
        return f"{answers} after {history[-1].content}"


class Judge(Action):
    pause: Pause

    async def run(self, history: Any) -> str:
        await self.pause()
        self.role.rc.env.record(Event("verify", data={"target": "news", "passed": True}))
        return f"{len(history)} heard"


class Praise(Judge):
    """Praise, or fail for a reason that is recorded."""

    async def run(self, history: Any) -> str:
        await self.pause()
        if len(history) % 2:
            raise ValueError("too tired")
        return "well done"


class Forgiving(Role):
    async def _act(self) -> Message | None:
        try:
            return await super()._act()
        except ValueError:
            return None


def newsroom(pause: Pause) -> Environment:
    async def answer(call: ModelCall) -> str:
        await pause()
        if call.sampling.choices:
            return call.sampling.choices[len(call.messages) // 2 % len(call.sampling.choices)]
        return f"{call.role} {call.messages[-1].content} {call.sampling.seed}"

    roles = [
        Role(name="reporter", actions=[Report(pause)]),
        Forgiving(
            name="critic",
            actions=[Judge(pause), Praise(pause)],
            react_mode="react",
            watch=[UserRequirement, Report],
        ),
        Forgiving(name="editor", actions=[Judge(pause), Praise(pause)], watch=[Report, Judge]),
    ]
    return Environment(roles, model=FunctionModel(answer), seed=5)


# --- a program that fails, one that hits a limit ---------------------------------------------


def failing(pause: Pause) -> Environment:
    env = newsroom(pause)
    env.roles["critic"].max_actions = 1
    return env


def limited(pause: Pause) -> Environment:
    """Only one role asks a model: whose call crosses a limit must not depend on the pace."""
    roles = [
        Role(name="reporter", actions=[Report(pause)], model=newsroom(pause).model),
        Role(name="critic", actions=[Judge(pause)], watch=[UserRequirement, Report]),
    ]
    return Environment(roles, limits=Limits(calls=5), seed=5)


async def journal(program: Program, pause: Pause) -> bytes:
    env = program(pause)
    env.publish_message("go")
    raised: list[str] = []
    try:
        await Team(env=env).run(rounds=8)
    except Exception as error:
        raised = [repr(error), *error.__notes__]
    trajectory = env.trajectory
    lines = [encode_line(trajectory.header()), *map(encode_event, trajectory.events)]
    return b"".join([*lines, encode_line({"raised": raised})])


def played(program: Program, seed: int) -> bytes:
    chance = random.Random(seed)
    pause = Pause(("never", "once", "random")[min(seed, 2)], chance)
    with asyncio.Runner(loop_factory=lambda: ShuffledLoop(chance)) as runner:
        return runner.run(journal(program, pause))


PROGRAMS = [exchange, newsroom, failing, limited]


@pytest.mark.parametrize("program", PROGRAMS)
def test_200_schedules_give_one_journal(program: Program) -> None:
    expected = played(program, 0)
    for seed in range(1, 200):
        assert played(program, seed).splitlines() == expected.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_1000_schedules_give_one_journal(program: Program) -> None:
    assert {played(program, seed) for seed in range(1000)} == {played(program, 0)}


def test_the_programs_do_what_they_are_meant_to_test() -> None:
    """Several roles act in one round, and every kind of event that roles write occurs."""
    text = {program: played(program, 0).decode() for program in PROGRAMS}
    for kind in ("action_swap", "error", "model_call", "tool_call", "tool_result", "verify"):
        assert f'"kind":"{kind}"' in text[newsroom]
    assert '"kind":"error"' in text[failing]
    assert "ActionLimitReached" in text[failing]
    assert '"kind":"limit"' in text[limited]
    for program in PROGRAMS:
        assert text[program].count('"kind":"message"') >= 6
        assert text[program].count('"kind":"action"') >= 4


def test_the_schedules_differ() -> None:
    """What is compared above was done in different orders."""

    class Sign(Action):
        pause: Pause

        async def run(self) -> None:
            await self.pause()
            signed.append(self.role.name)

    orders = set()
    for seed in range(20):
        signed: list[str] = []
        chance = random.Random(seed)
        env = Environment(
            [Role(name=name, actions=[Sign(Pause("once", chance))]) for name in ("a", "b", "c")]
        )
        env.publish_message("go")
        with asyncio.Runner(loop_factory=lambda chance=chance: ShuffledLoop(chance)) as runner:
            runner.run(env.run())
        orders.add(tuple(signed))
    assert len(orders) == 6
