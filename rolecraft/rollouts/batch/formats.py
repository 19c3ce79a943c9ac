"""Training rows of a sample: one for each of its conversations, with the same columns in each.

`sharegpt` is the schema of Hermes: turns with `from` and `value`, tools in the system prompt, and
reasoning, calls and results between `<think>`, `<tool_call>` and `<tool_response>`. `openai` has
messages as the chat API takes them. Every row has every column, and every known tool is in
`tool_stats`, so that files load with one schema whichever tools were used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rolecraft.errors import RolecraftError
from rolecraft.rollouts.batch.conversations import Conversation, Turn
from rolecraft.rollouts.batch.samples import Sample

HOW_TO_CALL = (
    "You may call these functions, whose signatures are between <tools> and </tools>:\n"
    "<tools>\n{tools}\n</tools>\n"
    "For each call write a JSON object with its name and arguments:\n"
    '<tool_call>\n{{"name": "function-name", "arguments": {{"argument": "value"}}}}\n</tool_call>'
)
_dumps = json.JSONEncoder(ensure_ascii=False).encode
_SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "tool"}
_MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def whole_characters(text: str) -> str:
    """Without lone surrogates, halves of characters that some models return."""
    return text if text.isascii() else _HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


class Unwritable(RolecraftError):
    """A conversation has text that a format would read as its own marks."""


def rows(
    sample: Sample,
    form: str,
    known_tools: Sequence[str] = (),
    *,
    about: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """The training rows of a sample in `sharegpt` or `openai`. Raises `Unwritable`.

    `about` is what `about_of(sample, known_tools)` gave, for whoever writes several formats.
    """
    write = _WRITERS[form]
    about = about_of(sample, known_tools) if about is None else about
    for number, talk in enumerate(sample.conversations):
        yield {
            "id": f"{sample.entry.item.name}-{number}",
            **about,
            "conversation": number,
            "role": talk.role,
            "model": talk.model or sample.model,
            "tools": _dumps(_functions(talk)) if talk.tools else "[]",
            **write(talk),
        }


def about_of(sample: Sample, known_tools: Iterable[str]) -> dict[str, Any]:
    """The columns that all rows of a sample have alike."""
    entry = sample.entry
    called = {tool.tool: tool for tool in entry.tools}
    counts = []
    for name in sorted({*known_tools, *called}):
        tool = called.get(name)
        count, success, error = (
            (0, 0, 0) if tool is None else (tool.count, tool.success, tool.error)
        )
        counts.append({"tool": name, "count": count, "success": success, "error": error})
    return {
        "row": entry.row,
        "occurrence": entry.occurrence,
        "sample": entry.sample,
        "prompt_index": entry.number,
        "ended": entry.ended,
        "completed": entry.ended == "finished",
        "partial": entry.ended != "finished",
        "api_calls": entry.calls,
        "turns": entry.turns,
        "turns_with_reasoning": entry.reasoned,
        "prompt_tokens": entry.prompt_tokens,
        "completion_tokens": entry.completion_tokens,
        "usd": entry.usd,
        "reward": entry.reward,
        "signals": [
            {"name": name, "value": float(value)} for name, value in sample.signals.items()
        ],
        "toolsets_used": list(entry.toolsets),
        "tool_stats": counts,
    }


def _functions(talk: Conversation) -> list[dict[str, Any]]:
    """The tools as the chat API takes them."""
    return [{"type": "function", "function": tool} for tool in talk.tools]


# --- OpenAI's messages ---------------------------------------------------------------------------


def _openai(talk: Conversation) -> dict[str, Any]:
    return {"messages": [message(turn) for turn in talk.turns]}


def message(turn: Turn) -> dict[str, Any]:
    """A turn as a chat API's message, with every key; arguments of calls are JSON texts."""
    return {
        "role": turn.role,
        "content": turn.content,
        "reasoning_content": turn.reasoning,
        "tool_calls": [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": _arguments(call)},
            }
            for call in turn.tool_calls
        ],
        "tool_call_id": turn.tool_call_id,
        "name": turn.name,
    }


def _arguments(call: dict[str, Any]) -> str:
    """What is no object is kept as the model wrote it."""
    raw: str | None = call.get("raw")
    return _dumps(call["arguments"]) if raw is None else raw


# --- ShareGPT, as Hermes has it ------------------------------------------------------------------


def _sharegpt(talk: Conversation) -> dict[str, Any]:
    said: list[dict[str, str]] = []
    if talk.tools:
        tools = "\n".join(_dumps(tool) for tool in _functions(talk))
        said.append({"from": "system", "value": HOW_TO_CALL.format(tools=tools)})
    for turn in talk.turns:
        speaker, value = _SPEAKERS.get(turn.role, "human"), _text(turn)
        last = said[-1] if said else None
        if last is not None and last["from"] == speaker == "tool":
            last["value"] += f"\n{value}"  # the results of one answer are one turn
        elif last is not None and last["from"] == speaker == "system":
            last["value"] = f"{value}\n\n{last['value']}"
        else:
            said.append({"from": speaker, "value": value})
    return {"conversations": said}


def _text(turn: Turn) -> str:
    if turn.role == "tool":
        result = {"tool_call_id": turn.tool_call_id, "name": turn.name, "content": turn.content}
        return f"<tool_response>\n{_dumps(result)}\n</tool_response>"
    if turn.role != "assistant":
        return turn.content
    for part in (turn.reasoning, turn.content):
        if found := next((mark for mark in _MARKS if mark in part), None):
            raise Unwritable(f"an answer has the text {found!r}, which is a mark of `sharegpt`")
    parts = [f"<think>\n{turn.reasoning}\n</think>"] if turn.reasoning else []
    parts += [turn.content] if turn.content else []
    for call in turn.tool_calls:
        arguments: Any = call["arguments"] if "raw" not in call else call["raw"]
        made = _dumps({"name": call["name"], "arguments": arguments})
        parts.append(f"<tool_call>\n{made}\n</tool_call>")
    return "\n".join(parts)


_WRITERS: dict[str, Callable[[Conversation], dict[str, Any]]] = {
    "sharegpt": _sharegpt,
    "openai": _openai,
}
