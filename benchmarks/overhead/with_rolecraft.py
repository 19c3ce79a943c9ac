"""Rolecraft, with its recorder on: every event goes to a journal on disk."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from rolecraft import Action, Environment, FunctionModel, Message, Role
from rolecraft.models import Completion, Session

FOLDER = tempfile.TemporaryDirectory(prefix="rolecraft-bench-")
NUMBERS = itertools.count()
STUB = FunctionModel(lambda call: Completion(text="ok"), keep_calls=False)


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


def environment(*roles: Role) -> Environment:
    journal = Path(FOLDER.name) / f"{next(NUMBERS)}.jsonl"
    return Environment(roles, model=STUB, journal=journal)


READY = environment(Answerer())


def new() -> Role:
    return Answerer()


async def turn() -> None:
    READY.publish_message(Message("hi"))
    await READY.run()


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
