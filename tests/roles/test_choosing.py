"""How a role chooses: by order, by its model, by a plan; and what the model is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolecraft import Action, Message, Role, ScriptedModel
from rolecraft.errors import InvalidAnswer, UsageError
from rolecraft.messages import NOBODY
from rolecraft.roles.choosing import PLAN_STEP


class Search(Action):
    """Look things up.

    In many places.
    """

    async def run(self) -> str:
        return "found"


class Write(Action):
    desc = "put it into words"

    async def run(self, history: Any) -> str:
        return f"after {history[-1].content!r}"


class Print(Action):
    content: str

    async def run(self) -> str:
        return self.content


def contents(role: Role) -> list[str]:
    return [message.content for message in role.rc.memory.get()]


def actions(role: Role) -> list[str]:
    return [event.data["action"] for event in role.trajectory.of("action")]


def reactive(*replies: str, **fields: Any) -> Role:
    fields.setdefault("actions", [Search, Write])
    return Role(name="Ann", react_mode="react", model=ScriptedModel(replies), **fields)


# --- by order --------------------------------------------------------------------------------


async def test_by_order_is_the_default_and_asks_nobody() -> None:
    role = Role(actions=[Search, Write], model=ScriptedModel([]))
    await role.run("go")
    assert actions(role) == ["Search", "Write"]


async def test_react_without_a_model_goes_by_order() -> None:
    role = Role(actions=[Search, Write], react_mode="react")
    await role.run("go")
    assert actions(role) == ["Search", "Write"]


# --- react -----------------------------------------------------------------------------------


async def test_the_model_chooses_until_it_is_done() -> None:
    role = reactive("Write", "Search", "Search", "done")
    await role.run("go")
    assert actions(role) == ["Write", "Search", "Search"]
    role.model.assert_complete()


async def test_done_at_once_is_no_action_and_no_error() -> None:
    """Wart 1: an AttributeError about `NoneType` when the model said that it was finished."""
    role = reactive("done")
    assert await role.run("go") is None
    assert actions(role) == []


async def test_the_loop_has_no_hidden_bound() -> None:
    """Wart 3: `max_react_loop` was 1 unless told."""
    role = reactive(*["Search"] * 20, "done")
    await role.run("go")
    assert len(actions(role)) == 20


async def test_max_react_loop_bounds_one_run() -> None:
    role = reactive(*["Search"] * 6)
    role._set_react_mode("react", max_react_loop=3)
    await role.run("go")
    await role.run("go")
    assert len(actions(role)) == 6


async def test_max_react_loop_may_be_raised_during_the_run() -> None:
    class Extends(Role):
        async def _act(self) -> Message | None:
            if len(self.rc.memory) == 1:
                self.rc.max_react_loop = 4
            return await super()._act()

    role = Extends(actions=[Search, Write], react_mode="react", model=ScriptedModel(["Search"] * 4))
    role.rc.max_react_loop = 1
    await role.run("go")
    assert len(actions(role)) == 4


async def test_max_react_loop_is_for_react_only() -> None:
    role = Role(actions=[Search, Write])
    role._set_react_mode("by_order", max_react_loop=1)
    await role.run("go")
    assert actions(role) == ["Search", "Write"]


async def test_the_model_sees_what_happened_the_actions_and_what_they_do() -> None:
    """Wart 4: it saw class names only."""
    role = reactive("Search", "done")
    await role.run("Why is the sky blue?")
    prompt = role.model.calls[0].messages[-1].content
    assert "user: Why is the sky blue?" in prompt
    assert "- Search: Look things up.\n- Write: put it into words\n- done: " in prompt
    assert role.model.calls[0].sampling.choices == ("Search", "Write", "done")


async def test_one_run_is_one_conversation_and_each_message_is_told_once() -> None:
    role = reactive("Search", "done", "done")
    await role.run("first")
    second_question = role.model.calls[1].messages
    assert len(second_question) == 3
    assert "Ann: found" in second_question[-1].content
    assert "first" not in second_question[-1].content
    await role.run("again")
    third = role.model.calls[2].messages
    assert len(third) == 1
    assert "user: first\nAnn: found\nuser: again" in third[0].content


async def test_one_action_is_run_once_without_asking() -> None:
    """Wart 2: it was repeated up to the bound, and nobody was asked."""
    role = reactive(actions=[Search])
    await role.run("go")
    assert actions(role) == ["Search"]


async def test_one_action_and_a_bound_of_several_asks_the_model() -> None:
    role = reactive("Search", "done", actions=[Search])
    role._set_react_mode("react", max_react_loop=4)
    await role.run("go")
    assert actions(role) == ["Search"]
    role.model.assert_complete()


async def test_actions_of_one_name_are_chosen_by_number_and_told_apart_by_their_fields() -> None:
    role = reactive("1", "0", "done", actions=[Print("a"), Print("b")])
    await role.run("go")
    assert contents(role) == ["go", "b", "a"]
    assert "- 0: Print('Print', content='a')\n- 1: " in role.model.calls[0].messages[-1].content


async def test_an_action_called_done_can_be_chosen() -> None:
    role = reactive("0", "done", actions=[Print("x", name="done"), Search])
    await role.run("go")
    assert contents(role) == ["go", "x"]


async def test_a_model_that_chooses_nothing_known_is_an_invalid_answer() -> None:
    role = reactive("Dance", "Sing", "Sleep")
    with pytest.raises(InvalidAnswer, match="'Sleep'"):
        await role.run("go")


# --- plan and act ----------------------------------------------------------------------------


def plan(*steps: tuple[str, str]) -> str:
    return json.dumps({"steps": [{"action": name, "instruction": text} for name, text in steps]})


def planner(*replies: str, **fields: Any) -> Role:
    fields.setdefault("actions", [Search, Write])
    return Role(name="Ann", react_mode="plan_and_act", model=ScriptedModel(replies), **fields)


async def test_a_plan_is_written_once_and_worked_off() -> None:
    role = planner(plan(("Write", "a draft"), ("Search", ""), ("Write", "")))
    await role.run("go")
    assert contents(role) == [
        "go", "a draft", "after 'a draft'", "found", "after 'found'"
    ]  # fmt: skip
    role.model.assert_complete()


async def test_an_instruction_is_recorded_and_delivered_to_nobody() -> None:
    role = planner(plan(("Search", "on page 3")))
    await role.run("go")
    instruction = role.rc.memory.get_by_actions(PLAN_STEP)[0]
    assert (instruction.content, instruction.send_to) == ("on page 3", {NOBODY})


async def test_each_run_has_a_plan_of_its_own() -> None:
    role = planner(plan(("Search", "")), plan(("Write", "")))
    await role.run("go")
    await role.run("go")
    assert actions(role) == ["Search", "Write"]


async def test_a_plan_with_an_unknown_action_is_asked_again() -> None:
    role = planner(plan(("Dance", "")), plan(("Search", "")))
    await role.run("go")
    assert actions(role) == ["Search"]
    assert "Input should be 'Search' or 'Write'" in role.model.calls[1].messages[-1].content


async def test_an_empty_plan_is_no_plan() -> None:
    role = planner(plan(), plan(), plan())
    with pytest.raises(InvalidAnswer, match="at least 1 item"):
        await role.run("go")


async def test_a_plan_can_name_the_second_of_two_actions_of_one_name() -> None:
    role = planner(plan(("1", ""), ("0", ""), ("1", "")), actions=[Print("a"), Print("b")])
    await role.run("go")
    assert contents(role) == ["go", "b", "a", "b"]


async def test_planning_without_a_model_says_where_to_give_one() -> None:
    role = Role(name="Ann", actions=[Search], react_mode="plan_and_act")
    with pytest.raises(UsageError, match="Role 'Ann' asks a model and has none"):
        await role.run("go")
