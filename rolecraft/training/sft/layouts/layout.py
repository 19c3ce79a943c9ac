"""What a layout of rows is: one small adapter, which tells its rows and makes samples of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rolecraft.models.reasoning import split_reasoning
from rolecraft.models.tool_calls import get_parser
from rolecraft.training.sft.samples import BadRow, Facts, Sample, TextSample, Turn

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout. `looks_like` says what its rows have, for people."""

    name: str
    looks_like: str
    matches: Callable[[Fields], bool]
    """Whether a row has this layout's keys, right or wrong in detail."""
    read: Callable[[Fields], Sample | TextSample]
    """The sample of a row. Raises `BadRow`."""


def facts_of(row: Fields) -> Facts:
    """What a row says of the run that it is from, as the rows of `rolecraft batch` do."""
    reward, role = row.get("reward"), row.get("role")
    of_run = "ended" in row and "reward" in row
    ended = row.get("ended") if of_run else None
    return Facts(
        role=role if isinstance(role, str) and role else None,
        reward=float(reward) if isinstance(reward, (int, float)) else None,
        measured=of_run,
        stop=str(ended) if ended else None,
    )


def text_of(value: Any, what: str) -> str:
    """A text, or the texts of content parts. Raises `BadRow`."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_part(part, what) for part in value)
    raise BadRow(f"has {type(value).__name__} as {what}, where a text belongs")


def _part(part: Any, what: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else type(part).__name__
    if isinstance(part, dict) and isinstance(part.get("text"), str) and kind in _TEXT_PARTS:
        return str(part["text"])
    if kind in _THOUGHT_PARTS:
        return ""  # reasoning, which has a place of its own
    raise BadRow(f"has a part of type {kind!r} in {what}; only text can be trained on")


_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_THOUGHT_PARTS = ("thinking", "reasoning", "redacted_thinking")


def json_of(value: Any, what: str) -> Any:
    """What a column holds as JSON text, or as it is. Raises `BadRow`."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"has a text as {what}, and that is no JSON: {error}") from error


def tools_of(value: Any) -> list[dict[str, Any]]:
    """The tools of a column: a list, or its JSON text, of tools as OpenAI's API has them or bare.

    Raises `BadRow`.
    """
    listed = json_of(value, "`tools`")
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise BadRow(f"has {type(listed).__name__} as `tools`, where a list belongs")
    found = []
    for tool in listed:
        inner = json_of(tool, "a tool")
        inner = inner.get("function", inner) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            raise BadRow("has a tool without a name in `tools`")
        parameters = json_of(inner.get("parameters"), "parameters of a tool")
        found.append(
            {
                "name": inner["name"],
                "description": str(inner.get("description") or ""),
                "parameters": _without_none(parameters or {}),
            }
        )
    return found


def _without_none(value: Any) -> Any:
    """Without members that are None: a table in Parquet has every key of all rows in each."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def call_of(name: Any, arguments: Any, call_id: Any = "") -> dict[str, Any]:
    """A call, as a `Turn` has it. Raises `BadRow` for a call without a name."""
    if not isinstance(name, str) or not name:
        raise BadRow("has a call of a tool without a name")
    call: dict[str, Any] = {"id": str(call_id or ""), "name": name, "arguments": {}}
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        given = arguments
    if isinstance(given, dict):
        call["arguments"] = given if isinstance(arguments, str) else _without_none(given)
    elif given not in (None, ""):
        call["raw"] = str(arguments)
    return call


def answer_of(text: str, *, calls: bool = True) -> Turn:
    """An answer that is one text: `<think>` at its beginning and `<tool_call>` are read.

    A call that cannot be read leaves the text as it is.
    """
    turn = Turn("assistant", text, sampled=True)
    if text.lstrip().startswith("<think>"):
        split = split_reasoning(text.lstrip(), "think", starts_in_reasoning=False)
        turn.reasoning, turn.content = split.reasoning.strip("\n"), split.content.lstrip("\n")
    if calls and "<tool_call>" in turn.content:
        read = get_parser("hermes", unknown_tools="call").parse(turn.content)
        if read.tool_calls and not any(call.incomplete for call in read.tool_calls):
            turn.content = read.content.strip("\n")
            turn.tool_calls = [call_of(c.name, c.arguments, c.id) for c in read.tool_calls]
    return turn


def settled(turns: list[Turn]) -> list[Turn]:
    """The turns with ids of calls and names of results, where the row left them out.

    Raises `BadRow` for results that nobody asked for.
    """
    waiting: list[dict[str, Any]] = []
    number = 0
    for turn in turns:
        if turn.role == "assistant":
            for call in turn.tool_calls:
                # Nine letters and digits, which the strictest templates (Mistral's) demand.
                call["id"] = call["id"] or f"call{number:05d}"
                number += 1
            waiting = list(turn.tool_calls)
        elif turn.role == "tool":
            if not waiting and not turn.tool_call_id:
                raise BadRow("has a result of a tool that no call asked for")
            same = [call for call in waiting if call["id"] == turn.tool_call_id] or waiting[:1]
            for call in same:
                waiting.remove(call)
                turn.tool_call_id = turn.tool_call_id or call["id"]
                turn.name = turn.name or call["name"]
    return turns
