"""What MetaGPT documents and needs no model, name by name: here by the same name, or with a reason.

The behaviours that other files pin are not repeated; the warts are in test_metagpt_warts.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Environment, Message, Role, ScriptedModel, Team
from rolecraft.messages import ALL, NOBODY, SELF, USER_REQUIREMENT

GUIDE = Path(__file__).parents[2] / "docs" / "coming-from-metagpt.md"


class Echo(Action):
    async def run(self, history: Any) -> str:
        return f"I heard {history[-1].content}"


class Ask(Action):
    async def run(self) -> str:
        return await self._aask("Well?", ["You are terse.", "You are kind."])


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("actions", "Action UserRequirement"),
        ("actions.action", "Action"),
        ("actions.add_requirement", "UserRequirement"),
        ("const", "MESSAGE_ROUTE_TO_ALL MESSAGE_ROUTE_TO_NONE MESSAGE_ROUTE_TO_SELF"),
        ("environment", "Environment"),
        ("logs", "logger"),
        ("memory", "Memory"),
        ("roles", "Role RoleReactMode"),
        ("roles.role", "Role RoleReactMode"),
        ("schema", "AIMessage Message SystemMessage UserMessage"),
        ("team", "Team"),
    ],
)
def test_an_import_line_works_with_rolecraft_in_front(module: str, names: str) -> None:
    found = importlib.import_module(f"rolecraft.metagpt.{module}")
    assert sorted(found.__all__) == names.split()
    assert all(hasattr(found, name) for name in names.split())


def test_every_name_that_the_guide_calls_the_same_exists() -> None:
    """The lines of the table that begin with "the same" name calls and attributes that are here."""
    role, env, team = Role(actions=[Echo]), Environment(), Team()
    owners = {"rc.memory.": role.rc.memory, "rc.": role.rc, "env.": env, "team.": team, "": role}
    lines = re.findall(r"^\| (.+) \| the same", GUIDE.read_text("utf-8"), flags=re.M)
    named = [name for line in lines for name in re.findall(r"`([a-z_][\w.]*)[(`]", line)]
    assert len(named) > 40
    rest = (env, team, role.rc.memory, Action())
    for name in named:
        prefix = next(start for start in owners if name.startswith(start))
        last = name.removeprefix(prefix)
        here = [owners[prefix], *(rest if not prefix else ())]
        assert any(hasattr(owner, last) for owner in here), name


async def test_the_three_kinds_of_message_are_messages_with_their_role() -> None:
    from rolecraft.metagpt.schema import AIMessage, SystemMessage, UserMessage

    kinds = {"user": UserMessage, "system": SystemMessage, "assistant": AIMessage}
    for label, kind in kinds.items():
        message = kind("hi", cause_by=Echo)
        assert (message.role, str(message)) == (label, f"{label}: hi")

    class Answers(Action):
        async def run(self) -> Message:
            return AIMessage(content="yes", cause_by=self, sent_from="somebody")

    role = Role(name="Ann", actions=[Answers])
    said = await role.run("?")
    assert said is not None
    assert (said.role, said.sent_from) == ("assistant", "Ann")


def test_the_addresses_that_are_nobody_s_name() -> None:
    from rolecraft.metagpt import const

    assert (ALL, NOBODY, SELF) == ("<all>", "<none>", "<self>")
    assert const.MESSAGE_ROUTE_TO_ALL is ALL
    assert const.MESSAGE_ROUTE_TO_NONE is NOBODY
    assert const.MESSAGE_ROUTE_TO_SELF is SELF


async def test_aask_takes_system_messages_as_metagpt_does() -> None:
    model = ScriptedModel(["Well."])
    await Role(profile="host", actions=[Ask], model=model).run("go")
    assert [m.content for m in model.calls[0].messages] == [
        "You are terse.\nYou are kind.",
        "Well?",
    ]


async def test_set_action_replaces_the_list_and_set_todo_needs_no_list() -> None:
    role = Role(name="Ann", actions=[Ask, Ask])
    role.set_action(Echo)
    assert role.states == ["0. Echo"]
    role.set_actions([])
    role.set_todo(Echo())
    assert str(await role.run("rain")) == "Ann: I heard rain"


async def test_a_role_remembers_all_that_it_is_given_and_its_news_are_the_last_of_it() -> None:
    """MetaGPT: only what is watched, unless `observe_all_msg_from_buffer`."""
    role = Role(name="Ann", actions=[Echo])
    await role.run(Message("one", cause_by="somewhere.Else"))
    await role.run([Message("two"), Message("three")])
    assert [m.content for m in role.rc.news] == ["two", "three"]
    assert [m.content for m in role.rc.memory.get()] == [
        "one",
        "I heard one",
        "two",
        "three",
        "I heard three",
    ]
    assert role.rc.history[-1] is role.rc.memory.get(1)[0]
    assert [m.content for m in role.rc.important_memory] == ["two", "three"]


def test_a_message_of_the_users_has_metagpts_defaults() -> None:
    message = Message("hi")
    assert (message.role, message.send_to, message.instruct_content) == ("user", {ALL}, None)
    env = Environment([Role(name="Ann", actions=[Echo])])
    published = env.publish_message(message)
    assert published.cause_by == USER_REQUIREMENT
    assert published.id


def test_routing_fields_take_classes_and_objects_also_when_assigned() -> None:
    echo = Echo()
    message = Message("hi", cause_by=Echo, send_to={Role(name="Ann"), Role})
    assert message.cause_by == f"{__name__}.Echo"
    assert message.send_to == {"Ann", "rolecraft.roles.role.Role"}
    message.cause_by, message.send_to = echo, "Bob"
    message.route()
    assert (message.cause_by, message.send_to) == (echo.address, {"Bob"})


async def test_an_environment_plays_as_many_rounds_as_it_is_told() -> None:
    """`env.run(k)`: and no empty ones."""
    ping = Role(name="ping", actions=[Echo], watch=[Echo, USER_REQUIREMENT])
    pong = Role(name="pong", actions=[Echo], watch=[Echo])
    env = Environment([ping, pong])
    env.publish_message("go")
    assert await env.run(2) == "rounds"
    assert env.rounds == 2
    quiet = Environment([Role(name="Ann", actions=[Echo])])
    assert (await quiet.run(5), quiet.rounds) == ("idle", 0)


async def test_an_archived_team_goes_on_in_another_process_with_what_was_under_way(
    tmp_path: Path,
) -> None:
    """MetaGPT's `serialize` drops queued messages; a record has them."""

    def team() -> Team:
        return Team(
            [
                Role(name="ping", actions=[Echo], watch=[Echo, USER_REQUIREMENT]),
                Role(name="pong", actions=[Echo], watch=[Echo]),
            ]
        )

    first = team()
    await first.run("go", n_round=2)
    path = first.archive(tmp_path / "team.jsonl")
    again = team()
    run = await again.recover(path, rounds=1)
    assert run.message is not None
    assert str(run.message) == "ping: I heard I heard I heard go"
