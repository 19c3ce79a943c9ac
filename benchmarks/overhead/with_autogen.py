"""AutoGen: an `AssistantAgent`, and two of them in a `RoundRobinGroupChat`."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
)

USAGE = RequestUsage(prompt_tokens=1, completion_tokens=1)


class Stub(ChatCompletionClient):
    async def create(self, messages: Any, **options: Any) -> CreateResult:
        return CreateResult(finish_reason="stop", content="ok", usage=USAGE, cached=False)

    def create_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return USAGE

    def total_usage(self) -> RequestUsage:
        return USAGE

    def count_tokens(self, *args: Any, **options: Any) -> int:
        return 1

    def remaining_tokens(self, *args: Any, **options: Any) -> int:
        return 1

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )


class CallThenAnswer(Stub):
    async def create(self, messages: Any, **options: Any) -> CreateResult:
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return await super().create(messages)
        calls = [FunctionCall(id="1", name="act", arguments='{"text": "hi"}')]
        return CreateResult(
            finish_reason="function_calls", content=calls, usage=USAGE, cached=False
        )


async def act(text: str) -> str:
    """Do it."""
    return text


STUB = Stub()
TOKEN = CancellationToken()
READY = AssistantAgent("ready", model_client=STUB)
WITH_TOOL = AssistantAgent(
    "tool", model_client=CallThenAnswer(), tools=[act], reflect_on_tool_use=True
)


def new() -> object:
    return AssistantAgent("agent", model_client=STUB, tools=[act])


async def turn() -> None:
    await READY.run(task="hi")
    await READY.on_reset(TOKEN)


async def tool_turn() -> None:
    said = await WITH_TOOL.run(task="hi")
    assert said.messages[-1].content == "ok"
    await WITH_TOOL.on_reset(TOKEN)


async def exchange(messages: int) -> int:
    team = RoundRobinGroupChat(
        [AssistantAgent(name, model_client=STUB) for name in ("ping", "pong")],
        termination_condition=MaxMessageTermination(messages),
    )
    return len((await team.run(task="hi")).messages)
