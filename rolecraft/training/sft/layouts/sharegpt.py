"""ShareGPT: `conversations` with `from` and `value`, and tools as Hermes writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecraft.rollouts.batch.formats import HOW_TO_CALL
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

_SPEAKERS = {
    **dict.fromkeys(("human", "user", "prompter", "customer"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bot", "model", "ai", "bing"), "assistant"),
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("tool", "function", "observation", "function_response", "ipython"), "tool"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
}
_COLUMNS = ("conversations", "conversation")
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
_BEFORE_TOOLS, _AFTER_TOOLS = HOW_TO_CALL.format(tools="\0").split("\0")


def _read(row: Fields) -> Sample:
    column = next(name for name in _COLUMNS if row.get(name) is not None)
    said = json_of(row[column], f"`{column}`")
    if not isinstance(said, Sequence) or isinstance(said, str):
        raise BadRow(f"has {type(said).__name__} as `{column}`, where a list belongs")
    turns: list[Turn] = []
    if isinstance(system := row.get("system"), str) and system.strip():
        turns.append(Turn("system", system))
    for at, each in enumerate(said):
        turns += _turns(each, f"`{column}[{at}]`")
    tools = tools_of(row.get("tools"))
    if tools:
        turns, tools = _offered_once(turns, tools)
    return Sample(turns=settled(turns), tools=tools, facts=facts_of(row))


def _turns(each: Any, where: str) -> list[Turn]:
    if not isinstance(each, Mapping):
        raise BadRow(f"has {type(each).__name__} as {where}, where an object belongs")
    speaker = next((each[key] for key in ("from", "role", "speaker") if each.get(key)), None)
    role = _SPEAKERS.get(str(speaker).lower())
    if role is None:
        known = ", ".join(_SPEAKERS)
        raise BadRow(f"has the speaker {speaker!r} in {where}; known are {known}")
    there = [key for key in ("value", "content", "text") if key in each]
    if not there:
        raise BadRow(f"has no `value` in {where}")
    text = text_of(each[there[0]], f"the value of {where}")
    if role == "assistant":
        turn = answer_of(text)
        turn.sampled = each.get("weight") != 0
        return [turn]
    if role == "call":
        call = json_of(text, f"a call in {where}")
        if not isinstance(call, Mapping):
            raise BadRow(f"has {type(call).__name__} as the call in {where}")
        made = call_of(call.get("name"), call.get("arguments"))
        return [Turn("assistant", "", tool_calls=[made], sampled=True)]
    if role == "tool":
        return [_result(found) for found in _RESULT.findall(text)] or [Turn("tool", text)]
    return [Turn(role, text)]


def _result(text: str) -> Turn:
    """One result; Hermes' is an object with the tool's name and what it returned."""
    try:
        told = json_of(text, "")
    except BadRow:
        told = None
    if not isinstance(told, Mapping) or not isinstance(told.get("content"), str):
        return Turn("tool", text)
    answered, name = told.get("tool_call_id") or "", told.get("name") or ""
    return Turn("tool", told["content"], tool_call_id=str(answered), name=str(name))


def _offered_once(
    turns: list[Turn], tools: list[dict[str, Any]]
) -> tuple[list[Turn], list[dict[str, Any]]]:
    """Tools stand in a column and, for Hermes, in the system prompt as well.

    What `rolecraft batch` wrote there is taken out, since the chat template offers them. A prompt
    in other words stays, and then the template offers nothing a second time.
    """
    first = turns[0] if turns else Turn("user")
    if first.role != "system" or "<tools>" not in first.content:
        return turns, tools
    begin, end = first.content.rfind(_BEFORE_TOOLS), first.content.rfind(_AFTER_TOOLS)
    if begin < 0 or end < begin:
        return turns, []
    before = first.content[:begin].rstrip("\n")
    after = first.content[end + len(_AFTER_TOOLS) :]
    rest = before + after
    return ([Turn("system", rest)] if rest.strip() else []) + turns[1:], tools


SHAREGPT = Layout(
    "sharegpt",
    "`conversations`: [{`from`, `value`}, ...]",
    lambda row: any(row.get(name) is not None for name in _COLUMNS),
    _read,
)
