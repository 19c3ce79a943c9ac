"""Mistakes that Python lets pass, and that cost a newcomer an afternoon: what says so, and when."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import pytest

from rolecraft import Action, Environment, Message, Role, ScriptedModel
from rolecraft.errors import UsageError
from rolecraft.roles import UseTools


class Nothing(Action):
    async def run(self) -> None: ...


def test_a_misspelt_field_is_told_where_the_class_is_defined() -> None:
    """`gaol = ...` used to be a field of its own, and the role had no goal."""
    with pytest.warns(UserWarning, match="`Editor` sets `gaol`.*If you mean `goal`") as caught:

        class Editor(Role):
            gaol = "short headlines"

    assert caught[0].filename == __file__
    assert "annotate it: `gaol: str = ...`" in str(caught[0].message)


@pytest.mark.parametrize(
    ("base", "name", "meant"),
    [
        (Role, "watches", "watch"),
        (Role, "wacth", "watch"),
        (Role, "descr", "desc"),
        (Role, "action", "actions"),
        (Role, "limit", "limits"),
        (Role, "constrains", "constraints"),
        (Action, "descr", "desc"),
        (Action, "time_out", "timeout"),
        (UseTools, "maxsteps", "max_steps"),
    ],
)
def test_near_misses_name_the_field_that_is_meant(base: type, name: str, meant: str) -> None:
    with pytest.warns(UserWarning, match=f"`{name}`.*`{meant}`"):
        type("Mine", (base,), {name: "x"})


def test_fields_of_one_s_own_are_no_near_misses() -> None:
    """Nothing is said of other names, of annotated ones, and of a field that is set as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class Player(Role):
            goal = "win"
            game = "chess"
            title = "champion"
            topics = ["openings"]
            score = 0
            goals: ClassVar[int] = 3
            mode: str = "fast"

        class Team(Player):
            game = "go"
            mode = "slow"

    assert (Team().goal, Team().mode) == ("win", "slow")


@pytest.mark.parametrize("name", ["_write", "_take_up", "_number", "_log_now", "_setting", "_solo"])
def test_a_role_cannot_hide_a_private_part_of_its_base(name: str) -> None:
    """Two ready-made roles once had a method `_write`, and recorded nothing any more."""
    with pytest.raises(UsageError, match=f"`Mine.{name}` hides a part of `Role`.*`_act`"):
        type("Mine", (Role,), {name: lambda self: None})


@pytest.mark.parametrize("name", ["_owner", "_bound", "_owned"])
def test_an_action_cannot_either(name: str) -> None:
    with pytest.raises(UsageError, match=f"`Mine.{name}` hides a part of `Action`"):
        type("Mine", (Action,), {name: None})


def test_a_mixin_cannot_either() -> None:
    class Logs:
        def _write(self, text: str) -> None: ...

    with pytest.raises(UsageError, match=r"`Logs._write` hides a part of `Role`"):

        class Mine(Logs, Role): ...  # type: ignore[misc]


def test_neither_can_an_attribute_that_is_set_later() -> None:
    class Mine(Role):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            self._take_up = ["nothing yet"]  # type: ignore[method-assign, assignment]

    with pytest.raises(UsageError, match=r"`self._take_up = ...` in `Mine` hides a part of `Role`"):
        Mine()


def test_the_hooks_are_free() -> None:
    class Mine(Role):
        async def _observe(self) -> int:
            return await super()._observe()

        async def _think(self) -> bool | None:
            return await super()._think()

        async def _act(self) -> Any:
            return await super()._act()

        async def _react(self) -> Any:
            return await super()._react()

        async def _aask(self, prompt: str, system_msgs: list[str] | None = None) -> str:
            return prompt

        def _set_state(self, state: int) -> None: ...

        def _watch(self, actions: Any) -> None:
            super()._watch(actions)

        def _init_actions(self, actions: Any) -> None: ...

        def _set_react_mode(self, react_mode: Any, *args: Any) -> None:
            super()._set_react_mode(react_mode, *args)

    assert Mine().name == "Mine"


def test_private_names_of_one_s_own_are_free_and_so_is_overriding_them() -> None:
    class Base(Role):
        _note = "base"

        def _helper(self) -> str:
            return self._note

    class Mine(Base):
        _note = "mine"

        def _helper(self) -> str:
            return super()._helper() + "!"

    mine = Mine()
    mine._extra = 1
    assert mine._helper() == "mine!"


def test_who_means_it_says_so() -> None:
    class Mine(Role):
        _hooks = Role._hooks | {"_take_up"}

        def _take_up(self, said: Any) -> Message | None:
            return super()._take_up(said)

    assert "_take_up" not in Mine()._methods


async def _never_awaited() -> str:
    return "text"


async def test_an_action_that_forgets_to_await_is_told_so() -> None:
    class Forget(Action):
        async def run(self) -> Any:
            return self.ask("?")

    role = Role(actions=[Forget], model=ScriptedModel([]))
    with pytest.raises(UsageError, match=r"`Forget.run` returned .*write `await` in front"):
        await role.run("go")


@pytest.mark.parametrize("as_message", [str, Message])
async def test_a_call_in_an_f_string_that_was_not_awaited_is_told_once(as_message: Any) -> None:
    """Its text is `<coroutine object ...`, which the next role would take for an answer."""

    class Draft(Action):
        async def run(self) -> Any:
            return as_message(f"answer: {self.ask('?')}")

    role = Role(name="Ann", actions=[Draft], model=ScriptedModel([]))
    with pytest.warns() as caught:  # Python's own comes too, and names neither action nor role
        await role.run("go")
    (ours,) = [str(each.message) for each in caught if each.category is UserWarning]
    assert "`Draft` of role 'Ann'" in ours
    assert "`ask` was not awaited. In an f-string, write `{await ...}`" in ours


class Tone(Action):
    async def run(self, history: Any, tone: str, *, words: int) -> str:
        return f"{tone} {words}"


TOO_MUCH = r"`Tone.run` wants `tone`, `words`, and a role gives it the history only: make a field"


def test_an_action_that_wants_more_than_a_role_gives_it_is_told_so_at_once() -> None:
    with pytest.raises(UsageError, match=TOO_MUCH):
        Role(actions=[Tone])
    with pytest.raises(UsageError, match=TOO_MUCH):
        Role(actions=[Nothing]).add_actions(Tone)


async def test_so_is_one_that_is_put_into_todo() -> None:
    role = Role(actions=[Nothing])
    role.set_todo(Tone())
    with pytest.raises(UsageError, match=TOO_MUCH):
        await role.run("go")


async def test_who_calls_it_may_give_it_more() -> None:
    class Mine(Role):
        actions = [Tone]

        async def _act(self) -> Any:
            assert isinstance(self.rc.todo, Tone)
            return await self.rc.todo.run(self.rc.history, "dry", words=9)

    assert str(await Mine().run("go")) == "Mine: dry 9"


@pytest.mark.parametrize("say", [Message, Environment().publish_message, Role().put_message])
def test_so_is_who_says_what_was_not_awaited(say: Any) -> None:
    """And Python's own warning about it does not come on top."""
    with pytest.raises(UsageError, match="not awaited: write `await`"):
        say(_never_awaited())


async def test_so_is_a_role_whose_act_forgets_it() -> None:
    class Forget(Role):
        async def _act(self) -> Any:
            return super()._act()

    with pytest.raises(UsageError, match="not awaited: write `await`"):
        await Forget(actions=[Nothing]).run("go")


@pytest.mark.parametrize(
    ("name", "meant"), [("llm", "`model`"), ("_actions", "`add_actions"), ("_rc", "`rc`")]
)
def test_what_other_frameworks_call_otherwise_is_pointed_to(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{meant}"):
        getattr(Role(), name)


@pytest.mark.parametrize("change", ["append", "extend", "insert", "remove", "pop", "clear"])
def test_an_action_list_that_is_changed_in_place_says_how_it_is_done(change: str) -> None:
    role = Role(actions=[Nothing])
    for actions in (role.actions, role.rc.cursor.actions, Role().actions):
        with pytest.raises(AttributeError, match=f"'{change}'.*`add_actions"):
            getattr(actions, change)


async def test_a_role_that_empties_its_empty_list_again_and_again_comes_to_an_end() -> None:
    class Mine(Role):
        async def _think(self) -> bool | None:
            self.set_actions([])
            return True

    assert await Mine().run("go") is None


def test_a_role_s_own_run_that_can_be_called_as_role_run_is_free() -> None:
    class Mine(Role):
        async def run(self, message: Any = None, *args: Any, **more: Any) -> Message | None:
            return await super().run(message)

    assert Mine().name == "Mine"


class Say(Action):
    async def run(self) -> str:
        return "hello"


@pytest.mark.parametrize("watched", ["Sya", "Say", "somewhere.else.Say", f"{__name__}.Sya"])
async def test_a_watched_string_that_is_almost_an_action_is_told_when_the_run_begins(
    watched: str,
) -> None:
    """A bare class name is no address: the role would never hear anything."""
    env = Environment([Role(name="Ann", actions=[Say]), Role(name="Bob", watch=[watched])])
    text = f"'Bob' watches '{watched}'.*`watch=\\[Say\\]`, or its address, '{__name__}.Say'"
    with pytest.warns(UserWarning, match=text):
        env.publish_message("go")


@pytest.mark.parametrize("watched", [Say, f"{__name__}.Nothing", "mail", "Prices", "app.Story"])
def test_nothing_is_said_of_other_addresses(watched: Any) -> None:
    """Messages from outside say `cause_by` as they like, and a class may come to be used later."""
    env = Environment([Role(name="Ann", actions=[Say]), Role(name="Bob", watch=[watched])])
    env.publish_message("go")
    assert env.messages == 1
