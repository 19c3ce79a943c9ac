"""Kimi K2: a section of calls, each with its id, `functions.NAME:NUMBER`, which names the tool.

The id must be kept: the next turn's results are matched by it.

Source: the chat template of Kimi-K2-Instruct and Moonshot's `docs/tool_call_guidance.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.json_calls import header_name, write_arguments
from rolecraft.models.tool_calls.registry import register_parser
from rolecraft.models.tool_calls.section_body import Header, SectionBody
from rolecraft.models.tool_calls.source import Source

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CLOSE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
BEGINS, ENDS = (BEGIN, "<|tool_call_section_begin|>"), (END, "<|tool_call_section_end|>")
"""Older checkpoints write the singular."""
_ID = re.compile(r"(?:functions\.)?(.*\S)\s*:\s*\d+", re.DOTALL)


def _header(source: Source, head: str, label: str) -> Header | None:
    if found := _ID.fullmatch(head):
        return Header(found[1], head)
    if source.repair and source.tools and (name := head.removeprefix("functions.")) in source.tools:
        return Header(name, head, ("missing index",))
    return Header("", head) if source.repair and source.tools and head.isdecimal() else None


def _guess(source: Source, arguments: dict[str, Any]) -> str:
    """The one tool that takes such arguments. Some checkpoints write a number for the id."""
    tools = source.tools or {}
    fitting = [name for name in tools if arguments and _takes(tools[name], arguments)]
    return fitting[0] if len(fitting) == 1 else ""


def _takes(schema: Any, arguments: dict[str, Any]) -> bool:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return False
    required = schema.get("required")
    return all(name in properties for name in arguments) and (
        not isinstance(required, list) or all(name in arguments for name in required)
    )


def _write(calls: Sequence[ToolCall]) -> str:
    if not calls:
        return ""
    parts = [BEGIN]
    for number, call in enumerate(calls):
        known = _ID.fullmatch(call.id)
        call_id = (
            call.id
            if known and known[1] == call.name
            else f"functions.{header_name(call)}:{number}"
        )
        parts.append(f"{CALL}{call_id}{ARGUMENTS}{write_arguments(call)}{CLOSE}")
    return "".join((*parts, END))


@register_parser("kimi_k2")
def kimi_k2() -> Grammar:
    body = SectionBody(
        opens=BEGINS,
        closes=ENDS,
        call_opens=CALL,
        header_ends=ARGUMENTS,
        call_closes=CLOSE,
        header=_header,
        guess=_guess,
    )
    return Grammar(
        name="kimi_k2",
        opens=(*BEGINS, CALL),
        body=body,
        good=body.good,
        write=_write,
    )
