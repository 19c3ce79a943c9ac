"""Calls in a section: a header with the name, arguments in JSON, each between markers of its own.

In a section there is no content, and after it the turn is over. What a model writes there and is no
call stands in diagnostics, as it is no content for the engines either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.grammar import ENDS
from rolecraft.models.tool_calls.json_body import Ends, Take, read_json, value_at_once
from rolecraft.models.tool_calls.json_calls import Unreadable, arguments_in, decode, shallow
from rolecraft.models.tool_calls.json_span import STRICT
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.source import Reading, Source

_NO_LABEL = re.compile(r"""\s*(?:["']|null\s*\Z)""").match
"""How arguments begin that are no object, and in no code fence."""
_STRICT = Source(None, repair=False)
"""For headers that are as the format demands."""


class Header(NamedTuple):
    """What the header of a call says. Without a name, `guess` finds one."""

    name: str
    call_id: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionBody:
    """A section of calls, or a call that no section contains."""

    opens: tuple[str, ...]
    """Before the section."""
    closes: tuple[str, ...]
    """After the section."""
    call_opens: str
    header_ends: str
    call_closes: str
    header: Callable[[Source, str, str], Header | None]
    """Reads the text before `header_ends`, and what follows it before a code fence, both stripped.

    None: it is no header.
    """
    guess: Callable[[Source, dict[str, Any]], str] | None = None
    """The name of the tool that such arguments are for; empty if it is not certain."""
    fenced: bool = False
    """Whether arguments may stand in a code fence."""
    ends: Ends = field(init=False, repr=False, compare=False)
    between: Marks = field(init=False, repr=False, compare=False)
    """What may follow a call."""
    next_one: Callable[[str, int], re.Match[str] | None] = field(
        init=False, repr=False, compare=False
    )
    """Matches one of them, with nothing but white space before it."""
    in_header: Marks = field(init=False, repr=False, compare=False)
    after_header: Marks = field(init=False, repr=False, compare=False)
    at_once: Callable[[str, int], re.Match[str] | None] = field(
        init=False, repr=False, compare=False
    )
    """Matches a whole header and the brace that follows it: the common case, in one step."""
    one: Callable[[str, int], re.Match[str] | None] = field(init=False, repr=False, compare=False)
    """Matches the same with what opens the call, and the section."""
    rest: Callable[[str, int], re.Match[str] | None] = field(init=False, repr=False, compare=False)
    """Matches what may follow the last call of an answer."""

    def __post_init__(self) -> None:
        begins = (self.call_opens, *self.opens, *self.closes)
        compiled = {
            "ends": Ends(
                (self.call_closes,),
                begins,
                opens=(self.call_opens, *self.opens),
                fenced=self.fenced,
                content=False,
            ),
            "between": Marks(begins),
            "next_one": re.compile(rf"\s*({_either(begins)})").match,
            "in_header": Marks((self.header_ends, self.call_closes, *begins, *ENDS)),
            "at_once": re.compile(rf"([^<{{]*){re.escape(self.header_ends)}([^<{{]*)(?=\{{)").match,
            "after_header": Marks((self.call_closes, *begins, *ENDS), also=r"\{"),
            "one": re.compile(
                rf"\s*(?:(?:{_either(self.opens)})\s*)?{re.escape(self.call_opens)}"
                rf"([^<{{]*){re.escape(self.header_ends)}([^<{{]*)(?=\{{)"
            ).match,
            "rest": re.compile(rf"\s*(?:{_either(self.closes)})?(?:\s|{_either(ENDS)})*\Z").match,
        }
        for name, value in compiled.items():
            object.__setattr__(self, name, value)

    def good(self, text: str, at: int, tools: Mapping[str, Any] | None) -> list[ToolCall] | None:
        """The calls from `at` to the end of an answer. None unless all are as the format demands:
        then `read` has more to say of them.
        """
        calls: list[ToolCall] = []
        ids = set()
        while (begun := self.one(text, at)) is not None:
            head, tail = begun.groups()
            label, written = self._label(tail) if tail else ("", "")
            header = self.header(_STRICT, head.strip(), label)
            if header is None or written:
                return None
            name, call_id, _ = header
            try:
                value, at = STRICT.raw_decode(text, begun.end())
                arguments = shallow(value, text)
            except (ValueError, RecursionError):
                return None
            closed = self.ends.closed(text, at)
            if closed is None or not name or (tools is not None and name not in tools):
                return None
            at = closed.end()
            if call_id:
                ids.add(call_id)
            calls.append(ToolCall(name, arguments, call_id))
        if self.rest(text, at) is None or (ids and len(ids) < len(calls)):
            return None
        return calls

    def read(self, source: Source, opened: str) -> Reading[None]:
        """Read calls up to the end of the answer."""
        marker: str | None = opened
        begun = opened == self.call_opens or self.next_one(source.text, source.at) is not None
        if not begun and not (yield from self._begins(source, opened)):
            return
        while marker is not None:
            if marker == self.call_opens and not self._at_once(source, marker):
                alone = marker == opened and not source.calls
                if not (yield from self._call(source, opened=marker, alone=alone)):
                    return
            if (following := self.next_one(source.text, source.at)) is not None:
                source.at = following.end()
                marker = following[1]
                continue
            if source.ended and source.at == len(source.text):
                return
            parts: list[str] = []
            marker = yield from source.until(self.between, parts)
            text = "".join(parts)
            if text and (rest := _without_ends(text)):
                why, after = f"{rest[:40]!r} is no call", len(marker or "")
                source.diagnose("text after calls", text, why, after=after)

    def _begins(self, source: Source, opened: str) -> Reading[bool]:
        """Whether what follows the marker of a section is one. Else the marker is content."""
        space = yield from source.blanks()
        marker = yield from source.marker(self.between)
        source.unread(space + (marker or ""))
        if marker is None and source.at + len(space) < len(source.text):
            source.malformed(opened, "no call follows it")
            return False
        return True

    def _at_once(self, source: Source, opened: str) -> bool:
        """Read a good call that is there in full. Else read nothing."""
        if source.at:
            source.trim()
        text, at = source.text, source.at
        begun = self.at_once(text, at)
        if begun is None:
            return False
        head, tail = begun.groups()
        label, written = self._label(tail) if tail else ("", "")
        header = self.header(source, head.strip(), label)
        if header is None or written:
            return False
        whole = value_at_once(source, self.ends, begun.end())
        if whole is None:
            return False
        value, source.at, after = whole
        # The text of a call that is good is asked for by nobody, and may be long.
        raw = "" if source.offered(header.name) else opened + text[at : source.at]
        try:
            self._take(header, source, value, raw, ())
        except Unreadable:
            source.at = at
            return False
        source.at = after
        return True

    def _call(self, source: Source, opened: str, alone: bool) -> Reading[bool]:
        """Read a call. False if it is none but prose, since it stands `alone`, in no section."""
        parts = [opened]
        marker = yield from source.until(self.in_header, parts)
        if marker != self.header_ends:
            head = "".join(parts[1:]).strip()
            if alone and marker is None and any(map(str.isspace, head)):
                source.malformed("".join(parts), "its header is not finished")
                return False
            self._no_call(source, "".join(parts), marker, "its header is not finished")
            return True
        head = "".join(parts[1:])
        parts.append(marker)
        begun = len(parts)
        marker = yield from source.until(self.after_header, parts)
        if marker == "{":
            source.unread("{")
        tail = "".join(parts[begun:])
        label, written = self._label(tail)
        header = self.header(source, head.strip(), label)
        if header is not None and marker == "{" and not written:
            raw = "".join(parts)
            name, call_id, _ = header
            yield from read_json(
                source, self.ends, raw, self._taking(header), name=name, call_id=call_id
            )
            return True
        # No header, no arguments, or something before them, as when they stand in a string.
        if marker == "{":
            begun = len(parts)
            marker = yield from source.until(self.ends.marks, parts)
            written += "".join(parts[begun:])
        raw = "".join(parts)
        if header is None:
            self._no_call(source, raw, marker, f"{head[:60]!r} names no tool")
            return True
        try:
            value: Any = None
            repairs: tuple[str, ...] = ()
            if text := self.ends.unfenced(written).strip():
                value, repairs = decode(text, repair=source.repair, cut=marker is None)
            if marker is None:
                raise Unreadable("it breaks off")
            if marker == self.call_closes:
                raw += marker
            else:
                source.unread(marker)
                marker = ""
            self._taking(header)(source, value, raw, repairs)
        except Unreadable as failure:
            self._no_call(source, raw, marker, str(failure), header)
        return True

    def _taking(self, header: Header) -> Take:
        return partial(self._take, header)

    def _take(
        self, header: Header, source: Source, value: Any, raw: str, repairs: tuple[str, ...]
    ) -> None:
        name, call_id, mended = header
        arguments, unpacked = arguments_in(value, repair=source.repair)
        if not name:
            name = self.guess(source, arguments) if self.guess is not None else ""
            if not name:
                raise Unreadable("it names no tool, and its arguments fit none, or several")
            mended = ("name from arguments", *mended)
        repairs = (*mended, *repairs, *unpacked)
        source.call(name, arguments, raw=raw, call_id=call_id, repairs=repairs)

    def _label(self, text: str) -> tuple[str, str]:
        """What stands between a header and the arguments, and what there is of the latter."""
        if not self.fenced or _NO_LABEL(text) is not None:
            return "", text.strip()
        label, _, written = text.partition("```")
        return label.strip(), written.removeprefix("json").strip()

    def _no_call(
        self,
        source: Source,
        raw: str,
        marker: str | None,
        why: str,
        header: Header | None = None,
    ) -> None:
        if marker is None:
            name, call_id, _ = header or Header("")
            source.cut(raw, name=name, call_id=call_id, content=False)
            return
        if marker != self.call_closes:
            source.unread(marker)
        elif not raw.endswith(marker):
            raw += marker
        source.malformed(raw, why, content=False)


def _either(markers: Iterable[str]) -> str:
    return "|".join(map(re.escape, markers))


def _without_ends(text: str) -> str:
    """`text` without white space and markers of the end of a turn."""
    for marker in ENDS:
        text = text.replace(marker, "")
    return text.strip()
