"""Reads one call whose arguments are marked pairs; `pairs_body` says how they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rolecraft.models.tool_calls.schema_values import property_names, property_schema, typed
from rolecraft.models.tool_calls.source import Reading, Source
from rolecraft.models.tool_calls.written_names import begins_name, read_name

if TYPE_CHECKING:
    from rolecraft.models.tool_calls.pairs_body import PairsBody

ESCAPED_LINE = "\\n"
"""A line break that was escaped, as if the call stood in a JSON string."""


class PairsCall:
    """One call while it is read. `seen` is all of its text so far, in parts."""

    __slots__ = (
        "body",
        "fault",
        "marks",
        "name",
        "repairs",
        "schema",
        "seen",
        "source",
        "values",
    )

    def __init__(self, body: PairsBody, source: Source, opened: str) -> None:
        self.body, self.marks, self.source = body, body.marks, source
        self.seen = [opened]
        self.name = ""
        self.values: dict[str, str] = {}
        self.repairs: dict[str, None] = {}
        self.fault = ""
        """Why the call is none, though it can be read to its end."""
        self.schema: Any = True

    def read_at_once(self) -> bool:
        """Do what `read` does, if a good call is there in full: the common case, in few steps.

        Else it reads nothing.
        """
        source, marks = self.source, self.marks
        text, at = source.text, source.at
        begun = marks.begins_at_once[self.seen[0]](text, at)
        if begun is None:
            return False
        values: dict[str, str] = {}
        end = begun.end()
        while (pair := marks.pair_at_once(text, end)) is not None:
            key, start = pair[1], pair.end()
            closes = marks.value.find(text, start)
            if closes is None or closes[0] != self.body.value_closes or key in values:
                return False
            values[key] = self.plain(text[start : closes.start()])
            end = closes.end()
        closed = marks.ends_at_once(text, end)
        if closed is None:
            return False
        self.name, self.values = begun[1], values
        self.find_schema()
        source.at = closed.end()
        self.seen.append(text[at : source.at])
        self.give()
        return True

    def read(self) -> Reading[None]:
        """Read the call to its end, and give it to the source."""
        body, marks = self.body, self.marks
        if body.function_opens and self.seen[0] == body.opens:
            yield from self.blanks()
            if (yield from self.marker(marks.function)) is None:
                rest = self.source.text[self.source.at :]
                if self.source.ended and body.function_opens.startswith(rest):
                    self.seen.append(rest)
                    self.source.at += len(rest)
                    self.cut()
                else:
                    yield from self.malformed(f"no `{body.function_opens}` follows")
                return
        if not (yield from self.read_name()):
            return
        self.find_schema()
        marker = yield from self.follows()
        if marker is None:
            if (yield from self.turn_ends()):
                self.cut_early(self.name)
            else:
                yield from self.malformed("text stands between the name and the arguments")
            return
        key: str | None = None
        while marker == body.key_opens:
            if key is None:
                key = yield from self.read_key()
                if key is None:
                    if self.at_end():
                        self.cut()
                    else:
                        yield from self.malformed("the name of an argument is not readable")
                    return
            start = len(self.seen)
            end, marker, following = yield from self.read_value(key)
            if end < 0:
                return
            if key in self.values and not self.fault:
                self.fault = f"its argument {key!r} is given twice"
            self.values[key] = self.value(start, end)
            key = following
        yield from self.end(marker)

    def find_schema(self) -> None:
        schemas = self.source.tools
        if schemas is not None and self.name in schemas:
            self.schema = schemas[self.name]

    def read_name(self) -> Reading[bool]:
        """Read the function's name. False if the call ended with it."""
        parts: list[str] = []
        marker = yield from self.source.until(self.marks.name, parts)
        text = "".join(parts)
        self.seen.append(text)
        if marker is None:
            self.cut_early(text)
            return False
        if self.body.name_ends:
            if marker != "<":
                self.seen.append(marker)
            else:
                self.source.unread(marker)
            if marker == "\n" and text.strip():
                self.repairs[f"missing {self.body.name_ends}"] = None
            elif marker != self.body.name_ends:
                text = ""
        else:
            self.source.unread(marker)
            bare = text.rstrip()
            while bare.endswith(ESCAPED_LINE):
                bare = bare[: -len(ESCAPED_LINE)].rstrip()
                self.repairs["escaped newline"] = None
            text = bare
        name = read_name(text)
        if name is None or (self.repairs and not self.source.repair):
            yield from self.malformed("the name of the function is not readable")
            return False
        self.name = name
        return True

    def read_key(self) -> Reading[str | None]:
        """Read the name of an argument, and what precedes its value. None if it is none."""
        parts: list[str] = []
        marker = yield from self.source.until(self.marks.key, parts)
        text = "".join(parts)
        self.seen.append(text)
        if marker is None:
            return None
        if marker != self.body.key_closes:
            self.source.unread(marker)
            return None
        self.seen.append(marker)
        if self.body.value_opens:
            yield from self.gap()
            if (yield from self.marker(self.marks.value_opens)) is None:
                return None
        return read_name(text)

    def read_value(self, key: str) -> Reading[tuple[int, str | None, str | None]]:
        """Read a value and what follows it.

        Returns where it ends in `seen` (-1: the call ended within it, and was given), the marker
        that follows, and the key that follows if that was read too.

        A call that begins within a value is a part of it. It is never run: either the value is
        closed after it, or it can't be known what is text here and what a call.
        """
        body, marks, source, seen = self.body, self.marks, self.source, self.seen
        closes: list[int] = []  # end markers after which no call goes on
        inner, deep = False, 0  # whether calls began within the value, and how many are open
        ends: list[int] = []  # where the call may have ended, without an end of the value
        while True:
            marker = yield from source.until(marks.value, seen)
            if marker is None:
                return (yield from self.unclosed(closes, ends, inner=inner, deep=deep))
            at = len(seen)
            seen.append(marker)
            if marker == body.inner_opens:
                if (yield from self.another_call()):
                    inner, deep = True, deep + 1
            elif deep:
                deep -= marker == body.inner_closes
            elif marker == body.value_closes:
                following = yield from self.follows()
                if following is not None or (yield from self.turn_ends()):
                    return at, following, None
                closes.append(at)
            elif marker == body.key_opens:
                next_key = None if ends or inner else (yield from self.read_key())
                if next_key is not None and self.begins(next_key, key):
                    end = yield from self.lenient(closes, at)
                    return (end, marker, next_key) if end >= 0 else (-1, None, None)
            elif marker != body.opens:
                yield from self.blanks()
                following = yield from source.marker(marks.after_end)
                if following is not None:
                    source.unread(following)
                if following is not None or (yield from self.turn_ends()) or self.closed(closes):
                    ends.append(at)

    def unclosed(
        self, closes: list[int], ends: list[int], *, inner: bool, deep: int
    ) -> Reading[tuple[int, str | None, str | None]]:
        """The text ended before the value did."""
        seen = self.seen
        if inner and not deep:
            why = "another call begins within a value that is not closed"
            self.source.malformed("".join(seen), why)
            return -1, None, None
        if inner or not ends:
            self.cut()
            return -1, None, None
        at = ends[0]
        marker = seen[at]
        self.put_back(at + 1)
        end = yield from self.lenient([place for place in closes if place < at], at)
        return (end, marker, None) if end >= 0 else (-1, None, None)

    def lenient(self, closes: list[int], at: int) -> Reading[int]:
        """Where the value ends that no end marker ends, before `at`. -1: the call is malformed.

        With `closes` it was closed, it seems, and words stand between that and the marker at `at`.
        """
        body, source, seen = self.body, self.source, self.seen
        if not closes:
            if source.repair:
                self.repairs[f"missing {body.value_closes}"] = None
                return at
            yield from self.malformed(f"it has a missing {body.value_closes}")
            return -1
        if not self.closed(closes):
            yield from self.malformed(f"it is not known whether {body.value_closes} ends a value")
            return -1
        text = "".join(seen[closes[-1] + 1 : at])
        why = f"it stands after {body.value_closes}"
        source.diagnose("text in a call", text, why, after=sum(map(len, seen[at:])))
        return closes[-1]

    def closed(self, closes: list[int]) -> bool:
        """Whether the last of these end markers ends its line, as in code none would."""
        return bool(closes) and "".join(self.seen[closes[-1] + 1 :][:2])[:1].isspace()

    def begins(self, key: str, within: str) -> bool:
        """Whether a key that was read within the value of another one begins a new pair."""
        if key == within or key in self.values:
            return False
        known = property_names(self.schema)
        return not known or key in known

    def another_call(self) -> Reading[bool]:
        """Whether the marker that was just read within a value begins another call."""
        body, repairs = self.body, dict(self.repairs)
        parts: list[str] = []
        marker = yield from self.source.until(self.marks.name, parts)
        text = "".join(parts)
        self.seen.append(text)
        if marker is None:
            return False
        if marker == body.name_ends:
            self.seen.append(marker)
        else:
            self.source.unread(marker)
        if read_name(text) is None:
            return False
        yield from self.gap()
        self.repairs = repairs
        return (yield from self.marker(self.marks.pair)) is not None

    def end(self, marker: str | None) -> Reading[None]:
        """Read the end of a call of which `marker` was read last, and give it."""
        body, source = self.body, self.source
        if marker is None or marker in (body.opens, body.function_opens):
            if marker is not None:
                self.put_back(len(self.seen) - 1)
            elif not source.repair or not self.complete():
                self.cut()
                return
            self.repairs["missing end"] = None
        elif marker == body.function_closes:
            space = yield from source.blanks()
            if (yield from self.source.marker(self.marks.close)) is None:
                source.unread(space)
            else:
                self.seen += (space, body.closes)
        elif body.function_closes:
            self.repairs[f"missing {body.function_closes}"] = None
        self.give()

    def give(self) -> None:
        """Give the call to the source, its values typed."""
        source = self.source
        raw = "".join(self.seen)
        if self.repairs and not source.repair:
            self.fault = f"it has a {next(iter(self.repairs))}"
        if self.fault:
            source.malformed(raw, self.fault)
            return
        arguments: dict[str, Any] = {}
        for key, text in self.values.items():
            arguments[key] = text
            if self.schema is not True:
                kind = property_schema(self.schema, key)
                arguments[key], mended = typed(text, kind, self.schema, repair=source.repair)
                self.repairs.update(dict.fromkeys(mended))
        source.call(self.name, arguments, raw=raw, repairs=tuple(self.repairs))

    def complete(self) -> bool:
        """Whether every argument that the tool requires is there."""
        required = self.schema.get("required") if isinstance(self.schema, dict) else None
        return not isinstance(required, list) or all(key in self.values for key in required)

    def malformed(self, why: str) -> Reading[None]:
        """Read on to where the call may end, and give it as one that is none."""
        body, source, seen = self.body, self.source, self.seen
        marker = yield from source.until(self.marks.call, seen)
        if marker is not None and marker in (body.opens, body.function_opens):
            source.unread(marker)
        elif marker is not None:
            seen.append(marker)
            if marker != body.closes:
                space = yield from source.blanks()
                if (yield from source.marker(self.marks.close)) is None:
                    source.unread(space)
                else:
                    seen += (space, body.closes)
        source.malformed("".join(seen), why)

    def cut(self, name: str = "") -> None:
        """The text ends within the call."""
        name = self.name or read_name(name) or ""
        self.source.cut("".join(self.seen), name=name)

    def cut_early(self, text: str) -> None:
        """The text ends before any argument: it may be prose, in which there is a marker."""
        if begins_name(text, self.source.tools):
            self.cut(text)
        else:
            self.source.malformed("".join(self.seen), "what follows the marker is no name")

    def value(self, start: int, end: int) -> str:
        """The value between two places of `seen`."""
        return self.plain("".join(self.seen[start:end]))

    def plain(self, text: str) -> str:
        """The value that is written as `text`."""
        if self.body.framed:
            text = text.removeprefix("\r\n" if text.startswith("\r") else "\n")
            text = text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")
        return self.body.unescaped(text)

    # Reading small things, all of which are part of the call's text.

    def at_end(self) -> bool:
        return self.source.ended and self.source.at == len(self.source.text)

    def turn_ends(self) -> Reading[bool]:
        """Whether the answer ends here, but for a marker that says so."""
        marker = yield from self.source.marker(self.marks.turn_end)
        if marker is not None:
            self.source.unread(marker)
        return marker is not None or self.at_end()

    def blanks(self) -> Reading[None]:
        space = yield from self.source.blanks()
        if space:
            self.seen.append(space)

    def gap(self) -> Reading[None]:
        """Read blanks, escaped ones too."""
        while True:
            yield from self.blanks()
            if (yield from self.marker(self.marks.escaped_line)) is None:
                return
            self.repairs["escaped newline"] = None

    def follows(self) -> Reading[str | None]:
        """Read blanks and the marker that goes on with the call, if one follows."""
        yield from self.blanks()
        if "escaped newline" in self.repairs:
            yield from self.gap()
        return (yield from self.marker(self.marks.next))

    def marker(self, marks: Any) -> Reading[str | None]:
        marker = yield from self.source.marker(marks)
        if marker is not None:
            self.seen.append(marker)
        return marker

    def put_back(self, at: int) -> None:
        """Put back what was read since the place `at` of `seen`."""
        self.source.unread("".join(self.seen[at:]))
        del self.seen[at:]
