"""A role with tools runs on a model in this process, from the call to the answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rolecraft import Message, Role, Team, tool
from rolecraft.errors import ModelError
from rolecraft.messages import ToolCall
from rolecraft.models import Sampling
from rolecraft.models.tiny_chat import Lesson, teach, tiny_chat_model
from rolecraft.models.tool_calls import get_parser
from rolecraft.roles.tool_calling import UseTools
from rolecraft.training.policy.sequences import training_sequences

torch.set_num_threads(1)


@tool
async def read_register(name: str) -> int:
    """Read one register."""
    return {"a": 7, "b": 9}[name]


class Greedy(UseTools):
    sampling = Sampling(temperature=0.0)
    tools = (read_register,)


class Reader(Role):
    goal = "to read"
    actions = [Greedy]


def taught() -> Any:
    """A model that reads register b when asked, and then says what it holds."""
    system = Reader(model="human").system_prompt
    call = ToolCall("read_register", {"name": "b"}, "call00000")
    asked = [Message(system, role="system"), Message("b?")]
    called = Message("", role="assistant", metadata={"tool_calls": [call]})
    told = Message("9", role="tool", metadata={"tool_call_id": call.id})
    offered = [read_register.spec]
    model = tiny_chat_model()
    teach(
        model,
        [
            Lesson(messages=asked, answer=get_parser("hermes").render([call]), tools=offered),
            Lesson(messages=[*asked, called, told], answer="It is 9.", tools=offered),
        ],
    )
    return model


@pytest.mark.slow
async def test_a_role_calls_a_tool_and_answers_with_what_it_said() -> None:
    run = await Team([Reader()], model=taught()).run("b?")
    assert run.message.content == "It is 9."
    first, second = run.trajectory.of("model_call")
    assert first.data["finish_reason"] == "tool_calls"
    (result,) = run.trajectory.of("tool_result")
    assert result.content == "9"
    (sequence,) = training_sequences(run.trajectory)  # one conversation, one sequence
    for event in (first, second):
        span = event.tokens
        assert span is not None
        assert span.rewrite == ""
        start = span.start + len(span.given)
        assert sequence.ids[start : start + len(span.sampled)] == span.sampled


def test_what_cannot_be_learned_in_time_is_said() -> None:
    with pytest.raises(ModelError, match="did not learn 1 lessons in 2 steps"):
        teach(tiny_chat_model(), [Lesson(messages=[Message("a")], answer="b")], most_steps=2)
