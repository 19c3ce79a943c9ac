"""The same scenario on a model behind an API and on the same model in this process.

A tiny model learns by heart what a role with a tool says in one scenario. Then the scenario is
played twice, with nothing changed but `Phases.phase`: over HTTP, where the server parses the calls,
and locally, where we do and keep the tokens. The trajectories say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from rolecraft import FunctionModel, Role, tool
from rolecraft.environments import Task, TaskEnvironment
from rolecraft.messages import ToolCall
from rolecraft.models import (
    Completion,
    LiteLLMModel,
    ModelCall,
    Phases,
    Sampling,
    allow_real_models,
)
from rolecraft.models.tiny_chat import Lesson
from rolecraft.models.tool_calls import get_parser
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rewards import Signals, reward
from rolecraft.roles.tool_calling import UseTools
from rolecraft.scenarios import Scenario
from rolecraft.training.policy.sequences import training_sequences
from rolecraft.trajectories import Event, Signal, TokenSpan, Trajectory

REGISTERS = {"a": 3, "b": 5}


@tool
async def read_register(name: Literal["a", "b"]) -> int:
    """Read one register."""
    return REGISTERS[name]


class Clerk(Role):
    profile = "clerk"
    tools = [read_register]
    actions = [UseTools(sampling=Sampling(temperature=0.0, max_tokens=80))]


class Registers(TaskEnvironment):
    async def grade(self) -> list[Signal]:
        said = [event.content for event in self.trajectory.of("message") if event.role == "Clerk"]
        return [Signal("answer.correct", float(said[-1:] == [self.task.data["answer"]]))]


class Tasks:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return [
            Task(f"register-{name}", f"What is register {name}?", {"answer": answer_of(name)})
            for name in REGISTERS
        ][:count]


@reward
def correct(signals: Signals) -> float:
    return signals["answer.correct"]


def answer_of(register: str) -> str:
    return f"Register {register} holds {REGISTERS[register]}."


def scenario(models: Phases | None = None) -> Scenario:
    return Scenario(
        name="registers",
        team=lambda: [Clerk()],
        environment=Registers,
        tasks=Tasks(),
        reward=correct,
        models=models,
    )


async def lessons() -> list[Lesson]:
    """What the role is asked in the scenario, and what it should say each time."""
    noted: list[Lesson] = []

    def teach(call: ModelCall) -> Completion:
        last = call.messages[-1]
        register = next(m.content[-2] for m in call.messages if m.content.startswith("What is"))
        if last.role == "tool":
            answer = Completion(text=answer_of(register))
            text = answer.text
        else:
            calls = [ToolCall("read_register", {"name": register}, "1")]
            answer = Completion(text="", tool_calls=calls)
            text = get_parser("hermes").render(calls)
        noted.append(Lesson(messages=list(call.messages), tools=list(call.tools), answer=text))
        return answer

    for task in Tasks().sample(2):
        episode = await scenario().play(task, model=FunctionModel(teach))
        assert episode.reward.value == 1.0
    return noted


Load = Callable[[], TransformersModel]


@pytest.mark.slow
async def test_the_same_scenario_passes_over_http_and_locally_and_leaves_the_same_trajectory(
    teach: Callable[[Sequence[Lesson]], Load], serve: Callable[..., Any]
) -> None:
    load = teach(await lessons())
    server = serve(load())
    api = LiteLLMModel("openai/tiny", base_url=server.url, api_key="none")
    models = Phases(api=api, local=load())
    played = scenario(models)
    for task in Tasks().sample(2):
        with allow_real_models():
            models.phase = "api"
            far = await played.play(task)
        models.phase = "local"
        near = await played.play(task)
        assert far.reward.value == near.reward.value == 1.0
        assert [event.kind for event in far.trajectory.events].count("tool_call") == 1
        assert comparable(far.trajectory) == comparable(near.trajectory)
        assert training_sequences(far.trajectory) == []
        [sequence] = training_sequences(near.trajectory)
        assert sequence.role == "Clerk"
        assert sequence.greedy == sum(len(span.sampled) for span in spans(near.trajectory))
    await api.aclose()


def spans(trajectory: Trajectory) -> list[TokenSpan]:
    return [event.tokens for event in trajectory.of("model_call") if event.tokens is not None]


def comparable(trajectory: Trajectory) -> list[dict[str, Any]]:
    """What events say, without what only one of the phases can know."""
    return [_comparable(event) for event in trajectory.events]


def _comparable(event: Event) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "role": event.role,
        "content": event.content,
        "to": event.to,
        "cause": event.cause,
        "data": _without_ids({**event.data, "model": None}),
        "prompt_tokens": event.usage and event.usage.prompt_tokens,
    }


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k not in ("id", "tool_call_id")}
    if isinstance(value, list):
        return [_without_ids(each) for each in value]
    return value
