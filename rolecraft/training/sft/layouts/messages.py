"""OpenAI's messages: `messages` with roles, content or content parts, reasoning, and tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolecraft.models.reasoning.native import native_reasoning
from rolecraft.training.sft.layouts.layout import (
    Fields,
    Layout,
    answer_of,
    call_of,
    facts_of,
    json_of,
    settled,
    text_of,
    tools_of,
)
from rolecraft.training.sft.samples import BadRow, Sample, Turn

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def turns_of_messages(messages: Any, column: str = "messages") -> list[Turn]:
    """The turns of chat messages. Raises `BadRow`."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise BadRow(f"has {type(messages).__name__} as `{column}`, where a list belongs")
    return settled([_turn(message, f"`{column}[{at}]`") for at, message in enumerate(messages)])


def _turn(message: Any, where: str) -> Turn:
    if not isinstance(message, Mapping):
        raise BadRow(f"has {type(message).__name__} as {where}, where an object belongs")
    said = message.get("role")
    role = _ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        raise BadRow(f"has the role {said!r} in {where}; known are {', '.join(_ROLES)}")
    content = text_of(message.get("content"), f"the content of {where}")
    if role == "tool":
        answered, name = message.get("tool_call_id"), message.get("name")
        return Turn(role, content, tool_call_id=str(answered or ""), name=str(name or ""))
    if role != "assistant":
        return Turn(role, content)
    reasoning = native_reasoning(message).text
    # Calls have a field of their own here: what looks like one in the text is text.
    turn = Turn(role, content) if reasoning else answer_of(content, calls=False)
    turn.reasoning = turn.reasoning or reasoning
    turn.sampled = message.get("weight") != 0  # as OpenAI's fine-tuning has it
    turn.tool_calls = _calls(message, where)
    return turn


def _calls(message: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    calls = json_of(message.get("tool_calls"), f"`tool_calls` in {where}") or []
    if not isinstance(calls, list):
        raise BadRow(f"has {type(calls).__name__} as `tool_calls` in {where}")
    if legacy := message.get("function_call"):
        calls = [*calls, legacy]
    made = []
    for call in calls:
        function = call.get("function", call) if isinstance(call, Mapping) else call
        if not isinstance(function, Mapping):
            raise BadRow(f"has {type(function).__name__} as a call in {where}")
        made.append(call_of(function.get("name"), function.get("arguments"), call.get("id")))
    return made


def _read(row: Fields) -> Sample:
    messages = json_of(row["messages"], "`messages`")
    tools = row.get("tools") or row.get("functions")
    return Sample(turns=turns_of_messages(messages), tools=tools_of(tools), facts=facts_of(row))


MESSAGES = Layout(
    "messages",
    "`messages`: [{`role`, `content`}, ...]",
    lambda row: row.get("messages") is not None,
    _read,
)
