"""Wrong programs: each is one clear error, as early as possible, that says the way out.

An error text names the thing in backticks or quotes, shows the value, and says what to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from rolecraft import Action, Environment, Limits, Message, Role, ScriptedModel, Team, tool
from rolecraft.errors import (
    ActionLimitReached,
    DuplicateRole,
    NoActions,
    RolecraftError,
    StateOutOfRange,
    UnknownName,
    UsageError,
)


class Say(Action):
    async def run(self) -> str:
        return "hi"


@tool
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def takes_more(self: Role, message: Any = None, *, extra: str) -> None: ...


def body(**attributes: Any) -> type[Role]:
    return type("Mine", (Role,), attributes)


class Restless(Role):
    actions = [Say]

    async def _act(self) -> Message | None:
        message = await super()._act()
        self.set_actions([Say])
        return message


def plain_run() -> None:
    type("Plain", (Action,), {"run": lambda self: "x"})


async def unknown_receiver() -> None:
    class Send(Action):
        async def run(self) -> Message:
            return Message("x", send_to="Bop")

    env = Environment([Role(name="Ann", actions=[Send]), Role(name="Bob", actions=[Say])])
    env.publish_message("go")
    await env.run()


class Case(NamedTuple):
    program: Callable[[], Any] | Callable[[], Awaitable[Any]]
    error: type[RolecraftError]
    thing: str
    value: str
    way_out: str


CASES = {
    "unknown keyword": Case(
        lambda: Role(goals="x"), UnknownName, "`Role` keyword", "'goals'", "Did you mean 'goal'?"
    ),
    "duplicate role name": Case(
        lambda: Environment([Role(name="Ann"), Role(name="Ann")]),
        DuplicateRole, "Two roles", "'Ann'", "Give one another name: `Role(name='...')`",
    ),
    "unknown receiver": Case(
        unknown_receiver, UnknownName, "Receiver", "'Bop'", "Did you mean 'Bob'? Known: `<all>`"
    ),
    "unknown receiver, from outside": Case(
        lambda: Environment().publish_message(Message("x", send_to="Bop")),
        UnknownName, "Receiver", "'Bop'", "Known: `<all>`",
    ),
    "action without async run": Case(
        plain_run, UsageError, "`Plain.run`", "is no coroutine", "write `async def run(self, hist"
    ),
    "action without run": Case(
        lambda: Role(name="Ann", actions=[type("Empty", (Action,), {})]),
        UsageError, "Action `Empty`", "role 'Ann'", "write it",
    ),
    "state out of range": Case(
        lambda: Role(name="Ann", actions=[Say])._set_state(1),
        StateOutOfRange, "State", "1 of role 'Ann'", "from -1 (nothing to do) to 0",
    ),
    "state of a role without actions": Case(
        lambda: Role(name="Ann")._set_state(0),
        StateOutOfRange, "State", "0 of role 'Ann'", "0 actions",
    ),
    "role without actions": Case(
        lambda: Role(name="Ann").run("go"),
        NoActions, "Role", "'Ann' has no actions", "Set `actions = [...]` on its class",
    ),
    "endless swap": Case(
        lambda: Restless(name="Ann").run("go"),
        ActionLimitReached, "Role", "'Ann' started 1000 actions", "raise `max_actions`",
    ),
    "unknown react mode": Case(
        lambda: Role(react_mode="fast"), UsageError, "`react_mode`", "'fast'", "'by_order'"
    ),
    "actions that are none": Case(
        lambda: Role(actions=["write"]), UsageError, "`actions`", "'write'", "subclass of it"
    ),
    "content that is no text": Case(
        lambda: Message(7), UsageError, "`Message(content=...)`", "7", "Use str(...)"
    ),
    "one action for a list of them": Case(
        lambda: Role(actions=Say), UsageError, "`actions`", "Say'>", "write `[Say]`"
    ),
    "one tool for a list of them": Case(
        lambda: Role(tools=double), UsageError, "`tools`", "'double'", "write `[double]`"
    ),
    "a class's watch that is no list": Case(
        lambda: body(watch=Say), UsageError, "`watch` of `Mine`", "Say'>", "write `[Say]`"
    ),
    "a class's tools that are no list": Case(
        lambda: body(tools=double), UsageError, "`tools` of `Mine`", "'double'", "`[double]`"
    ),
    "a class's actions that are no list": Case(
        lambda: body(actions=Say()), UsageError, "`actions` of `Mine`", "Say('Say')", "`[Say]`"
    ),
    "a number for a model": Case(
        lambda: Role(model=3), UsageError, "`model`", "3", "Write a `Model` object"
    ),
    "a class for a model": Case(
        lambda: body(model=ScriptedModel), UsageError, "`model`", "ScriptedModel'>",
        "is a class: make one, `ScriptedModel(...)`",
    ),
    "a dict for limits": Case(
        lambda: Role(limits={"calls": 2}), UsageError, "`limits`", "{'calls': 2}",
        "write `Limits(calls=2)`",
    ),
    "half a call": Case(
        lambda: Limits(calls=2.5), UsageError, "`Limits(calls=...)`", "2.5", "a whole number from 0"
    ),
    "no round at all": Case(
        lambda: Limits(rounds=0), UsageError, "`Limits(rounds=...)`", "0", "a whole number from 1"
    ),
    "a role's run that wants something": Case(
        lambda: body(run=takes_more), UsageError, "`Mine.run`", "`extra`", "async def _act(self)"
    ),
    "a sync _act": Case(
        lambda: body(_act=lambda self: None), UsageError, "`Mine._act`", "no coroutine",
        "write `async def _act(self)`",
    ),
    "a sync _think": Case(
        lambda: body(_think=lambda self: True), UsageError, "`Mine._think`", "no coroutine",
        "write `async def _think(self)`",
    ),
    "negative limit": Case(
        lambda: Limits(usd=-1), UsageError, "`Limits(usd=...)`", "-1", "wants a number from 0"
    ),
    "a misspelt option of a team": Case(
        lambda: Team([], modle="x"), UnknownName, "`Team` keyword", "'modle'", "mean 'model'?"
    ),
    "one role for a list of them": Case(
        lambda: Team(Restless(name="Ann")), UsageError, "`roles`", "'Ann'", "write `[Restless(...)]"
    ),
    "a class for a list of roles": Case(
        lambda: Environment(Restless), UsageError, "`roles`", "Restless'>", "write `[Restless(...)]"
    ),
    "a team's limits in a dict": Case(
        lambda: Team([], limits={"call": 2}), UsageError, "`limits`", "{'call': 2}", "Limits(...)"
    ),
    "a class for a team's model": Case(
        lambda: Team([], model=ScriptedModel), UsageError, "`model`", "ScriptedModel'>",
        "make one, `ScriptedModel(...)`",
    ),
    "an approver that cannot be asked": Case(
        lambda: Team([], approver="me"), UsageError, "`approver`", "'me'", "returns True or False"
    ),
    "rounds as text": Case(
        lambda: Team([Role(actions=[Say])]).run("go", rounds="3"),
        UsageError, "`rounds`", "'3'", "a whole number",
    ),
    "rounds of an environment as text": Case(
        lambda: Environment().run("3"), UsageError, "`rounds`", "'3'", "a whole number"
    ),
    "team without roles": Case(
        lambda: Team().run("idea"), UsageError, "The team", "no roles", "Team([Writer(), Editor()])"
    ),
    "model that is none": Case(
        lambda: Role(model="gpt").ask("?"), UsageError, "names no model", "'gpt'", "provider/name"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_wrong_program_is_told_what_is_wrong_with_which_value_and_what_to_do(
    name: str,
) -> None:
    case = CASES[name]

    async def attempt() -> None:
        result = case.program()
        if isinstance(result, Awaitable):
            await result

    with pytest.raises(case.error) as caught:
        await attempt()
    text = str(caught.value)
    for part in (case.thing, case.value, case.way_out):
        assert part in text
    assert "\n" not in text


async def test_what_is_wrong_before_the_run_leaves_nothing_half_done() -> None:
    env = Environment([Role(name="Ann", actions=[Say])])
    for wrong in (Role(name="Ann"), "Bob", Role):
        with pytest.raises(UsageError):
            env.add_role(wrong)  # type: ignore[arg-type]
    assert list(env.roles) == ["Ann"]
    assert env.is_idle
