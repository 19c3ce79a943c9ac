"""`forbid_real_models` keeps a test suite off models that cost money. It is on in this suite."""

from __future__ import annotations

import pytest

from rolecraft.errors import RealModelForbidden
from rolecraft.messages import Message
from rolecraft.models import (
    Completion,
    LiteLLMModel,
    Model,
    ScriptedModel,
    allow_real_models,
    forbid_real_models,
)


class Real(Model):
    name = "costly"
    asked = 0

    async def _complete(self, session, tools, sampling):
        self.asked += 1
        return Completion(text="money")


async def test_a_real_model_is_stopped_before_it_is_asked():
    model = Real()
    session = model.session()
    with pytest.raises(RealModelForbidden, match=r"'costly'.*allow_real_models"):
        await session.generate([Message("x")])
    assert model.asked == 0
    assert session.messages == []


async def test_an_api_model_is_a_real_one():
    with pytest.raises(RealModelForbidden, match="'openai/gpt-4o-mini'"):
        await LiteLLMModel("openai/gpt-4o-mini").session().generate([Message("x")])


async def test_doubles_pass():
    assert (await ScriptedModel(["free"]).session().generate([Message("x")])).text == "free"


async def test_allow_lifts_the_ban_for_its_block_only():
    model = Real()
    with allow_real_models():
        assert (await model.session().generate()).text == "money"
        with forbid_real_models(), pytest.raises(RealModelForbidden):
            await model.session().generate()
        assert (await model.session().generate()).text == "money"
    with pytest.raises(RealModelForbidden):
        await model.session().generate()


async def test_the_ban_is_back_after_an_error_inside_allow():
    with pytest.raises(KeyError), allow_real_models():
        raise KeyError
    with pytest.raises(RealModelForbidden):
        await Real().session().generate()
