"""The same inputs give the same journal, byte for byte, however long actions take.

Every run of a program yields to the event loop at other moments, and the event loop runs what is
ready in a random order. The lines of the journal are always the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
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
from rolecraft.actions import tool
from rolecraft.messages import NOBODY, SELF, ToolCall
from rolecraft.models import Completion, ModelCall
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


# --- actions within actions and tools, at the same time ---------------------------------------


class Part(Action):
    pause: Pause
    number: int
    aloud: bool = False

    async def run(self) -> str:
        await self.pause()
        self.record_artifact(f"part {self.number}", str(self.number))
        if self.number == 2:
            raise ValueError("two left feet")
        answer = await self.ask(f"{self.number}?")
        if self.aloud:
            self.role.publish_message(Message(answer, send_to=NOBODY))
        await self.pause()
        return await self.ask(f"{answer}, and then?")


class Whole(Action):
    """Runs other actions at the same time, one of which fails, and says something meanwhile."""

    pause: Pause
    aloud: bool = False

    async def run(self, history: Any) -> str:
        parts = [Part(self.pause, number, self.aloud)._bound(self.role) for number in range(4)]
        running = asyncio.gather(*(part.run() for part in parts), return_exceptions=True)
        self.role.publish_message("begun")
        await self.pause()
        answers = await running
        self.role.publish_message("soon done")
        return f"{len(history)} {answers}"


def workshop(pause: Pause) -> Environment:
    """One role's actions run within its action, the other's model calls tools, all at once."""

    @tool(parallel=True)
    async def look(page: int, here: Action) -> str:
        "Look something up."
        await pause()
        here.record_check(str(page), passed=page != 1)
        if page == 1:
            raise LookupError("no such page")
        await pause()
        return await here.ask(f"What is on page {page}?")

    async def answer(call: ModelCall) -> str | Completion:
        await pause()
        if call.tools and call.messages[-1].role != "tool":
            calls = [ToolCall("look", {"page": page}, str(page)) for page in range(3)]
            return Completion(text="", tool_calls=calls)
        return f"[{len(call.messages)} {call.messages[-1].content}]"

    roles = [
        Role(name="maker", actions=[Whole(pause)], watch=[UserRequirement]),
        Role(name="teller", tools=[look], watch=[UserRequirement, Whole]),
    ]
    return Environment(roles, model=FunctionModel(answer))


def choir(pause: Pause) -> Environment:
    env = workshop(pause)
    env.roles["maker"].set_actions([Whole(pause, aloud=True)])
    return env


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


async def journal(program: Program, pause: Pause, path: Path | None = None) -> bytes:
    env = program(pause)
    env.journal = path
    env.publish_message("go")
    raised: list[str] = []
    try:
        await Team(env=env).run(rounds=8)
    except Exception as error:
        raised = [repr(error), *error.__notes__]
    if path is not None:
        env.close()
        return path.read_bytes()  # noqa: ASYNC240 - nothing else runs
    trajectory = env.trajectory
    lines = [encode_line(trajectory.header()), *map(encode_event, trajectory.events)]
    return b"".join([*lines, encode_line({"raised": raised})])


def played(program: Program, seed: int, path: Path | None = None) -> bytes:
    chance = random.Random(seed)
    pause = Pause(("never", "once", "random")[min(seed, 2)], chance)
    with asyncio.Runner(loop_factory=lambda: ShuffledLoop(chance)) as runner:
        return runner.run(journal(program, pause, path))


PROGRAMS = [exchange, newsroom, workshop, failing, limited]


@pytest.mark.parametrize("program", PROGRAMS)
def test_200_schedules_give_one_journal(program: Program) -> None:
    expected = played(program, 0)
    for seed in range(1, 200):
        assert played(program, seed).splitlines() == expected.splitlines()


def test_200_schedules_of_actions_that_speak_at_the_same_time_give_one_journal() -> None:
    assert {played(choir, seed) for seed in range(200)} == {played(choir, 0)}


@pytest.mark.parametrize("how", ["never", "once", "random"])
def test_two_roles_leave_the_same_file_in_1000_runs(tmp_path: Path, how: str) -> None:
    """Whether their actions let go of the event loop never, once, or a random number of times."""
    expected = played(exchange, 0, tmp_path / "expected.jsonl")
    assert expected.count(b"\n") > 20
    for seed in range(1, 335):
        chance, path = random.Random(seed), tmp_path / f"{seed}.jsonl"
        with asyncio.Runner(loop_factory=lambda chance=chance: ShuffledLoop(chance)) as runner:
            assert runner.run(journal(exchange, Pause(how, chance), path)) == expected
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_1000_schedules_give_one_journal(program: Program) -> None:
    assert {played(program, seed) for seed in range(1000)} == {played(program, 0)}


def test_what_is_asked_at_the_same_time_is_recorded_in_the_order_of_asking() -> None:
    """However long each answer takes. (Here in a loop that starts what is begun in its order.)"""

    class Survey(Action):
        async def run(self) -> str:
            answers = await asyncio.gather(*(self.ask(f"{number}?") for number in range(6)))
            return " ".join(answers)

    async def play(chance: random.Random) -> bytes:
        async def answer(call: ModelCall) -> str:
            await Pause("random", chance)()
            return f"<{call.messages[-1].content}>"

        team = Team([Role(name="Ann", actions=[Survey])], model=FunctionModel(answer))
        run = await team.run("go")
        return b"".join(map(encode_event, run.trajectory.events))

    expected = asyncio.run(play(random.Random(0)))
    assert expected.index(b'"<0?>"') < expected.index(b'"<1?>"') < expected.index(b'"<5?>"')
    for seed in range(1, 50):
        assert asyncio.run(play(random.Random(seed))) == expected


def test_the_programs_do_what_they_are_meant_to_test() -> None:
    """Several roles act in one round, and every kind of event that roles write occurs."""
    text = {program: played(program, 0).decode() for program in PROGRAMS}
    for kind in ("artifact", "error", "model_call", "tool_call", "tool_result", "verify"):
        assert f'"kind":"{kind}"' in text[workshop]
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
