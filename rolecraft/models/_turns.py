"""Messages as a chat template wants them, and stand-ins for what a model sampled.

A `Turn` is hashable, so that renderings can be kept. All its text is marked (see `PlainText`): what
anybody says, calls, or is told by a tool is text, never a control token.

Stand-ins: how a template writes an answer that it is given in parts (text, reasoning, calls) seldom
equals what was sampled. Where only the rest of the rendering matters, each part of a sampled answer
is therefore replaced by a short mark, which shows whether and where the template writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rolecraft.messages import Message, ToolCall
from rolecraft.models._plain_text import PART_CLOSE, PART_OPEN
from rolecraft.models.base import Tool


class Turn(NamedTuple):
    """One message for a chat template. `more` is JSON of its members but role and content."""

    role: str
    content: str
    more: str = ""

    def member(self, form: Form) -> dict[str, Any]:
        """The dict that the template gets."""
        if not self.more:
            return {"role": self.role, "content": self.content}
        more = json.loads(self.more)
        content: str | None = self.content
        for call in more.get("tool_calls", ()):
            function = call["function"]
            if form.arguments_as_text:
                function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        if "tool_calls" in more and not content and form.no_text_is_none:
            content = None
        return {"role": self.role, "content": content, **more}


class Form(NamedTuple):
    """How a template wants what templates want differently."""

    arguments_as_text: bool = False
    """JSON text instead of an object for the arguments of a call."""
    no_text_is_none: bool = False
    """None instead of the empty text beside calls."""
    shows_tools: bool = True
    """Whether tools that are offered are written into the prompt."""
    shows_results: bool = True
    """Whether calls and what tools returned are written."""


@dataclass(slots=True)
class Answer:
    """An answer that the model sampled, and what the conversation made of it."""

    at: int
    """Index of its message in the conversation."""
    text: str
    reasoning: str
    calls: Sequence[ToolCall]
    """As they were read: a copy, since whoever has the message can change them."""
    end: str
    """Text of the end token that was sampled; empty if it was cut off."""
    written: str
    """All of it as it was sampled, without the end token."""
    plain: bool = False
    """Stands as plain text: the template refuses its calls."""
    message: Message | None = None
    """Its message, once it is known."""
    parts: list[str] = field(default_factory=list)
    """The marks of its stand-in."""

    def is_at(self, message: Message) -> bool:
        """Whether `message` is its message, as it was; it becomes so when it is asked of first."""
        calls = (message.metadata or {}).get("tool_calls") or ()
        same = message.role == "assistant" and message.content == self.text
        if not same or [*calls] != [*self.calls]:
            return False
        if self.message is None:
            self.message = message
        return message is self.message

    def stand_in(self, turn: Turn) -> Turn:
        """The turn of its message, with a mark in the place of each part that was sampled."""
        if not self.parts:
            kinds = []
            if not self.plain and self.reasoning.strip():
                kinds.append("reasoning")
            if self.plain or self.text.strip() or not self.calls:
                kinds.append("text")
            if not self.plain:
                kinds += [f"call {n}" for n in range(len(self.calls))]
            self.parts = [f"{PART_OPEN}{self.at} {kind}{PART_CLOSE}" for kind in kinds]
        named = {part[:-1].partition(" ")[2]: part for part in self.parts}
        more: dict[str, Any] = {}
        if "reasoning" in named:
            more["reasoning_content"] = named["reasoning"]
        if self.calls and not self.plain:
            more["tool_calls"] = json.loads(turn.more)["tool_calls"]
            for n, call in enumerate(more["tool_calls"]):
                call["function"]["arguments"] = {"x": named[f"call {n}"]}
        return Turn("assistant", named.get("text", ""), _packed(more))


def turns_of(
    messages: Sequence[Message],
    mark: Callable[[str], str],
    answers: Mapping[int, Answer] | None = None,
    *,
    part: Sequence[int] | None = None,
    stand_ins_from: int | None = None,
) -> list[Turn]:
    """The turns of messages; with `part` of those that have these indices only.

    `answers` are what is known of sampled ones, by index. From `stand_ins_from` on, stand-ins take
    their places.
    """
    turns: list[Turn] = []
    names: dict[str, str] = {}
    for at in range(len(messages)) if part is None else part:
        message = messages[at]
        answer = answers.get(at) if answers else None
        if message.metadata is None and answer is None:
            turns.append(Turn(message.api_role, mark(message.content)))
            continue
        turn = _turn(message, mark, answer, names)
        if answer is not None and stand_ins_from is not None and at >= stand_ins_from:
            turn = answer.stand_in(turn)
        turns.append(turn)
    return turns


def _turn(
    message: Message, mark: Callable[[str], str], answer: Answer | None, names: dict[str, str]
) -> Turn:
    role = message.api_role
    metadata = message.metadata or {}
    more: dict[str, Any] = {}
    if role == "assistant":
        if answer is not None and answer.plain:
            return Turn(role, mark(answer.written))
        if answer is not None and answer.reasoning.strip():
            more["reasoning_content"] = mark(answer.reasoning)
        calls: Sequence[ToolCall] = metadata.get("tool_calls") or ()
        if calls:
            names.update((call.id, call.name) for call in calls)
            more["tool_calls"] = [
                {
                    "id": mark(call.id),
                    "type": "function",
                    "function": {"name": mark(call.name), "arguments": _all(call.arguments, mark)},
                }
                for call in calls
            ]
    elif role == "tool" and (answered := metadata.get("tool_call_id")):
        more["tool_call_id"] = mark(answered)
        more["name"] = mark(names.get(answered, ""))
    return Turn(role, mark(message.content), _packed(more))


def written_tools(tools: Sequence[Tool], mark: Callable[[str], str]) -> str:
    """The tools as OpenAI's API has them, in JSON; empty if there are none."""
    if not tools:
        return ""
    listed = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]
    return json.dumps(_all(listed, mark), ensure_ascii=False)


def _all(value: Any, mark: Callable[[str], str]) -> Any:
    """A JSON value with every text in it marked."""
    if isinstance(value, str):
        return mark(value)
    if isinstance(value, dict):
        return {mark(str(key)): _all(each, mark) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_all(each, mark) for each in value]
    return value


def _packed(more: dict[str, Any]) -> str:
    return json.dumps(more, ensure_ascii=False, default=str) if more else ""
