"""A role with a tool on vLLM says, calls and leaves behind what it does in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecraft import Message, Role, Team, tool
from rolecraft.messages import ToolCall
from rolecraft.models.base import Sampling
from rolecraft.models.tool_calls import get_parser
from rolecraft.roles.tool_calling import UseTools
from rolecraft.training.policy.sequences import training_sequences
from rolecraft.trajectories import Trajectory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

REGISTERS = {"a": 7, "b": 9}


@tool
async def read_register(name: str) -> int:
    """Read one register."""
    return REGISTERS[name]


class Greedy(UseTools):
    sampling = Sampling(temperature=0.0, max_tokens=120)
    tools = (read_register,)


class Reader(Role):
    goal = "to read"
    actions = [Greedy]


def teach_to(folder: Path) -> None:
    """Save a model that reads a register when asked, and then says what it holds."""
    from rolecraft.models.tiny_chat import Lesson, teach, tiny_chat_model

    system = Message(Reader(model="human").system_prompt, role="system")
    offered, lessons = [read_register.spec], []
    for name, value in REGISTERS.items():
        call = ToolCall("read_register", {"name": name}, "call00000")
        called = Message("", role="assistant", metadata={"tool_calls": [call]})
        told = Message(str(value), role="tool", metadata={"tool_call_id": call.id})
        asked = [system, Message(f"{name}?")]
        lessons += [
            Lesson(messages=asked, answer=get_parser("hermes").render([call]), tools=offered),
            Lesson(messages=[*asked, called, told], answer=f"It is {value}.", tools=offered),
        ]
    model = tiny_chat_model(heads=2, context=1024)  # vLLM's heads have 32 numbers at least
    teach(model, lessons)
    model.save(folder)


def said(trajectory: Trajectory) -> list[tuple[Any, ...]]:
    """All that events say, without the names of calls and of the model."""
    return [
        (event.kind, event.role, event.content, event.to, event.cause, nameless(event.data))
        for event in trajectory.events
    ]


def nameless(value: Any) -> Any:
    if isinstance(value, dict):
        names = ("id", "tool_call_id", "model")
        return {key: nameless(each) for key, each in value.items() if key not in names}
    return [nameless(each) for each in value] if isinstance(value, list) else value


@pytest.mark.usefixtures("_vllm")
async def test_a_tool_is_called_and_answered_as_with_the_in_process_engine(
    tmp_path: Path,
) -> None:
    import torch

    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.models.vllm_model import VLLMModel

    torch.set_num_threads(1)
    teach_to(tmp_path)
    near = TransformersModel.load(tmp_path, device="cpu", parser="hermes")
    far = VLLMModel(
        str(tmp_path),
        dtype="float32",
        parser="hermes",
        max_adapters=0,
        engine={"enforce_eager": True, "max_num_seqs": 8, "kv_cache_memory_bytes": 1 << 28},
    )
    try:
        for name, value in REGISTERS.items():
            runs = [await Team([Reader()], model=which).run(f"{name}?") for which in (near, far)]
            for run in runs:
                assert run.message.content == f"It is {value}."
                (result,) = run.trajectory.of("tool_result")
                assert result.content == str(value)
            mine, its = [run.trajectory for run in runs]
            assert said(mine) == said(its)
            assert training_sequences(mine) == training_sequences(its)
            for one, other in zip(mine.of("model_call"), its.of("model_call"), strict=True):
                assert one.tokens is not None
                assert other.tokens is not None
                assert one.tokens.sampled == other.tokens.sampled
                assert one.tokens.given == other.tokens.given
    finally:
        await far.aclose()
        await near.aclose()
