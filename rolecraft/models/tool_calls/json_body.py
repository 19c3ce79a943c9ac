"""JSON between markers: a whole call, or the arguments of a call that a header names.

What is no JSON ends at the first marker that ends or begins a call, so that one bad call takes no
good one with it. In what is JSON, markers are data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rolecraft.models.tool_calls.grammar import ENDS
from rolecraft.models.tool_calls.json_calls import (
    Unreadable,
    arguments_in,
    call_in,
    decode,
    give,
    name_in,
    shallow,
    value_of,
)
from rolecraft.models.tool_calls.json_span import STRICT, json_span
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.source import Reading, Source

_BEGUN = re.compile(r"\s*(?:```\w*\s*)?(?:[\[{][\[{\s]*(?:[\"'\w]|\Z)|\Z)|\s*`{1,2}\Z").match
"""Whether a text begins as a call does."""
_BEGIN_AT_ONCE = re.compile(r"\s*[{\[]").match
Take = Callable[[Source, Any, str, tuple[str, ...]], None]
"""Gives the source the calls in a JSON value that was written so, by these repairs.

Raises `Unreadable`, and then has given nothing.
"""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where JSON that can't be read ends."""

    closes: tuple[str, ...]
    """Markers that end a call, and belong to it."""
    others: tuple[str, ...]
    """Markers before which it ends: of the next call, of the section."""
    opens: tuple[str, ...] = ()
    """Those of `others` at which another call begins."""
    fenced: bool = False
    """Whether the JSON may stand in a code fence that the header began."""
    content: bool = True
    """Whether what can't be read is content. In a section nothing is."""
    marks: Marks = field(init=False, repr=False, compare=False)
    close: Marks = field(init=False, repr=False, compare=False)
    opening: Marks = field(init=False, repr=False, compare=False)
    shuts: set[str] = field(init=False, repr=False, compare=False)
    closed: Callable[[str, int], re.Match[str] | None] = field(
        init=False, repr=False, compare=False
    )
    """Whether the end of a call stands here in full: the common case, in one step."""

    def __post_init__(self) -> None:
        either = "|".join(map(re.escape, self.closes)) or "(?!)"
        fence = r"(?:```\s*)?" if self.fenced else ""
        object.__setattr__(self, "closed", re.compile(rf"\s*{fence}(?:{either})").match)
        object.__setattr__(self, "marks", Marks((*self.closes, *self.others, *ENDS)))
        object.__setattr__(self, "close", Marks(self.closes))
        object.__setattr__(self, "opening", Marks(self.opens))
        object.__setattr__(self, "shuts", {*self.closes, *self.others} - {*self.opens})

    def unfenced(self, text: str) -> str:
        """`text` without the end of the code fence."""
        return text.strip().removesuffix("```") if self.fenced else text


@dataclass(frozen=True, slots=True)
class JSONBody:
    """`{"name": ..., "arguments": {...}}`, or a list of them, after a marker."""

    ends: Ends

    def read(self, source: Source, opened: str) -> Reading[None]:
        if not json_at_once(source, self.ends, opened, take_calls):
            yield from read_json(source, self.ends, opened, take_calls)


def json_at_once(source: Source, ends: Ends, raw: str, take: Take) -> bool:
    """Do what `read_json` does, if a good call is there in full: the common case, in few steps.

    Else it reads nothing.
    """
    if source.at:
        source.trim()
    at = source.at
    begun = _BEGIN_AT_ONCE(source.text, at)
    whole = begun and value_at_once(source, ends, begun.end() - 1)
    if whole is None:
        return False
    value, source.at, after = whole
    try:
        take(source, value, raw + source.text[at : source.at], ())
    except Unreadable:
        source.at = at
        return False
    source.at = after
    return True


def value_at_once(source: Source, ends: Ends, start: int) -> tuple[Any, int, int] | None:
    """The value that begins at `start`, where it ends, and where what closes the call ends.

    None if it is not there in full, or not good. It reads nothing.
    """
    if not source.may_close():
        return None
    text = source.text
    try:
        value, written = _decoded(source, start, ends)
        value, end = shallow(value, written), start + len(written)
    except Unreadable:
        return None
    except (ValueError, RecursionError):
        source.undecodable = source.offset + start
        return None
    if not ends.closes:
        return value, end, end
    closed = ends.closed(text, end)
    return None if closed is None else (value, end, closed.end())


def _decoded(source: Source, start: int, ends: Ends) -> tuple[Any, str]:
    """The value that begins at `start`, and its text. Raises what `json` raises."""
    if ends.closes and (piece := source.narrow(start, ends.closes[0])):
        with suppress(ValueError):  # the marker may stand in a string
            value, length = STRICT.raw_decode(piece)
            return value, piece[:length]
    value, end = STRICT.raw_decode(source.text, start)
    return value, source.text[start:end]


def read_json(
    source: Source, ends: Ends, raw: str, take: Take, *, name: str = "", call_id: str = ""
) -> Reading[None]:
    """Read what stands between `raw`, which was read, and an end of the call, and this end."""
    tried = False
    space = source.skip()
    raw += (yield from source.blanks()) if space is None else space
    text = ""
    if source.at < len(source.text) and source.text[source.at] in "{[":
        span = yield from json_span(source)
        text = span.text
        if span.state == "whole":
            try:
                value, repairs = value_of(span, repair=source.repair)
                take(source, value, raw + text, repairs)
            except Unreadable as failure:
                rest, marker = yield from _rest(source, ends, text)
                source.malformed(raw + rest + marker, str(failure), content=ends.content)
            else:
                if ends.closes:
                    closed = ends.closed(source.text, source.at)
                    if closed is None:
                        yield from _close(source, ends)
                    else:
                        source.at = closed.end()
            return
        tried = True
        # Only now it is known that a marker in what looked like a string may end the call.
        end, found = ends.marks.search(text, 0, True)
        if found is not None:
            source.unread(text[end:])
            text = text[:end]
    text, marker = yield from _rest(source, ends, text)
    cut = not marker and source.at == len(source.text)
    try:
        if take is take_calls and "name" not in text and "\\u" not in text:
            raise Unreadable("it has no `name`")  # however it would be mended
        value, repairs = decode(ends.unfenced(text), repair=source.repair, cut=cut, tried=tried)
        take(source, value, raw + text + marker, repairs)
    except Unreadable as failure:
        if cut and (name or _BEGUN(text) is not None):
            name = name or name_in(text)
            source.cut(raw + text, name=name, call_id=call_id, content=ends.content)
            return
        hidden = yield from _hidden(source, ends, text, closed=bool(marker))
        raw = raw + text + marker + hidden
        source.malformed(raw, str(failure), content=ends.content)


def _hidden(source: Source, ends: Ends, text: str, *, closed: bool) -> Reading[str]:
    """What follows a call that cannot be read, `text`, and may be a part of its arguments.

    A quote that was not escaped may have ended a string too early. So a call that begins before
    the broken one is closed is not run, nor is one before which it is closed, if it is once more
    after that.
    """
    if not ends.opens or _BEGUN(text) is None or (closed and source.looked_ahead):
        return ""
    unclosed = sum(map(text.count, "{[")) > sum(map(text.count, "}]"))
    deep, least = (0, 0) if closed else (1, 1)
    parts: list[str] = []
    if not closed:
        following = yield from source.marker(ends.opening)
        if following is None or not unclosed:
            source.unread(following or "")
            return ""
        parts.append(following)
        deep += 1
    while (marker := (yield from source.until(ends.marks, parts))) is not None:
        parts.append(marker)
        deep += (marker in ends.opens) - (marker in ends.shuts)
        if deep < least:
            return "".join(parts)
    if not closed:
        return "".join(parts)
    source.looked_ahead = True
    source.unread("".join(parts))
    return ""


def _rest(source: Source, ends: Ends, text: str) -> Reading[tuple[str, str]]:
    """`text` and what follows up to an end of the call, and the marker if it belongs to it."""
    parts = [text]
    marker = yield from source.until(ends.marks, parts)
    if marker is not None and marker not in ends.closes:
        source.unread(marker)
        marker = None
    return "".join(parts), marker or ""


def _close(source: Source, ends: Ends) -> Reading[None]:
    """Read the end of a good call. Other text before it is no content."""
    space = yield from source.blanks()
    if (yield from source.marker(ends.close)) is not None:
        return
    parts: list[str] = []
    marker = yield from source.until(ends.marks, parts)
    if marker in ends.closes:
        text = "".join(parts)
        if ends.unfenced(text):
            why = "it stands after the arguments"
            source.diagnose("text in a call", text, why, after=len(marker or ""))
        return
    # There is no end: what follows is no part of the call.
    text = "".join(parts)
    if marker is None and text and any(close.startswith(text) for close in ends.closes):
        return  # the answer was cut off within the end
    if ends.fenced and text.startswith("```"):
        text = text[3:]
        space = ""
    source.unread("".join((space, text, marker or "")))


def take_calls(source: Source, value: Any, raw: str, repairs: tuple[str, ...]) -> None:
    """Give the call, or the list of calls, that `value` is."""
    values = value if type(value) is list and value else [value]
    calls = [call_in(each, repair=source.repair) for each in values]
    for call in calls:
        give(source, call, raw, repairs)


def taking(name: str, call_id: str = "") -> Take:
    """Gives a call of this name, whose arguments are the value."""

    def take(source: Source, value: Any, raw: str, repairs: tuple[str, ...]) -> None:
        arguments, mended = arguments_in(value, repair=source.repair)
        source.call(name, arguments, raw=raw, call_id=call_id, repairs=(*repairs, *mended))

    return take
