r"""Llama 3 and 4: JSON in the open, `{"name": ..., "parameters": {...}}`, several parted by `;`.

`<|python_tag|>` may come first. An object is a call if it has a `name` and `parameters` (or
`arguments`) and the tool was offered; any other JSON is text.

The format `llama` reads these calls and Python's: models of one family write both.

Source: the chat templates of Llama-3.1-Instruct and Llama-3.3-Instruct.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.formats.pythonic import BODY, STARTS
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.json_calls import (
    Unreadable,
    call_in,
    name_in,
    value_of,
    write_call,
)
from rolecraft.models.tool_calls.json_span import Span, json_span
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.registry import register_parser
from rolecraft.models.tool_calls.source import Reading, Source

TAG = "<|python_tag|>"
_STARTS = r"""[{](?=\s*(?:["']|\Z))|\[(?=\s*(?:\{|\Z))"""
"""A bracket that may begin a call: what follows it shows at once where it does not."""
_FITS = {"{": "\"'", "[": "{"}
"""What may follow the brackets in a call."""
_BEGUN = re.compile(
    r"""[\[{\s]*(?:["']type["']\s*:\s*["']function["']\s*,\s*)?["'](?:name|function)["']\s*:"""
)
_PARTS = Marks((";", ",", TAG))


@dataclass(frozen=True, slots=True)
class BareJSON:
    """Calls without markers around them."""

    def read(self, source: Source, opened: str) -> Reading[None]:
        tag = ""
        if opened in _FITS:
            at = source.position - 1
            space = yield from source.blanks()
            fits = source.text[source.at : source.at + 1] in _FITS[opened]
            if not fits or at in source.barren:
                source.say(opened + space)
                return
            source.unread(opened + space)
        else:
            tag = opened + (yield from source.blanks())
            if source.at == len(source.text):
                source.cut(tag)
                return
            if source.text[source.at] not in _FITS:
                source.say(tag)  # code for an interpreter
                return
        span = yield from json_span(source)
        if span.state == "whole":
            if self._give(source, span, tag):
                yield from self._separator(source)
            else:
                source.say(tag + span.text)
        elif span.state == "cut" and (tag or _BEGUN.match(span.text)):
            source.cut(tag + span.text, name=name_in(span.text))
        else:
            # What is open where it fails would fail there again.
            source.barren.update(span.open_at)
            source.say(tag)
            source.unread(span.text)

    def _give(self, source: Source, span: Span, tag: str) -> bool:
        """Give the calls in a value, if it is one or several."""
        try:
            value, repairs = value_of(span, repair=source.repair)
            values = value if type(value) is list and value else [value]
            if not tag and not all(map(_is_call, values)):
                return False
            calls = [call_in(each, repair=source.repair) for each in values]
        except Unreadable:
            return False
        if not tag:
            for name, *_ in calls:
                if not source.offered(name):
                    source.diagnose("unknown tool", span.text, f"no tool {name!r} was offered")
                    return False
        for name, arguments, call_id, mended in calls:
            source.call(
                name,
                arguments,
                raw=tag + span.text,
                call_id=call_id,
                repairs=(*repairs, *mended),
            )
        return True

    def _separator(self, source: Source) -> Reading[None]:
        """What parts two calls is no content."""
        space = yield from source.blanks()
        marker = yield from source.marker(_PARTS)
        if marker is None or marker == TAG:
            source.unread(space + (marker or ""))
            return
        after = yield from source.blanks()
        if source.at == len(source.text) or source.text[source.at] in "{[<":
            source.unread(after)
            return
        source.unread(space + marker + after)


def _is_call(value: Any) -> bool:
    if type(value) is not dict:
        return False
    if "name" not in value and type(value.get("function")) is dict:
        return _is_call(value["function"])
    return type(value.get("name")) is str and ("parameters" in value or "arguments" in value)


def _write(calls: Sequence[ToolCall]) -> str:
    return "; ".join(write_call(call, "parameters") for call in calls)


class _JSONOrPython:
    """Calls of either kind, as the first signs of them show."""

    json, python = BareJSON(), BODY

    def read(self, source: Source, opened: str) -> Reading[None]:
        signs = opened
        if opened != "{":
            signs += yield from self._ahead(source, 1)
        if signs[-1:] == "[" and opened != "[":
            signs += yield from self._ahead(source, 2)
        body = self.json if signs[-1:] == "{" or signs == TAG else self.python
        yield from body.read(source, opened)

    def _ahead(self, source: Source, number: int) -> Reading[str]:
        """The last of the next signs, white space aside; it is not taken."""
        parts: list[str] = []
        for _ in range(number):
            parts.append((yield from source.blanks()))
            parts.append(source.text[source.at : source.at + 1])
            source.at += len(parts[-1])
        source.unread("".join(parts))
        return parts[-1]


def _grammar(name: str) -> Grammar:
    return Grammar(name=name, opens=(TAG,), also_opens=_STARTS, body=BareJSON(), write=_write)


@register_parser("llama3_json")
def llama3_json() -> Grammar:
    return _grammar("llama3_json")


@register_parser("llama4_json")
def llama4_json() -> Grammar:
    return _grammar("llama4_json")


@register_parser("llama")
def llama() -> Grammar:
    opens = tuple({TAG, *BODY.opens})
    starts = f"{_STARTS}|{STARTS}"
    return Grammar(name="llama", opens=opens, also_opens=starts, body=_JSONOrPython(), write=_write)
