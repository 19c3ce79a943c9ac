"""A call that is one JSON object, or a list of them, between two markers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rolecraft.models.tool_calls.json_calls import (
    Unreadable,
    call_in,
    decode,
    name_in,
    value_of,
)
from rolecraft.models.tool_calls.json_span import json_span
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.source import Reading, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class JSONBody:
    """`{"name": ..., "arguments": {...}}` between a marker and `closes`.

    What is no JSON ends at the first marker that ends or begins a call, so that one bad call takes
    no good one with it.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    ends: Marks = field(init=False)
    close: Marks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", Marks((*self.opens, *self.closes)))
        object.__setattr__(self, "close", Marks(self.closes))

    def read(self, source: Source, opened: str) -> Reading[None]:
        raw = opened + (yield from source.blanks())
        text = ""
        if source.at < len(source.text) and source.text[source.at] in "{[":
            span = yield from json_span(source)
            text = span.text
            if span.state == "whole":
                try:
                    value, repairs = value_of(span, repair=source.repair)
                    give(source, value, raw + text, repairs)
                except Unreadable as failure:
                    yield from self._bad(source, raw, text, str(failure))
                else:
                    yield from self._close(source)
                return
            # Only now it is known that a marker in what looked like a string may end the call.
            end, marker = self.ends.search(text, 0, True)
            if marker is not None:
                source.unread(text[end:])
                text = text[:end]
        yield from self._bad(source, raw, text, "")

    def _close(self, source: Source) -> Reading[None]:
        """Read the end of a good call. Other text before it is no content."""
        space = yield from source.blanks()
        if (yield from source.marker(self.close)) is not None:
            return
        rest: list[str] = []
        marker = yield from source.until(self.ends, rest)
        if marker in self.closes:
            text = "".join(rest)
            source.diagnose("text in a call", text, "it stands after the arguments")
            return
        # There is no end: what follows is content.
        source.unread("".join((space, *rest, marker or "")))

    def _bad(self, source: Source, raw: str, text: str, why: str) -> Reading[None]:
        """Read on to the end of a call that is no JSON so far, and mend it if that can be done."""
        rest = [text]
        marker = yield from source.until(self.ends, rest)
        text = "".join(rest)
        written = raw + text
        if marker in self.closes:
            written += marker or ""
        elif marker is not None:
            source.unread(marker)
        if not why:
            try:
                value, repairs = decode(text, repair=source.repair, cut=marker is None)
                give(source, value, written, repairs)
                return
            except Unreadable as failure:
                why = str(failure)
                if marker is None:
                    source.cut(written, name=name_in(text))
                    return
        source.malformed(written, why)


def give(source: Source, value: Any, raw: str, repairs: tuple[str, ...]) -> None:
    """The call, or the calls, in `value`. Raises `Unreadable` if one of them is none."""
    values = value if type(value) is list and value else [value]
    calls = [call_in(each, repair=source.repair) for each in values]
    for name, arguments, call_id, mended in calls:
        source.call(name, arguments, raw=raw, call_id=call_id, repairs=(*repairs, *mended))
