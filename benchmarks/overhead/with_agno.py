"""Agno: an `Agent`. Two that alternate are written by hand: its `Team` is led by a model."""

from __future__ import annotations

from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse


class Stub(Model):
    def invoke(self, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content="ok")

    async def ainvoke(self, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content="ok")

    def invoke_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def ainvoke_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


class CallThenAnswer(Stub):
    async def ainvoke(self, *args: Any, **options: Any) -> ModelResponse:
        if options["messages"][-1].role == "tool":
            return ModelResponse(role="assistant", content="ok")
        function = {"name": "act", "arguments": '{"text": "hi"}'}
        calls = [{"id": "1", "type": "function", "function": function}]
        return ModelResponse(role="assistant", tool_calls=calls)


async def act(text: str) -> str:
    """Do it."""
    return text


STUB = Stub(id="stub")
READY = Agent(model=STUB, telemetry=False)
WITH_TOOL = Agent(model=CallThenAnswer(id="stub"), tools=[act], telemetry=False)


def new() -> object:
    return Agent(model=STUB, tools=[act], telemetry=False)


async def turn() -> None:
    await READY.arun("hi")


async def tool_turn() -> None:
    said = await WITH_TOOL.arun("hi")
    assert said.content == "ok"
    assert len(said.tools) == 1


async def exchange(messages: int) -> int:
    agents = [Agent(model=STUB, telemetry=False) for _ in range(2)]
    said = ["hi"]
    while len(said) < messages:
        history = [Message(role="user", content=text) for text in said]
        said.append((await agents[len(said) % 2].arun(history)).content)
    return len(said)
