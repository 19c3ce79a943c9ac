"""`Phases`: one switch between a model behind an API and a local one."""

import pytest

from rolecraft import Action, Message, Role, ScriptedModel, Team
from rolecraft.errors import UsageError
from rolecraft.models.phases import Phases


def phases(**given: str) -> Phases:
    return Phases(api=ScriptedModel(["far", "far"]), local=ScriptedModel(["near", "near"]), **given)


async def said(model: Phases) -> str:
    return (await model.session("Ann").generate([Message("Where?")])).text


async def test_the_phase_says_which_model_answers() -> None:
    model = phases()
    assert await said(model) == "far"
    model.phase = "local"
    assert await said(model) == "near"


async def test_a_conversation_stays_with_the_model_that_it_began_with() -> None:
    model = phases()
    session = model.session("Ann")
    model.phase = "local"
    assert (await session.generate([Message("Where?")])).text == "far"


def test_another_word_than_the_two_is_refused_and_changes_nothing() -> None:
    with pytest.raises(UsageError, match=r"`phase` is 'loacl', expected one of \['api', 'local'\]"):
        phases(phase="loacl")
    model = phases()
    with pytest.raises(UsageError, match="`phase` is 2"):
        model.phase = 2  # type: ignore[assignment]
    assert model.phase == "api"


def test_its_name_is_that_of_the_model_in_use_and_nothing_is_made_for_it() -> None:
    model = Phases(api="openai/gpt-4o-mini", local="transformers:/no/such/folder")
    assert model.name == "openai/gpt-4o-mini"
    model.phase = "local"
    assert model.name == "transformers:/no/such/folder"


def test_what_is_no_model_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="`model` is 3, which is no model"):
        Phases(api=3, local="transformers:x")  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["api", "local"])
def test_a_phase_without_a_model_is_refused_at_once(missing: str) -> None:
    given = {"api": "openai/x", "local": "transformers:x", missing: None}
    with pytest.raises(UsageError, match=f"`{missing}` is None: `Phases` wants both"):
        Phases(**given)


async def test_a_team_is_given_both_and_plays_with_the_one() -> None:
    class Answer(Action):
        async def run(self, history: list[Message]) -> str:
            return await self.ask(history[-1].content)

    class Clerk(Role):
        actions = [Answer]

    run = await Team([Clerk()], model=phases(phase="local")).run("Where?")
    assert run.message is not None
    assert run.message.content == "near"
