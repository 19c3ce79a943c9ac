"""Calls written as a Python list: `[get_weather(city='Oslo'), search(query='fjords')]`.

A list has no marker of its own, so a bracket is read as far as it is the list of calls with literal
arguments; where it stops being one, it is content again, and reading goes on there. One call that
cannot be read takes no other with it: reading goes on at the next one of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.python_literals import (
    NAME,
    LiteralCall,
    LiteralReader,
    python_call,
)
from rolecraft.models.tool_calls.schema_values import property_names
from rolecraft.models.tool_calls.source import Reading, Source

BRACKET = "["


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonicBody:
    """Lists of calls, bare or between markers. Between markers the brackets may be missing."""

    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    close: Marks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "close", Marks(self.closes))

    def read(self, source: Source, opened: str) -> Reading[None]:
        """Read a list of calls, or what looks like one."""
        reading = _List(source, opened)
        if opened != BRACKET:
            reading.seen.append((yield from source.blanks()))
            bracket = yield from source.marker(_BRACKET)
            reading.seen.append(bracket or "")
            yield from reading.read(bracket=bracket is not None)
            if reading.found:
                space = yield from source.blanks()
                if (yield from source.marker(self.close)) is None:
                    source.unread(space)
        else:
            yield from reading.read(bracket=True)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """The text of some calls."""
        if not calls:
            return ""
        for call in calls:
            if not NAME.fullmatch(call.name):
                raise UsageError(
                    f"A tool named {call.name!r} cannot be called in Python's way: "
                    f"letters, digits, `_`, `-`, and `.` or `/` between them are allowed."
                )
        return f"[{', '.join(python_call(call.name, call.arguments) for call in calls)}]"


class _List:
    """One list while it is read."""

    def __init__(self, source: Source, opened: str) -> None:
        self.source = source
        self.seen = [opened]
        self.broken_after = ""
        self.found = False
        """Whether a call was given."""

    def read(self, *, bracket: bool) -> Reading[None]:
        source = self.source
        while True:
            reader = LiteralReader(source, self.seen)
            yield from reader.read_calls(self.give, bracket=bracket)
            raw = "".join(self.seen)
            if reader.state == "whole":
                if not self.found:
                    source.say(raw)
                return
            call = reader.call
            if reader.state == "cut":
                if call is not None and self.meant(call):
                    source.cut(raw, name=call.name)
                elif raw.strip() or not self.found:
                    source.say(raw)
                return
            if call is None or not self.meant(call):
                source.say(raw)
                return
            self.broken_after = raw.rstrip()[-1:]
            more = yield from self.to_next()
            source.malformed("".join(self.seen), reader.why)
            self.seen.clear()
            if not more:
                return

    def meant(self, call: LiteralCall) -> bool:
        """Whether the beginning of a call is one, or just words with brackets."""
        if not call.opened:
            return False
        if call.name in (self.source.tools or ()):
            return True
        looks_so = self.found or bool(call.named) or call.key is not None
        return looks_so and self.source.offered(call.name)

    def to_next(self) -> Reading[bool]:
        """Read on to where the next call of the list begins. False if there is none."""
        source, seen = self.source, self.seen
        while True:
            marker = yield from source.until(_RESUME, seen)
            if marker is None:
                return False
            seen.append(marker)
            if marker == "]" and not self.quotes():
                return False
            if marker != ")" or self.quotes():
                # What looks like a call in the rest of it may be a part of its arguments.
                while (marker := (yield from source.until(_RESUME, seen))) is not None:
                    seen.append(marker)
                return False
            seen.append((yield from source.blanks()))
            following = yield from source.marker(_AFTER)
            if following is not None:
                seen.append(following)
                return following == ","

    def quotes(self) -> bool:
        """Whether the call could not be read after a string: a quote in it may not be its end."""
        return self.broken_after in ("'", '"')

    def give(self, call: LiteralCall) -> None:
        """Give a call of which all was read."""
        source = self.source
        raw = "".join(self.seen)
        self.seen.clear()
        repairs = tuple(call.repairs)
        if repairs and not source.repair:
            source.malformed(raw, f"it has a {repairs[0]}")
            return
        arguments = self.arguments(call)
        if arguments is None:
            source.malformed(raw, "an argument has no name")
            return
        if not (self.found or source.offered(call.name)):
            # Most likely it was not meant as a call: there is no marker that says so.
            why = f"no tool {call.name!r} was offered"
            found = ToolCall(call.name, arguments, repairs=repairs)
            source.diagnose("unknown tool", raw, why, call=found)
            source.say(raw)
            return
        self.found = True
        source.call(call.name, arguments, raw=raw, repairs=repairs)

    def arguments(self, call: LiteralCall) -> dict[str, Any] | None:
        """The arguments by name; None if one has no name, and the tool is not known."""
        if not call.positional:
            return call.named
        schema = (self.source.tools or {}).get(call.name)
        names = property_names(schema) if schema is not None else ()
        if len(names) < len(call.positional) or not call.named.keys().isdisjoint(
            names[: len(call.positional)]
        ):
            return None
        return {**dict(zip(names, call.positional, strict=False)), **call.named}


_BRACKET = Marks((BRACKET,))
_RESUME = Marks((")", "]", BRACKET, "'", '"'))
_AFTER = Marks((",", "]"))
