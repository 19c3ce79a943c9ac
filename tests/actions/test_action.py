"""Actions: what can be one, when it is recorded, whom it belongs to."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from rolecraft import Action, Message, Role, ScriptedModel
from rolecraft.errors import UsageError


class Say(Action):
    """Say a word.

    And nothing more.
    """

    word: str = "hi"

    async def run(self) -> str:
        return self.word


def started(role: Role) -> list[str]:
    return [event.data["action"] for event in role.trajectory.of("action")]


# --- what can be an action -------------------------------------------------------------------


def test_run_must_be_a_coroutine() -> None:
    with pytest.raises(UsageError, match=r"`\S*Plain.run` is no coroutine: write `async def run"):

        class Plain(Action):
            def run(self) -> str:  # type: ignore[override]
                return "x"


def test_run_must_not_yield() -> None:
    with pytest.raises(UsageError, match=r"`\S*Stream.run` yields, it must return"):

        class Stream(Action):
            async def run(self):  # type: ignore[no-untyped-def, override]
                yield "x"


def test_run_must_be_a_method() -> None:
    with pytest.raises(UsageError, match=r"write `async def run\(self, history\)`"):

        class Static(Action):
            @staticmethod
            async def run() -> str:  # type: ignore[override]
                return "x"


def test_an_action_without_run_is_refused_when_a_role_gets_it() -> None:
    class Nothing(Action): ...

    with pytest.raises(UsageError, match="Action `Nothing` of role 'Ann' has no `async def run"):
        Role(name="Ann", actions=[Nothing])


def test_an_action_that_is_not_one_is_named() -> None:
    with pytest.raises(UsageError, match="`actions` holds <class 'int'>, which is neither"):
        Role(actions=[int])
    with pytest.raises(UsageError, match=r"`actions` wants a list of actions, got Say\('Say'\)"):
        Role(actions=Say())


async def test_a_decorator_that_keeps_the_function_is_allowed() -> None:
    def twice(run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        async def decorated(self: Action, *args: Any) -> str:
            return await run(self, *args) * 2

        return decorated

    class Echo(Action):
        @twice
        async def run(self, history: Any) -> str:
            return history[-1].content

    role = Role(actions=[Echo])
    assert (await role.run("ab")).content == "abab"
    assert started(role) == ["Echo"]


def test_a_decorator_that_loses_the_function_is_told_how_to_keep_it() -> None:
    def bad(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: run(self)

    with pytest.raises(UsageError, match=r"functools.wraps"):

        class Echo(Action):
            @bad
            async def run(self) -> str:
                return "x"


async def test_run_gets_the_history_if_it_has_a_place_for_it() -> None:
    class Count(Action):
        async def run(self, history: Any) -> str:
            return str(len(history))

    class Anything(Action):
        async def run(self, *args: Any, **kwargs: Any) -> str:
            return str(len(args[0]))

    role = Role(actions=[Count, Say, Anything])
    await role.run("go")
    assert [m.content for m in role.rc.memory.get()] == ["go", "1", "hi", "3"]


def test_description_is_desc_or_the_first_line_of_the_docstring() -> None:
    assert Say().description == "Say a word."
    assert Say(desc="speak").description == "speak"


def test_an_action_prints_as_its_name_and_shows_its_fields() -> None:
    assert str(Say(name="Shout")) == "Shout"
    assert repr(Say(word="ho")) == "Say('Say', word='ho')"


def test_an_action_of_no_role_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"Action `Say` belongs to no role.*Role\(actions=\[Say\]"):
        _ = Say().role


async def test_an_action_of_no_role_can_be_run_and_is_not_recorded() -> None:
    assert await Say("ho").run() == "ho"


# --- recording -------------------------------------------------------------------------------


async def test_super_run_is_one_start() -> None:
    class Shout(Say):
        async def run(self) -> str:
            return (await super().run()).upper()

    role = Role(actions=[Shout])
    assert (await role.run("go")).content == "HI"
    assert started(role) == ["Shout"]


async def test_an_action_within_an_action_is_recorded_under_the_outer_one() -> None:
    inner = Say("inner")

    class Outer(Action):
        async def run(self) -> Message:
            return Message(await inner.run())

    role = Role(actions=[Outer, inner])
    role.set_actions([Outer, inner])
    await role.run("go")
    actions = list(role.trajectory.of("action"))
    assert [a.data["action"] for a in actions] == ["Outer", "Say", "Say"]
    assert [a.data["index"] for a in actions] == [0, -1, 1]  # the nested one is not the list's turn
    assert actions[1].cause == actions[0].seq
    first = next(m for m in role.trajectory.of("message") if m.content == "inner")
    assert first.data["cause_by"].endswith("Outer")


async def test_one_instance_run_twice_at_once_counts_twice() -> None:
    class Both(Role):
        actions = [Say("a")]

        async def _act(self) -> Message:
            todo = self.rc.todo
            assert todo is not None
            return Message("".join(await asyncio.gather(todo.run(), todo.run())))

    role = Both()
    assert (await role.run("go")).content == "aa"
    assert started(role) == ["Say", "Say"]


async def test_fields_and_plain_arguments_are_recorded() -> None:
    class Add(Action):
        left: int

        async def run(self, right: int = 0, table: object = None) -> int:
            return self.left + right

    class Adder(Role):
        actions = [Add(2)]

        async def _act(self) -> Message:
            assert self.rc.todo is not None
            return Message(str(await self.rc.todo.run(right=3, table=object())))

    role = Adder()
    assert (await role.run("go")).content == "5"
    (event,) = role.trajectory.of("action")
    fields = {"left": 2, "right": 3}
    assert event.data == {"action": "Add", "index": 0, "run": "1", "fields": fields}


async def test_a_failing_action_is_recorded_once_and_keeps_its_exception() -> None:
    class Fail(Action):
        async def run(self) -> str:
            raise KeyError("lost")

    class Outer(Action):
        async def run(self) -> str:
            return await fail.run()

    fail = Fail()
    role = Role(name="Ann", actions=[fail])
    role.set_actions([Outer, fail])
    with pytest.raises(KeyError, match="lost") as caught:
        await role.run("go")
    assert caught.value.__notes__ == ["raised in action 'Fail' of role 'Ann'"]
    (event,) = role.trajectory.of("error")
    assert event.data == {"type": "KeyError", "action": "Fail"}
    assert role.trajectory.events[event.cause].data["action"] == "Fail"


async def test_a_failure_that_the_role_survives_is_recorded_each_time() -> None:
    problem = OSError("down")

    class Fetch(Action):
        async def run(self) -> str:
            raise problem

    class Stubborn(Role):
        actions = [Fetch, Fetch, Say]

        async def _act(self) -> Message | None:
            try:
                return await super()._act()
            except OSError:
                return None

    role = Stubborn()
    assert (await role.run("go")).content == "hi"
    assert len(list(role.trajectory.of("error"))) == 2


# --- whom it belongs to ----------------------------------------------------------------------


async def test_an_action_given_to_two_roles_asks_each_ones_model() -> None:
    """Wart 15: it spoke with the other role's system prompt."""

    class Ask(Action):
        seen: list[str] = []

        async def run(self, history: Any) -> str:
            self.seen.append(history[-1].content)
            return await self.ask("who are you?")

    shared = Ask()
    one = Role(name="one", system="I am one", model=ScriptedModel(["1"]), actions=[shared])
    two = Role(name="two", system="I am two", model=ScriptedModel(["2"]), actions=[shared])
    assert [(await one.run("a")).content, (await two.run("b")).content] == ["1", "2"]
    assert one.model.calls[0].messages[0].content == "I am one"
    assert two.model.calls[0].messages[0].content == "I am two"
    assert [one.actions[0].seen, two.actions[0].seen] == [["a"], ["b"]]


async def test_an_action_object_in_a_class_is_fresh_for_each_role() -> None:
    """Otherwise one episode's state would leak into the next."""

    class Count(Action):
        times: int = 0
        log: list[int] = []

        async def run(self) -> str:
            self.times += 1
            self.log.append(self.times)
            return str(self.times)

    class Counter(Role):
        actions = [Count()]

    first = Counter()
    await first.run("go")
    await first.run("go")
    second = Counter()
    assert (await second.run("go")).content == "1"
    assert second.actions[0].log == [1]
    assert Counter.actions[0].times == 0
    assert first.actions[0].role is first
