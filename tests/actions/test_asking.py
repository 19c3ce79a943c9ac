"""Typed questions: what is asked, what counts as an answer, what happens when there is none."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from rolecraft import Action, Role, Sampling, ScriptedModel
from rolecraft.errors import InvalidAnswer, UsageError

Colour = Literal["red", "green"]


class Review(BaseModel):
    safe: bool
    reason: str = ""


def role(*replies: str) -> Role:
    return Role(name="Ann", model=ScriptedModel(replies))


async def test_a_plain_question_gives_the_text() -> None:
    ann = role("blue")
    assert await ann.ask("colour?") == "blue"
    assert await role("blue")._aask("colour?", ["Be brief.", "Be kind."]) == "blue"


async def test_a_literal_limits_what_the_model_may_say() -> None:
    ann = role("green")
    assert await ann.ask("colour?", returns=Colour, sampling=Sampling(temperature=0.5)) == "green"
    (call,) = ann.model.calls
    assert call.sampling == Sampling(temperature=0.5, choices=("red", "green"))
    assert call.messages[-1].content == "colour?"


@pytest.mark.parametrize("reply", [" Green.\n", "'green'", "`GREEN`"])
async def test_a_choice_is_recognised_in_spite_of_case_quotes_and_full_stops(reply: str) -> None:
    assert await role(reply).ask("colour?", returns=Colour) == "green"


async def test_a_choice_keeps_the_type_of_its_value() -> None:
    assert await role("2").ask("how many?", returns=Literal[1, 2]) == 2


async def test_a_wrong_choice_is_asked_again_in_the_same_conversation() -> None:
    ann = role("purple", "red")
    assert await ann.ask("colour?", returns=Colour) == "red"
    again = ann.model.calls[1].messages
    assert [m.content for m in again[:2]] == ["colour?", "purple"]
    assert again[2].content == (
        "That answer is not valid: 'purple' is none of the choices. Answer with one of: red, green"
    )


async def test_a_model_that_never_chooses_is_an_invalid_answer() -> None:
    with pytest.raises(InvalidAnswer, match=r"last answer was 'c'.*the choices: red, green\.$"):
        await role("a", "b", "c").ask("colour?", returns=Colour)


async def test_a_pydantic_model_is_validated_and_its_schema_told() -> None:
    ann = role('{"safe": true}')
    assert await ann.ask("safe?", returns=Review) == Review(safe=True)
    assert '"safe"' in ann.model.calls[0].messages[-1].content


@pytest.mark.parametrize(
    ("returns", "reply", "answer"),
    [
        (list[str], '["a", "b"]', ["a", "b"]),
        (int, " 7 ", 7),
        (bool, "```json\ntrue\n```", True),
        (dict[str, int], 'Here it is: {"a": 1}. Good luck!', {"a": 1}),
    ],
)
async def test_any_type_that_pydantic_knows(returns: type, reply: str, answer: object) -> None:
    assert await role(reply).ask("?", returns=returns) == answer


async def test_an_invalid_answer_is_asked_again_with_the_reason() -> None:
    ann = role('{"safe": "perhaps"}', '{"safe": false}')
    assert (await ann.ask("safe?", returns=Review)).safe is False
    assert "safe: Input should be a valid boolean" in ann.model.calls[1].messages[-1].content


async def test_an_answer_that_stays_invalid_shows_the_last_one() -> None:
    """What the model is told to do about it is not for whoever reads the error."""
    told = r"no valid Review in 3 attempts.*answer was 'no'"
    with pytest.raises(InvalidAnswer, match=told) as caught:
        await role("no", "no", "no").ask("safe?", returns=Review)
    assert "Answer again" not in str(caught.value)


async def test_an_action_asks_on_behalf_of_its_role() -> None:
    class Judge(Action):
        async def run(self) -> str:
            return str(await self.ask("colour?", returns=Colour))

    ann = Role(
        name="Ann", profile="painter", goal="beauty", model=ScriptedModel(["red"]), actions=[Judge]
    )
    assert (await ann.run("go")).content == "red"
    system = ann.model.calls[0].messages[0]
    assert (system.role, system.content) == ("system", "You are Ann, painter.\nYour goal: beauty.")


async def test_system_replaces_the_prompt_of_the_role() -> None:
    ann = Role(profile="painter", model=ScriptedModel(["a", "b"]))
    await ann.ask("?", system="Be brief.")
    await ann.ask("?", system="")
    first, second = ann.model.calls
    assert first.messages[0].content == "Be brief."
    assert [m.role for m in second.messages] == ["user"]


async def test_a_session_goes_on_with_a_conversation() -> None:
    ann = role("a", "b")
    session = ann.open_session()
    await ann.ask("one", session=session)
    await ann.ask("two", session=session)
    assert [m.content for m in ann.model.calls[1].messages] == ["one", "a", "two"]
    assert session.id == "Ann/1"
    assert [e.data["session"] for e in ann.trajectory.of("model_call")] == ["Ann/1", "Ann/1"]


async def test_without_a_model_the_error_says_where_to_give_one() -> None:
    with pytest.raises(UsageError) as caught:
        await Role(name="Ann").ask("?")
    assert "Role 'Ann' asks a model and has none" in str(caught.value)
    assert "`--model MODEL` on the command line" in str(caught.value)
    assert "ScriptedModel" in str(caught.value)


async def test_a_model_named_by_a_string_is_made_once_for_a_role() -> None:
    ann = Role(model="openai/gpt-4o-mini")
    assert ann.open_session().model is ann.open_session().model
