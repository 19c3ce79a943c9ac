"""People among the roles: addressed by name, playing roles, planning; and replayed without them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from rolecraft import Action, Message, Role, ScriptedModel, Team
from rolecraft.actions import tool
from rolecraft.errors import RealModelForbidden
from rolecraft.models.human import HumanModel, Question
from rolecraft.roles.human import Answer, Human


class AskAnn(Action):
    async def run(self, history: Any) -> Message:
        return Message(f"Shall we {history[-1].content}?", send_to="Ann")


class Obey(Action):
    async def run(self, history: Any) -> Message:
        return Message(f"As you said: {history[-1].content}", send_to="<none>")


class Worker(Role):
    actions = [AskAnn]

    async def _act(self) -> Message | None:
        if self.rc.news[-1].sent_from == "Ann":
            self.set_actions([Obey])
        return await super()._act()


def said(team: Team) -> list[tuple[str, str]]:
    return [(event.role, event.content) for event in team.trajectory.of("message")]


async def test_a_person_is_addressed_by_name_and_answers_whoever_asked() -> None:
    questions: list[Question] = []

    async def answer(question: Question) -> str:
        questions.append(question)
        return "tomorrow"

    team = Team([Worker(name="Bob"), Human(name="Ann", answer=answer)])
    await team.run("begin")
    assert said(team) == [
        ("user", "begin"),
        ("Bob", "Shall we begin?"),
        ("Ann", "tomorrow"),
        ("Bob", "As you said: tomorrow"),
    ]
    assert questions == [Question("Ann", "Bob says: Shall we begin?")]


async def test_a_person_takes_up_only_what_is_sent_to_them_unless_they_watch() -> None:
    class Talk(Action):
        async def run(self) -> str:
            return "hello"

    def team(**fields: Any) -> Team:
        human = Human(name="Ann", answer=lambda question: "hm", **fields)
        return Team([Role(name="Bob", actions=[Talk]), human])

    silent, curious = team(), team(watch=[Talk])
    await silent.run("go")
    await curious.run("go")
    assert [role for role, _ in said(silent)] == ["user", "Bob"]
    assert [role for role, _ in said(curious)] == ["user", "Bob", "Ann"]


async def test_roles_may_watch_what_people_answer() -> None:
    class Note(Action):
        async def run(self, history: Any) -> str:
            return f"noted: {history[-1].content}"

    team = Team(
        [
            Worker(name="Bob"),
            Human(name="Ann", answer=lambda question: "no"),
            Role(name="Clerk", actions=[Note], watch=[Answer]),
        ]
    )
    await team.run("begin")
    assert ("Clerk", "noted: no") in said(team)


async def test_to_an_empty_line_nothing_is_said() -> None:
    assert await Human(answer=lambda question: " ").run("So?") is None


async def test_without_a_function_a_person_is_asked_at_the_terminal() -> None:
    with pytest.raises(RealModelForbidden, match="human"):
        await Human(name="Ann").run("So?")


class Review(BaseModel):
    safe: bool
    reason: str


class Judge(Role):
    """Asks in its own code, which runs again when a run is replayed."""

    async def _react(self) -> Message | None:
        review = await self.ask("Is it safe?", returns=Review)
        return Message(f"{review.safe}: {review.reason}")


class Look(Action):
    async def run(self) -> str:
        return "looked"


async def test_any_role_can_be_played_by_a_person_and_replayed_without_them() -> None:
    """The questions of the record are those that a person was asked, in words."""
    lines = {"Judge": ["no", "sharp"], "Planner": ["yes", "", "Look", "", "", "no"]}
    person = HumanModel(lambda question: lines[question.role].pop(0))
    planner = Role(name="Planner", actions=[Look], react_mode="plan_and_act")
    team = Team([Judge(name="Judge"), planner], model=person)
    run = await team.run("scissors")
    again = await team.replay(run)
    assert again.trajectory.events == run.trajectory.events
    assert said(team)[1] == ("Judge", "False: sharp")
    assert [event.data["action"] for event in run.trajectory.of("action")] == ["Look"]


def test_is_human_is_metagpts_word_for_a_person_as_the_model() -> None:
    """Wart 19: `Role(is_human=True)` crashed."""

    class Reviewer(Role):
        is_human = True

    for role in (Role(is_human=True), Reviewer(model=ScriptedModel([]))):
        assert isinstance(role.open_session().model, HumanModel)


async def test_a_person_chooses_in_react_mode() -> None:
    questions: list[Question] = []

    def answer(question: Question) -> str:
        questions.append(question)
        return ["Obey", "done"][len(questions) - 1]

    role = Role(name="Bob", actions=[Look, Obey], react_mode="react", model=HumanModel(answer))
    await role.run("go")
    assert questions[0].choices == ("Look", "Obey", "done")
    assert [event.data["action"] for event in role.trajectory.of("action")] == ["Obey"]


async def test_a_person_plays_a_role_that_has_tools() -> None:
    @tool
    def weather(day: str) -> str:
        """The weather of a day."""
        return f"rain on {day}"

    heard: list[str] = []

    def answer(question: Question) -> str:
        heard.append(question.text)
        return ['weather {day: "Monday"}', "It will rain."][len(heard) - 1]

    role = Role(name="Ann", tools=[weather], model=HumanModel(answer))
    message = await role.run("How will it be?")
    assert message is not None
    assert message.content == "It will rain."
    assert "rain on Monday" in heard[1]


async def test_people_and_models_play_together() -> None:
    class Draft(Action):
        async def run(self, history: Any) -> str:
            return await self.ask(f"Write about {history[-1].content}")

    class Approve(Action):
        async def run(self, history: Any) -> Any:
            return await self.ask(f"Good?\n{history[-1].content}", returns=Review)

    lines = iter(["yes", "fine"])
    team = Team(
        [
            Role(name="Writer", actions=[Draft], model=ScriptedModel(["It rained."])),
            Role(
                name="Boss",
                actions=[Approve],
                watch=[Draft],
                model=HumanModel(lambda question: next(lines)),
            ),
        ]
    )
    run = await team.run("rain")
    assert run.message is not None
    assert run.message.instruct_content == Review(safe=True, reason="fine")
