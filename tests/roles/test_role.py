"""One role on its own: run, observe, think, act, react, and what overriding each of them does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rolecraft import Action, Message, Role, RoleReactMode, ScriptedModel, UserRequirement
from rolecraft.errors import NoActions, StateOutOfRange, UsageError
from rolecraft.messages import SELF, USER, USER_REQUIREMENT


class Say(Action):
    word: str = "hi"

    async def run(self) -> str:
        return self.word


class Count(Action):
    """How many messages there are."""

    async def run(self, history: Any) -> str:
        return str(len(history))


def contents(role: Role) -> list[str]:
    return [message.content for message in role.rc.memory.get()]


def recorded(role: Role) -> list[str]:
    return [event.content for event in role.trajectory.of("message")]


# --- run -------------------------------------------------------------------------------------


async def test_run_takes_a_message_up_acts_in_order_and_returns_the_last_message() -> None:
    role = Role(name="Ann", actions=[Say("a"), Say("b")])
    reply = await role.run("go")
    assert (str(reply), reply.sent_from, reply.cause_by) == ("Ann: b", "Ann", f"{__name__}.Say")
    assert contents(role) == recorded(role) == ["go", "a", "b"]
    assert role.is_idle


async def test_a_string_is_the_users() -> None:
    role = Role(actions=[Say])
    await role.run("go")
    first = role.rc.memory.get()[0]
    assert (first.cause_by, first.sent_from) == (USER_REQUIREMENT, USER)


async def test_run_takes_one_message_or_several_or_what_is_in_the_inbox() -> None:
    role = Role(actions=[Count])
    assert (await role.run(["a", Message("b")])).content == "2"
    role.put_message("c")
    assert (await role.run()).content == "4"
    assert await role.run() is None
    assert await role.run([]) is None


async def test_run_takes_up_whatever_it_is_given() -> None:
    """In MetaGPT a message of an unwatched kind was dropped and `run` returned None."""
    role = Role(actions=[Say], watch=[UserRequirement])
    assert (
        await role.run(Message("x", cause_by=Count, sent_from="Bob", send_to="Carol")) is not None
    )


async def test_run_says_what_it_cannot_take() -> None:
    with pytest.raises(UsageError, match="Expected a str or a `Message`, got 5"):
        await Role(actions=[Say]).run(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Expected a str or a `Message`, got None"):
        await Role(actions=[Say]).run(["a", None])  # type: ignore[list-item]


async def test_a_role_can_be_run_again_and_starts_at_its_first_action() -> None:
    role = Role(actions=[Say("a"), Say("b")])
    await role.run("go")
    await role.run("again")
    assert contents(role) == ["go", "a", "b", "again", "a", "b"]
    assert len({message.id for message in role.rc.memory.get()}) == 6


async def test_the_reply_of_one_role_can_be_given_to_the_next() -> None:
    ann, bob = Role(name="Ann", actions=[Say]), Role(name="Bob", actions=[Count])
    said = await ann.run("go")
    await bob.run(said)
    first, action, _ = bob.trajectory.events
    assert (first.content, first.role) == ("hi", "Ann")
    assert action.cause == first.seq == 0
    assert (said.id, said.event) == ("Ann:2", 2)  # Ann's message is as it was


async def test_one_message_can_be_given_to_two_roles_and_twice_to_one() -> None:
    message = Message("go")
    ann, bob = Role(name="Ann", actions=[Say]), Role(name="Bob", actions=[Say])
    for role in (ann, bob, bob):
        assert await role.run(message) is not None
    assert recorded(ann) == ["go", "hi"]
    assert recorded(bob) == ["go", "hi", "go", "hi"]
    assert message == Message("go")


async def test_a_role_cannot_run_while_it_runs() -> None:
    class Again(Action):
        async def run(self) -> Message:
            return await self.role.run("again")

    with pytest.raises(UsageError, match="Role 'Ann' is already running"):
        await Role(name="Ann", actions=[Again]).run("go")


async def test_after_an_exception_the_role_can_be_run_again() -> None:
    class Flaky(Action):
        fail: bool = True

        async def run(self) -> str:
            if self.fail:
                raise ValueError("not now")
            return "fine"

    flaky = Flaky()
    role = Role(actions=[flaky, Say])
    with pytest.raises(ValueError, match="not now"):
        await role.run("go")
    assert (role.is_idle, role.rc.state, role.rc.todo) == (True, -1, None)
    flaky.fail = False
    assert (await role.run("go")).content == "hi"


async def test_an_action_can_say_nothing() -> None:
    class Nothing(Action):
        async def run(self) -> None:
            pass

    role = Role(actions=[Say, Nothing])
    assert (await role.run("go")).content == "hi"
    assert await Role(actions=[Nothing]).run("go") is None


async def test_a_role_without_actions_says_so_when_it_is_to_act() -> None:
    with pytest.raises(NoActions) as caught:
        await Role(name="Ann").run("go")
    assert "Role 'Ann' has no actions" in str(caught.value)
    assert "Role(actions=[...])" in str(caught.value)


def test_a_role_that_has_not_run_has_an_empty_trajectory() -> None:
    trajectory = Role(name="Ann", profile="editor", actions=[Say]).trajectory
    assert trajectory.events == []
    assert trajectory.about["roles"][0]["profile"] == "editor"


# --- what it says ----------------------------------------------------------------------------


async def test_a_message_without_a_cause_is_attributed_to_action_and_role() -> None:
    """Wart 11: it became the user's, and woke everybody."""

    class Reply(Action):
        async def run(self) -> Message:
            return Message("x")

    reply = await Role(name="Ann", actions=[Reply]).run("go")
    assert (reply.cause_by, reply.sent_from, str(reply)) == (
        f"{Reply.__module__}.{Reply.__qualname__}",
        "Ann",
        "Ann: x",
    )


async def test_a_label_that_the_user_chose_is_kept() -> None:
    class Reply(Action):
        async def run(self) -> Message:
            return Message("x", role="assistant")

    assert str(await Role(actions=[Reply]).run("go")) == "assistant: x"


async def test_an_action_can_pass_on_what_it_got() -> None:
    class Forward(Action):
        async def run(self, history: Any) -> Message:
            return history[0]

    role = Role(name="Bob", actions=[Forward, Forward])
    given = Message("news", role="Ann", sent_from="Ann", send_to="Bob", metadata={"page": 1})
    reply = await role.run(given)
    assert (reply.content, reply.sent_from, reply.metadata) == ("news", "Bob", {"page": 1})
    assert reply.cause_by.endswith("Forward")
    assert recorded(role) == ["news", "news", "news"]
    assert role.rc.inbox == []  # it was addressed to Bob, and is not now


async def test_a_message_to_oneself_waits_in_the_inbox() -> None:
    class Note(Action):
        address_it_to: str = SELF

        async def run(self) -> Message:
            return Message("remember", send_to=self.address_it_to)

    for receiver in (SELF, "Ann"):
        role = Role(name="Ann", actions=[Note(receiver)])
        await role.run("go")
        assert [m.content for m in role.rc.inbox] == ["remember"]
        assert contents(role) == ["go", "remember"]
        await role.run()
        assert contents(role) == ["go", "remember", "remember"]  # the second one is new


async def test_publish_message_says_more_than_the_action_returns() -> None:
    class Two(Action):
        async def run(self) -> str:
            self.role.publish_message("first")
            return "second"

    role = Role(name="Ann", actions=[Two])
    await role.run("go")
    assert recorded(role) == ["go", "first", "second"]
    _, action, first, second = role.trajectory.events
    assert (first.cause, first.data["cause_by"]) == (action.seq, second.data["cause_by"])


async def test_a_message_that_was_published_and_returned_is_said_once() -> None:
    class Habit(Role):
        actions = [Say]

        async def _act(self) -> Message:
            message = await super()._act()
            self.rc.memory.add(message)
            self.publish_message(message)
            self.rc.memory.add(message)
            return message

    role = Habit()
    await role.run("go")
    assert recorded(role) == contents(role) == ["go", "hi"]
    assert [m.content for m in role.rc.memory.get_by_action(Say)] == ["hi"]


async def test_what_a_message_cannot_carry_is_refused_where_it_was_returned() -> None:
    """Wart 10: any type but text failed with a ValidationError far from its cause."""

    class Odd(Action):
        async def run(self) -> object:
            return {1, 2}

    with pytest.raises(UsageError, match=r"`Odd.run` returned \{1, 2\}.*Return a str") as caught:
        await Role(actions=[Odd]).run("go")
    assert "raised in role 'Role'" in caught.value.__notes__


async def test_a_list_of_what_json_does_not_know_is_refused_too() -> None:
    class Odd(Action):
        async def run(self) -> object:
            return [object]

    with pytest.raises(UsageError, match=r"`Odd.run` returned \[<class 'object'>\]"):
        await Role(actions=[Odd]).run("go")


# --- overriding ------------------------------------------------------------------------------


async def test_act_may_return_a_string() -> None:
    class Talker(Role):
        actions = [Say]

        async def _act(self) -> str:  # type: ignore[override]
            await self.rc.todo.run()
            return "from _act"

    role = Talker()
    reply = await role.run("go")
    assert (str(reply), reply.cause_by) == ("Talker: from _act", f"{__name__}.Say")


async def test_act_may_return_nothing() -> None:
    class Silent(Role):
        actions = [Say, Say]

        async def _act(self) -> None:
            await super()._act()

    role = Silent()
    assert await role.run("go") is None
    assert len(list(role.trajectory.of("action"))) == 2


async def test_act_may_pass_on_what_it_observed() -> None:
    class Relay(Role):
        actions = [Say]

        async def _act(self) -> Message:
            return self.rc.news[0]

    role = Relay(name="Bob")
    reply = await role.run(Message("news", sent_from="Ann"))
    assert (reply.content, reply.sent_from) == ("news", "Bob")
    assert recorded(role) == ["news", "news"]


async def test_an_act_that_never_runs_its_action_ends_all_the_same() -> None:
    class Talker(Role):
        actions = [Say, Say]

        async def _act(self) -> Message:
            return Message(f"state {self.rc.state}")

    role = Talker()
    await role.run("go")
    assert contents(role) == ["go", "state 0", "state 1"]


async def test_think_may_choose_and_leave_the_rest_to_the_role() -> None:
    class Skips(Role):
        actions = [Say("a"), Say("b"), Say("c")]

        async def _think(self) -> bool | None:
            if self.rc.state == -1 and "skip" in self.rc.news[0].content:
                self._set_state(1)
                return True
            return await super()._think()

    role = Skips()
    await role.run("skip")
    assert contents(role) == ["skip", "b", "c"]
    await role.run("all")
    assert contents(role)[3:] == ["all", "a", "b", "c"]


@pytest.mark.parametrize("verdict", [None, True])
async def test_a_think_that_leaves_no_todo_ends_the_run(verdict: bool | None) -> None:
    class Once(Role):
        actions = [Say]

        async def _think(self) -> bool | None:
            self._set_state(-1 if self.rc.state == 0 else 0)
            return verdict

    role = Once()
    await role.run("go")
    assert contents(role) == ["go", "hi"]


async def test_think_may_set_an_action_that_is_in_no_list() -> None:
    class Dynamic(Role):
        done: bool = False

        async def _think(self) -> bool:
            if self.done:
                return False
            self.done = True
            self.set_todo(Say("made up"))
            return True

    assert (await Dynamic().run("go")).content == "made up"


async def test_a_detour_leaves_the_place_in_the_list() -> None:
    class Detour(Role):
        actions = [Say("a"), Say("b")]

        async def _act(self) -> Message | None:
            message = await super()._act()
            if message.content == "a":
                self.set_todo(Say("detour"))
            return message

    role = Detour()
    await role.run("go")
    assert contents(role) == ["go", "a", "detour", "b"]


async def test_todo_none_in_act_means_choose_again_and_repeats_nothing() -> None:
    class Habit(Role):
        actions = [Say("a"), Say("b")]

        async def _act(self) -> Message | None:
            message = await super()._act()
            self.rc.todo = None
            return message

    role = Habit()
    await role.run("go")
    assert contents(role) == ["go", "a", "b"]


async def test_observe_may_filter() -> None:
    class Picky(Role):
        actions = [Say]

        async def _observe(self) -> int:
            await super()._observe()
            self.rc.news = [m for m in self.rc.news if "please" in m.content]
            return len(self.rc.news)

    role = Picky()
    assert await role.run("now") is None
    assert (await role.run("now, please")).content == "hi"


async def test_react_may_be_replaced() -> None:
    class Oracle(Role):
        async def react(self) -> str:  # type: ignore[override]
            return await self.ask(self.rc.news[-1].content)

    oracle = Oracle(model=ScriptedModel(["42"]))
    assert (await oracle.run("the answer?")).content == "42"
    assert oracle.is_idle


async def test_a_custom_react_publishes_what_it_returns_and_what_it_publishes() -> None:
    """The tutorial's loop: only the last message goes out unless the loop says more."""

    class Loop(Role):
        actions = [Say("a"), Say("b")]

        async def _react(self) -> Message | None:
            message = None
            while await self._think():
                message = await self._act()
                if message.content == "a":
                    self.publish_message(message)
            return message

    role = Loop()
    await role.run("go")
    assert recorded(role) == ["go", "a", "b"]


# --- fields that live in the context ---------------------------------------------------------


def test_state_todo_and_states_are_views_of_one_cursor() -> None:
    """Wart 5: five fields that must agree."""
    role = Role(actions=[Say("a"), Say("b")])
    assert (role.rc.state, role.rc.todo, role.states) == (-1, None, ["0. Say", "1. Say"])
    role._set_state(1)
    assert role.rc.todo is role.actions[1]
    role.rc.state = 0
    assert role.rc.todo is role.actions[0]
    role.rc.todo = role.actions[1]
    assert role.rc.state == 1
    role.rc.todo = None
    assert role.rc.state == -1


@pytest.mark.parametrize("state", [-2, 2, 99])
def test_a_state_out_of_range_names_role_and_range(state: int) -> None:
    role = Role(name="Ann", actions=[Say, Say])
    for place in (role._set_state, lambda i: setattr(role.rc, "state", i)):
        with pytest.raises(StateOutOfRange) as caught:
            place(state)
        assert f"State {state} of role 'Ann' does not exist: it has 2 actions" in str(caught.value)
        assert "from -1 (nothing to do) to 1" in str(caught.value)
    assert role.rc.state == -1


def test_react_mode_and_watch_can_be_set_by_class_keyword_attribute_and_method() -> None:
    class Watcher(Role):
        react_mode = "react"
        watch = [Say]

    by_class = Watcher()
    by_keyword = Role(react_mode="react", watch=[Say])
    by_attribute = Role()
    by_attribute.react_mode, by_attribute.watch = "react", [Say]
    by_method = Role()
    by_method._set_react_mode(RoleReactMode.REACT.value)
    by_method._watch([Say])
    by_context = Role(react_mode="react")
    by_context.rc.watch = [Say]
    for role in (by_class, by_keyword, by_attribute, by_method, by_context):
        assert role.rc.react_mode is RoleReactMode.REACT
        assert role.rc.watch == {f"{__name__}.Say"}
    assert by_method.react_mode is RoleReactMode.REACT


def test_an_unknown_react_mode_lists_the_modes() -> None:
    with pytest.raises(UsageError, match=r"'order', expected one of \['react', 'by_order', 'plan"):
        Role(react_mode="order")


def test_actions_can_be_given_as_classes() -> None:
    """Wart 17: `Role(actions=[ActionClass])` raised a TypeError about metaclasses."""
    assert [action.name for action in Role(actions=[Say]).actions] == ["Say"]


async def test_a_role_can_be_copied_deeply() -> None:
    original = Role(name="Ann", actions=[Say("a")])
    await original.run("go")
    twin = copy.deepcopy(original)
    await twin.run("go")
    assert (contents(original), contents(twin)) == (["go", "a"], ["go", "a", "go", "a"])
    assert twin.actions[0].role is twin
