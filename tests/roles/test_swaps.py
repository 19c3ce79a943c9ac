"""Changing the action list of a role while it runs: one test for each promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Message, Role, ScriptedModel
from rolecraft.errors import ActionLimitReached

Then = Callable[[Role], None]


class Print(Action):
    content: str

    async def run(self) -> str:
        return self.content


def prints(text: str) -> list[Action]:
    return [Print(letter) for letter in text]


class Swapper(Role):
    """Swaps its list after the action `after`, and then does what a user might do."""

    after: str = "3"
    new: str = "456"
    then: Then = staticmethod(lambda role: None)

    async def _act(self) -> Message | None:
        message = await super()._act()
        if message.content == self.after:
            self.set_actions(prints(self.new))
            self.then(self)
        return message


def printed(role: Role) -> str:
    """What the role said in its latest run."""
    said = [m.content for m in role.rc.memory.get()]
    start = len(said) - 1 - said[::-1].index("go")
    return "".join(said[start + 1 :])


THEN: dict[str, Then] = {
    "nothing": lambda role: None,
    "todo = None": lambda role: setattr(role.rc, "todo", None),
    "_set_state(0)": lambda role: role._set_state(0),
    "_set_state(-1)": lambda role: role._set_state(-1),
    "state = 0": lambda role: setattr(role.rc, "state", 0),
    "todo = actions[0]": lambda role: setattr(role.rc, "todo", role.actions[0]),
}


def model_for(mode: str) -> FunctionModel | None:
    """Chooses the actions in order, or plans them in order."""
    asked = iter("0123456789")

    def answer(call: Any) -> str:
        if mode == "plan_and_act":
            steps = ",".join(f'{{"action": "{i}"}}' for i in range(3))
            return f'{{"steps": [{steps}]}}'
        choice = next(asked)
        return choice if choice in call.sampling.choices else "done"

    return None if mode == "by_order" else FunctionModel(answer)


@pytest.mark.parametrize("mode", ["by_order", "react", "plan_and_act"])
@pytest.mark.parametrize("then", THEN)
async def test_a_swapped_in_list_is_worked_off_from_its_first_action(mode: str, then: str) -> None:
    """Wart 5: MetaGPT's own by-order role printed 123 and stopped."""
    role = Swapper(
        actions=prints("123"), then=lambda role: THEN[then](role), react_mode=mode,
        model=model_for(mode),
    )  # fmt: skip
    await role.run("go")
    assert printed(role) == "123456"


async def test_a_list_swapped_in_the_middle_drops_the_rest_of_the_old_one() -> None:
    role = Swapper(actions=prints("123"), after="2", new="45")
    await role.run("go")
    assert printed(role) == "1245"


async def test_a_user_may_start_the_new_list_elsewhere() -> None:
    role = Swapper(actions=prints("123"), then=lambda role: role._set_state(1))
    await role.run("go")
    assert printed(role) == "12356"


async def test_a_swap_within_the_action_itself() -> None:
    class Plan(Action):
        async def run(self) -> str:
            self.role.set_actions(prints("ab"))
            return "planned "

    role = Role(actions=[Plan, Print("never")])
    await role.run("go")
    assert printed(role) == "planned ab"


async def test_a_swap_in_think_applies_at_once() -> None:
    class Thinker(Role):
        swapped: bool = False

        async def _think(self) -> bool | None:
            if not self.swapped:
                self.swapped = True
                self.set_actions(prints("ab"))
            return await super()._think()

    role = Thinker(actions=prints("12"))
    await role.run("go")
    assert printed(role) == "ab"


async def test_a_swap_between_think_and_act_goes_on_with_the_new_list_in_the_same_turn() -> None:
    class Hesitant(Role):
        turns: int = 0

        async def _act(self) -> Message | None:
            self.turns += 1
            if self.turns == 2:
                self.set_actions(prints("ab"))
            return await super()._act()

    role = Hesitant(actions=prints("123"))
    await role.run("go")
    assert (printed(role), role.turns) == ("1ab", 3)


async def test_emptying_the_list_ends_the_run_after_the_action_that_runs() -> None:
    role = Swapper(actions=prints("123"), after="2", new="")
    await role.run("go")
    assert printed(role) == "12"
    assert role.states == []


async def test_emptying_the_list_between_think_and_act_ends_the_run() -> None:
    class Hesitant(Role):
        async def _act(self) -> Message | None:
            if self.rc.state == 1:
                self.set_actions([])
            return await super()._act()

    role = Hesitant(actions=prints("123"))
    await role.run("go")
    assert printed(role) == "1"


async def test_a_swap_between_runs_counts_from_the_next() -> None:
    role = Swapper(actions=prints("123"), new="456")
    await role.run("go")
    await role.run("go")
    assert printed(role) == "456"
    role.set_actions(prints("78"))
    await role.run("go")
    assert printed(role) == "78"


async def test_a_swap_from_another_task_lets_the_running_action_finish() -> None:
    started, swapped = asyncio.Event(), asyncio.Event()

    class Slow(Print):
        async def run(self) -> str:
            started.set()
            await swapped.wait()
            return self.content

    async def intruder() -> None:
        await started.wait()
        role.set_actions(prints("45"))
        swapped.set()

    role = Role(actions=[Slow("1"), Print("2"), Print("3")])
    await asyncio.gather(role.run("go"), intruder())
    assert printed(role) == "145"


async def test_a_swap_while_the_model_chooses_makes_its_answer_void() -> None:
    lists = iter(["45", "6"])

    def choose(call: Any) -> str:
        role.set_actions(prints(next(lists)))
        return "1"

    role = Role(actions=prints("12"), react_mode="react", model=FunctionModel(choose))
    await role.run("go")
    # 45 in order; then the model is asked about 4 and 5, which are swapped for 6: no choice left
    assert printed(role) == "456"


async def test_a_swap_while_the_model_plans_makes_the_plan_void() -> None:
    def plan(call: Any) -> str:
        role.set_actions(prints("45"))
        return '{"steps": [{"action": "1"}, {"action": "0"}]}'

    role = Role(actions=prints("12"), react_mode="plan_and_act", model=FunctionModel(plan))
    await role.run("go")
    assert printed(role) == "45"


async def test_an_action_that_was_placed_meanwhile_goes_before_the_models_choice() -> None:
    def choose(call: Any) -> str:
        if not call.messages[1:]:
            role._set_state(2)
        return ["0", "done"][len(call.messages) // 2]

    role = Role(actions=prints("123"), react_mode="react", model=FunctionModel(choose))
    await role.run("go")
    assert printed(role) == "3"


async def test_after_a_swap_nothing_of_the_old_plan_starts_however_often_one_thinks() -> None:
    class Loop(Role):
        async def _react(self) -> Message | None:
            message = None
            for _ in range(5):
                if await self._think():
                    message = self.publish_message(await self._act())
                    if message.content == "1":
                        self.set_actions(prints("ab"))
            return message

    plan = '{"steps": [{"action": "0"}, {"action": "2"}]}'
    role = Loop(actions=prints("123"), react_mode="plan_and_act", model=ScriptedModel([plan]))
    await role.run("go")
    assert printed(role) == "1ab"


async def test_appended_actions_follow() -> None:
    class Grower(Role):
        async def _act(self) -> Message | None:
            message = await super()._act()
            if message.content == "2":
                self.add_actions(Print("3"), Print("4"))
            return message

    role = Grower(actions=prints("12"))
    await role.run("go")
    assert printed(role) == "1234"
    role.add_actions(Print("5"))
    await role.run("go")  # the list has grown for good, and grows again
    assert printed(role) == "12345" + "34"


async def test_an_endless_swap_ends_with_an_error_that_names_the_limit() -> None:
    role = Swapper(name="Ann", actions=prints("3"), new="3", max_actions=50)
    with pytest.raises(ActionLimitReached) as caught:
        await role.run("go")
    for part in ("Role 'Ann'", "50 actions", "'Print'", "`add_actions`", "`max_actions`"):
        assert part in str(caught.value)
    assert len(list(role.trajectory.of("action"))) == 50


async def test_the_action_limit_is_for_one_run() -> None:
    role = Role(actions=prints("123"), max_actions=3)
    for _ in range(3):
        await role.run("go")


async def test_a_think_that_never_ends_is_stopped_by_the_same_limit() -> None:
    class Stuck(Role):
        actions = prints("1")

        async def _think(self) -> bool:
            self._set_state(0)
            return True

        async def _act(self) -> str:  # type: ignore[override]
            return "no action is run"

    with pytest.raises(ActionLimitReached, match="50 actions"):
        await Stuck(max_actions=50).run("go")


async def test_the_trajectory_records_each_change_with_the_action_that_made_it() -> None:
    role = Swapper(actions=prints("3"), new="45")
    await role.run("go")
    (swap,) = role.trajectory.of("action_swap")
    assert swap.data == {"actions": ["Print", "Print"]}
    assert role.trajectory.events[swap.cause].data["fields"] == {"content": "3"}
    role.add_actions(Print("6"))
    *_, added = role.trajectory.of("action_swap")
    assert (added.data, added.cause) == ({"actions": ["Print"] * 3}, None)


def test_a_bad_list_changes_nothing() -> None:
    role = Role(actions=prints("12"))
    before = role.actions
    for change in (role.set_actions, lambda actions: role.add_actions(*actions)):
        with pytest.raises(Exception, match="`actions` holds 5"):
            change([Print("3"), 5])  # type: ignore[list-item]
    assert role.actions == before
