"""LiteLLM works against the server, through `LiteLLMModel`: roles use it as any other provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rolecraft.errors import MissingKey, ModelError
from rolecraft.messages import Message, ToolCall
from rolecraft.models import LiteLLMModel, Sampling, Tool, allow_real_models

WEATHER = Tool(
    name="get_weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
GREEDY = Sampling(temperature=0.0, max_tokens=60)


@pytest.fixture
async def model(load: Callable[..., Any], serve: Callable[..., Any]) -> AsyncIterator[LiteLLMModel]:
    server = serve(load(), keys=["sk-test"])
    model = LiteLLMModel(
        "openai/tiny", base_url=server.url, api_key="sk-test", retries=0, sampling=GREEDY
    )
    with allow_real_models():
        yield model
    await model.aclose()


async def test_a_conversation_with_tools_is_the_same_as_on_the_model_itself(
    model: LiteLLMModel, load: Callable[..., Any]
) -> None:
    said: list[list[tuple[str, list[ToolCall], str]]] = []
    for each in (model, load()):
        session = each.session("forecaster")
        first = await session.generate(
            [Message("What is the weather in Paris?")], tools=[WEATHER], sampling=GREEDY
        )
        (call,) = first.tool_calls
        returned = Message("22 degrees", role="tool", metadata={"tool_call_id": call.id})
        second = await session.generate([returned], tools=[WEATHER], sampling=GREEDY)
        said.append([(a.text, a.tool_calls, a.finish_reason) for a in (first, second)])
    assert said[0] == said[1]
    assert said[0][1][0] == "It is 22 degrees in Paris."


async def test_answers_are_streamed_to_who_listens(
    model: LiteLLMModel, load: Callable[..., Any]
) -> None:
    session = model.session("r")
    pieces: list[str] = []
    session.on_delta = pieces.append
    answer = await session.generate([Message("Hello")])
    assert answer.text == "Hello to you."
    assert "".join(pieces) == answer.text
    assert len(pieces) > 1
    local = load()
    assert answer.usage.prompt_tokens == len(local.encode(local.render([Message("Hello")])))


async def test_reasoning_comes_along(model: LiteLLMModel) -> None:
    answer = await model.session("r").generate([Message("2 + 2?")])
    assert answer.reasoning.strip() == "Two and two."
    assert answer.text.strip() == "Four."


async def test_refusals_are_the_errors_that_they_are_elsewhere(model: LiteLLMModel) -> None:
    with pytest.raises(ModelError, match="512 tokens"):
        await model.session("r").generate([Message("Hello " * 600)])
    stranger = LiteLLMModel("openai/tiny", base_url=model.base_url, api_key="wrong", retries=0)
    with pytest.raises(MissingKey):
        await stranger.session("r").generate([Message("Hello")])
    await stranger.aclose()
