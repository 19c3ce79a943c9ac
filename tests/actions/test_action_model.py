"""An action may have a model of its own: which model is asked, and where that is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from rolecraft import Action, Environment, Limits, Role, ScriptedModel, Team
from rolecraft.actions import Ask
from rolecraft.errors import LimitReached
from rolecraft.models import Completion
from rolecraft.trajectories import Usage


class Draft(Action):
    async def run(self, history: Any) -> str:
        return await self.ask("Write.")


class Verdict(BaseModel):
    good: bool


class Judge(Ask[Verdict]):
    prompt = "Is it good?"


async def test_the_models_of_actions_come_before_the_roles_and_that_before_the_teams() -> None:
    of_action, of_role, of_team = (
        ScriptedModel([reply], name=name)
        for name, reply in [("judge", '{"good": true}'), ("own", "It rained."), ("team", "Yes.")]
    )
    team = Team(
        [
            Role(name="Ann", actions=[Draft, Judge(model=of_action)], model=of_role),
            Role(name="Bob", actions=[Draft]),
        ],
        model=of_team,
    )
    run = await team.run("go")
    models = {
        (event.role, event.content): event.data["model"]
        for event in run.trajectory.of("model_call")
    }
    assert models == {
        ("Ann", "It rained."): "own",
        ("Ann", '{"good": true}'): "judge",
        ("Bob", "Yes."): "team",
    }


async def test_a_class_names_its_model_once_for_all_its_actions() -> None:
    class Strict(Judge):
        model = ScriptedModel(['{"good": false}'] * 2, name="strict")

    for _ in range(2):
        message = await Role(actions=[Strict], model=ScriptedModel([])).run("go")
        assert message is not None
        assert message.instruct_content == Verdict(good=False)
    Strict.model.assert_complete()


async def test_a_name_is_resolved_once_in_an_environment() -> None:
    class Named(Draft):
        model = "openai/gpt-4o-mini"

    roles = [Role(name=name, actions=[Named]) for name in ("Ann", "Bob")]
    Environment(roles)
    first, second = (role.rc.cursor.actions[0].open_session() for role in roles)
    assert first.model is second.model
    assert roles[0].model is None  # the role's own stays what it was


async def test_one_question_may_go_to_another_model() -> None:
    class Compare(Action):
        async def run(self, history: Any) -> str:
            mine = await self.ask("Which?")
            other = await self.ask("Which?", session=self.open_session(model=second))
            return f"{mine} {other}"

    second = ScriptedModel(["two"])
    message = await Role(actions=[Compare], model=ScriptedModel(["one"])).run("go")
    assert message is not None
    assert message.content == "one two"


async def test_the_budget_binds_whichever_model_is_asked() -> None:
    dear = ScriptedModel([Completion(text='{"good": true}', usage=Usage(10, 10, 0.6))])
    team = Team(
        [Role(name="Ann", actions=[Judge(model=dear), Draft])],
        model=ScriptedModel(["never"]),
        limits=Limits(calls=1),
    )
    with pytest.raises(LimitReached):
        await team.run("go")


async def test_a_replay_asks_neither() -> None:
    team = Team(
        [Role(name="Ann", actions=[Draft, Judge(model=ScriptedModel(['{"good": true}']))])],
        model=ScriptedModel(["It rained."]),
    )
    run = await team.run("go")
    again = await team.replay(run)
    assert again.trajectory.events == run.trajectory.events
