"""MetaGPT's 25 known warts: what happens here instead.

One test for each wart that another file does not cover already; the docstring gives its number in
the project's list. Where the others are pinned:

     1 test_choosing: `test_done_at_once_is_no_action_and_no_error`
     2 test_choosing: `test_one_action_is_run_once_without_asking`
     3 test_choosing: `test_the_loop_has_no_hidden_bound`
     4 test_choosing: `test_the_model_sees_what_happened_the_actions_and_what_they_do`
     5 test_swaps, and 10,000 programs in test_random_programs
     6 test_team: `test_a_team_of_one_s_own_roles_works`
     7 test_team: `test_a_limit_stops_the_team_before_the_call_and_is_recorded`
     8 test_rounds: `test_an_exception_keeps_its_type_and_tells_role_action_and_round`
     9 test_team: `test_an_idea_can_be_sent_to_one_role`
    11 test_routing: `test_two_roles_of_default_settings_do_not_wake_each_other`
    12 test_rounds: `test_nobody_sees_in_a_round_what_is_said_in_it`
    13 test_rounds: `test_a_one_step_job_takes_one_round`
    14 test_memory: `test_adding_costs_the_same_in_a_long_memory_as_in_a_short_one`
    15 test_action: `test_an_action_given_to_two_roles_asks_each_ones_model`
    16 test_declared: `test_a_name_that_is_not_set_is_the_class_name`
    17 test_role: `test_actions_can_be_given_as_classes`
    18 test_routing: `test_two_roles_of_one_name_are_refused`
    19 test_human: `test_any_role_can_be_played_by_a_person_and_replayed_without_them`
    20 test_role: `test_a_role_without_actions_says_so_when_it_is_to_act`
    23 tests/trajectories: journals that survive a kill
    25 tests/test_imports: what importing costs

24 (installation) is the continuous integration's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rolecraft import Action, Environment, Message, Role, ScriptedModel, Team
from rolecraft.errors import RolecraftError


class Plan(BaseModel):
    steps: list[str]


class Return(Action):
    value: Any

    async def run(self) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (0, "0"),
        (2.5, "2.5"),
        (True, "true"),
        ([1, "a"], '[1, "a"]'),
        ({"name": "名"}, '{"name": "名"}'),
        (Plan(steps=["a"]), '{"steps":["a"]}'),
    ],
)
async def test_an_action_may_return_any_json_value(value: Any, content: str) -> None:
    """Wart 10: dict, int and list raised a ValidationError far from the cause; 0 became ''."""
    reply = await Role(actions=[Return(value)]).run("go")
    assert reply is not None
    assert reply.content == content
    assert reply.instruct_content is (value if isinstance(value, Plan) else None)


async def test_two_roles_of_one_model_keep_their_own_prompts() -> None:
    """Wart 15: given one model object, A spoke with B's system prompt."""

    class Ask(Action):
        async def run(self) -> str:
            return await self.ask("?")

    model = ScriptedModel(per_role={"a": ["1"], "b": ["2"]})
    roles = [Role(name=name, system=f"I am {name}", actions=[Ask], model=model) for name in "ab"]
    env = Environment(roles)
    env.publish_message("go")
    await env.run()
    prompts = {call.role: call.messages[0].content for call in model.calls}
    assert prompts == {"a": "I am a", "b": "I am b"}


async def test_a_person_is_a_role_like_any_other() -> None:
    """Wart 19: `Role(is_human=True)` crashed."""

    class Person(Role):
        async def react(self) -> str:  # type: ignore[override]
            return f"I read {self.rc.news[-1].content!r}"

    run = await Team([Person(name="Ann")]).run("a letter")
    assert str(run.message) == "Ann: I read 'a letter'"


def test_roles_share_no_settings() -> None:
    """Wart 21: one mutable configuration was shared by all roles."""

    class Careful(Role):
        rules: list[str] = ["be kind"]
        table: dict[str, int] = {}

    first, second = Careful(), Careful()
    first.rules.append("be brief")
    first.table["a"] = 1
    first.set_actions([Return("x")])
    first.rc.memory.add(Message("secret"))
    assert (second.rules, second.table, second.states) == (["be kind"], {}, [])
    assert len(second.rc.memory) == 0


async def test_an_exception_is_the_object_that_was_raised() -> None:
    """Wart 22: it was rebuilt from its text, and a failure in doing so killed the process."""

    class Particular(Exception):
        def __init__(self, first: int, *, second: int) -> None:
            super().__init__()
            self.sum = first + second

    problem = Particular(1, second=2)

    class Fail(Action):
        async def run(self) -> None:
            raise problem

    env = Environment([Role(name="Ann", actions=[Fail]), Role(name="Bob", actions=[Return("x")])])
    env.publish_message("go")
    with pytest.raises(Particular) as caught:
        await env.run()
    assert caught.value is problem


def test_every_error_of_ours_has_one_base() -> None:
    """A caller who wants to go on after any of our errors needs one `except`."""
    import rolecraft.errors as errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if kind.__module__ == "rolecraft.errors"]
    assert len(ours) > 10
    assert all(issubclass(kind, RolecraftError) for kind in ours)


def test_the_tests_named_above_exist() -> None:
    named = re.findall(r"`(test_\w+)`", __doc__)
    assert len(named) >= 17
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in text] == []
