"""Rolecraft, with its recorder on: every event goes to a journal on disk.

`limited_turn` is `turn` with limits on money, tokens, calls, rounds and time, that of the tool
turn and of the crowd too: a team that spends money has some.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from rolecraft import Action, Environment, FunctionModel, Limits, Message, Role
from rolecraft.actions import tool
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, ModelCall, Session
from rolecraft.roles import UseTools

FOLDER = tempfile.TemporaryDirectory(prefix="rolecraft-bench-")
NUMBERS = itertools.count()
STUB = FunctionModel(lambda call: Completion(text="ok"), keep_calls=False)
MANY = 10**12
LIMITS = Limits(usd=MANY, tokens=MANY, calls=MANY, rounds=MANY)


class Answer(Action):
    """Answer the last message in a new conversation."""

    async def run(self, history):
        return await self.ask(history[-1].content)


class Answerer(Role):
    actions = [Answer]


class Ping(Action):
    """Answer the last message in the conversation so far."""

    async def run(self, history):
        return await self.ask(history[-1].content, session=self.role.conversation)


class Pong(Ping): ...


class Speaker(Role):
    conversation: Session | None = None


@tool
async def act(text: str) -> str:
    """Do it."""
    return text


class Afresh(UseTools):
    """Tells the model the last message only: a new conversation every turn, as the others have."""

    def conversation(self, history):
        return super().conversation(history[-1:])


def call_then_answer(call: ModelCall) -> Completion:
    if call.messages[-1].role == "tool":
        return Completion(text="ok")
    return Completion(text="", tool_calls=[ToolCall("act", {"text": "hi"}, id="1")])


TOOL_STUB = FunctionModel(call_then_answer, keep_calls=False)


class Pass(Action):
    """Ask the model and tell the next role."""

    to: str

    async def run(self, history):
        return Message(await self.ask(history[-1].content), send_to=self.to)


def environment(*roles: Role, limits: Limits | None = None) -> Environment:
    journal = Path(FOLDER.name) / f"{next(NUMBERS)}.jsonl"
    return Environment(roles, model=STUB, journal=journal, limits=limits)


READY = environment(Answerer())
LIMITED = environment(Answerer(), limits=LIMITS)
TIMED = environment(Answerer(), limits=Limits(seconds=MANY))
WITH_TOOL = environment(Role(actions=[Afresh], tools=[act], model=TOOL_STUB), limits=LIMITS)


def new() -> Role:
    return Answerer()


async def play(env: Environment) -> None:
    env.publish_message(Message("hi"))
    await env.run()


async def turn() -> None:
    await play(READY)


async def limited_turn() -> None:
    await play(LIMITED)


async def timed_turn() -> None:
    await play(TIMED)


async def tool_turn() -> None:
    await play(WITH_TOOL)


async def crowd(roles: int, messages: int) -> int:
    """Every role tells the next in the circle, by name, all in every round."""
    names = [f"role {number}" for number in range(roles)]
    following = [*names[1:], names[0]]
    env = environment(
        *(Role(name=name, actions=[Pass(to)]) for name, to in zip(names, following, strict=True)),
        limits=LIMITS,
    )
    for name in names:
        env.publish_message(Message("hi", send_to=name))
    await env.run(rounds=messages // roles - 1)
    assert env.recorder.next > 2 * (messages - roles), "the recorder is not on"
    env.close()
    return env.messages


async def exchange(messages: int) -> int:
    ping = Speaker(name="ping", actions=[Ping], watch=[Pong, "rolecraft.actions.UserRequirement"])
    pong = Speaker(name="pong", actions=[Pong], watch=[Ping])
    env = environment(ping, pong)
    for role in (ping, pong):
        role.conversation = role.open_session()
    env.publish_message(Message("hi"))
    await env.run(rounds=messages - 1)
    assert env.recorder.next > 2 * messages, "the recorder is not on"
    env.close()
    return env.messages
