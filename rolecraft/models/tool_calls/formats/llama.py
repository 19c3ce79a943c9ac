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
    give,
    name_in,
    value_of,
    write_call,
)
from rolecraft.models.tool_calls.json_span import Span, json_span
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.registry import register_parser
from rolecraft.models.tool_calls.source import Reading, Source
from rolecraft.models.tool_calls.written_names import begins_name

TAG = "<|python_tag|>"
_STARTS = r"""[{](?=\s*(?:["']|\Z))|\[(?=\s*(?:\{|\Z))"""
"""A bracket that may begin a call: what follows it shows at once where it does not."""
_FITS = {"{": "\"'", "[": "{"}
"""What may follow the brackets in a call."""
_BEGUN = re.compile(
    r"""[\[{\s]*(?:["']type["']\s*:\s*["']function["']\s*,\s*)?["'](?:name|function)["']\s*:"""
)
_ARGUMENTS = re.compile(r"""["'](?:parameters|arguments)["']\s*:""")
_NAMING = re.compile(_BEGUN.pattern + r"""\s*(?:["']([^"'\\]*))?""")
"""Text that ends within the name, or before it."""
_NAMED = re.compile(_NAMING.pattern + r"""["']\s*(?:,\s*(?:["'](?:[pa]\w*)?)?)?""")
"""Text that ends soon after it."""
_CLOSING = {"{": "}", "[": "]"}
_BRACKETS = Marks((*_CLOSING, *_CLOSING.values()))
_ONCE = -1
"""Among the barren places: a call that is never closed was read to the end of the answer before."""
_PARTS = Marks((";", ",", TAG))


@dataclass(frozen=True, slots=True)
class BareJSON:
    """Calls without markers around them."""

    def read(self, source: Source, opened: str) -> Reading[None]:
        tag = ""
        if opened in _FITS:
            at = source.position - 1
            space = source.skip()
            if space is None:
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
        elif span.state == "cut" and (tag or _names_call(source, span.text)):
            source.cut(tag + span.text, name=name_in(span.text))
        elif span.state == "broken" and (tag or _names_call(source, span.text)):
            # What looks like a call in the rest of it may be a part of its arguments.
            text, closed = yield from _to_end(source, span.text)
            if closed or _ONCE in source.barren or span.text.rstrip().endswith(('"', "'")):
                source.malformed(tag + text, "its JSON cannot be read")
                return
            source.barren.update((_ONCE, *span.open_at))
            source.say(tag)
            source.unread(text)
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
        except Unreadable as failure:
            if tag or (source.tools is not None and _names_call(source, span.text)):
                source.diagnose("malformed call", tag + span.text, str(failure))
            return False
        if not tag:
            for name in (call.name for call in calls):
                if not source.offered(name):
                    source.diagnose("unknown tool", span.text, f"no tool {name!r} was offered")
                    return False
        for call in calls:
            give(source, call, tag + span.text, repairs)
        return True

    def _separator(self, source: Source) -> Reading[None]:
        """What parts two calls is no content."""
        if source.ended and source.at == len(source.text):
            return
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


def _names_call(source: Source, text: str) -> bool:
    """Whether JSON that cannot be read begins as a call does, and not as other data with a name."""
    if _BEGUN.match(text) is None:
        return False
    if name := name_in(text):
        known = source.tools is not None and source.offered(name)
        return known or _ARGUMENTS.search(text) is not None or _NAMED.fullmatch(text) is not None
    begun = _NAMING.fullmatch(text)
    return begun is not None and begins_name(begun[1] or "", source.tools)


def _to_end(source: Source, text: str) -> Reading[tuple[str, bool]]:
    """`text`, which began with a bracket, and what follows up to where as many are closed.

    And whether they are.
    """
    parts = [text]
    deep = sum(text.count(sign) - text.count(_CLOSING[sign]) for sign in _CLOSING)
    while deep > 0 and (sign := (yield from source.until(_BRACKETS, parts))) is not None:
        parts.append(sign)
        deep += 1 if sign in _CLOSING else -1
    return "".join(parts), deep <= 0


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


@register_parser("llama3_json")
def llama3_json() -> Grammar:
    return Grammar(
        name="llama3_json", opens=(TAG,), also_opens=_STARTS, body=BareJSON(), write=_write
    )


@register_parser("llama")
def llama() -> Grammar:
    opens = tuple({TAG, *BODY.opens})
    starts = f"{_STARTS}|{STARTS}"
    return Grammar(name="llama", opens=opens, also_opens=starts, body=_JSONOrPython(), write=_write)
