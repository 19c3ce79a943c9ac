"""Calls whose arguments are written as marked pairs of a name and a bare text.

GLM writes `<tool_call>run<arg_key>cmd</arg_key><arg_value>ls</arg_value></tool_call>`, Qwen3-Coder
`<tool_call><function=run><parameter=cmd>ls</parameter></function></tool_call>`. Nothing is escaped
in the values, so markers may be part of them. A marker ends a value only if what follows it fits
the grammar: `</parameter>` only before `<parameter=`, `</function>` or the end. What a value still
could not hold is written with a word joiner (U+2060) after the `<` of its markers, and read back
without it. The text of a value is otherwise never changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.grammar import ENDS
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.pairs_call import ESCAPED_LINE, PairsCall
from rolecraft.models.tool_calls.source import Reading, Source
from rolecraft.models.tool_calls.written_names import LONGEST_NAME, write_name

JOINER = "\u2060"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsBody:
    """One way to write pairs. An empty marker is one that the format does not have."""

    opens: str = "<tool_call>"
    closes: str = "</tool_call>"
    function_opens: str = ""
    """Before the name of the function; may stand without `opens`."""
    function_closes: str = ""
    """After the pairs."""
    name_ends: str = ""
    """After the name; if empty, it ends at a line break and at the next marker."""
    key_opens: str
    key_closes: str
    value_opens: str = ""
    value_closes: str
    newline: str = ""
    """Written after the name of the function and after each marker that ends a part."""
    framed: bool = False
    """Whether one line break at the beginning and one at the end of a value are not part of it."""
    turn_ends: tuple[str, ...] = ENDS
    """Markers that end an answer; like the end of the text, they show that a call is over."""
    marks: BodyMarks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", BodyMarks(self))

    @property
    def inner_opens(self) -> str:
        """What opens a call, also where the outermost markers are missing."""
        return self.function_opens or self.opens

    @property
    def inner_closes(self) -> str:
        """What closes it."""
        return self.function_closes or self.closes

    def read(self, source: Source, opened: str) -> Reading[None]:
        """Read one call."""
        call = PairsCall(self, source, opened)
        if not call.read_at_once():
            yield from call.read()

    def unescaped(self, value: str) -> str:
        """The value as it was before markers in it were escaped."""
        return self.marks.joined.sub(r"<\1", value) if JOINER in value else value

    def write(self, calls: Sequence[ToolCall]) -> str:
        """The text of some calls."""
        return "\n".join(map(self.write_call, calls))

    def write_call(self, call: ToolCall) -> str:
        """The text of one call."""
        line = self.newline
        name = f"{self.function_opens}{write_name(call.name)}{self.name_ends}{line}"
        parts = [self.opens, line if self.function_opens else "", name]
        for key, value in call.arguments.items():
            parts += (self.key_opens, write_name(key), self.key_closes)
            if self.value_opens:
                parts += (line, self.value_opens)
            parts += ("\n", self.written(value), "\n") if self.framed else (self.written(value),)
            parts += (self.value_closes, line)
        if self.function_closes:
            parts += (self.function_closes, line)
        return "".join((*parts, self.closes))

    def written(self, value: Any) -> str:
        """The text of one value."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if not self.marks.ambiguous.search(text):
            return text
        if isinstance(value, str):
            return self.marks.marker.sub(rf"<{JOINER}\1\2", text)
        return text.replace("<", "\\u003c")


class BodyMarks:
    """The markers of a format by the places where they count."""

    def __init__(self, body: PairsBody) -> None:
        ends = [mark for mark in (body.function_closes, body.closes) if mark]
        starts = [mark for mark in (body.opens, body.function_opens) if mark]
        self.function = Marks([body.function_opens] if body.function_opens else [])
        self.name = Marks([body.name_ends or "<", "<", "\n"])
        self.key = Marks([body.key_closes, "<", "\n"])
        self.escaped_line = Marks([ESCAPED_LINE])
        self.pair = Marks([body.key_opens])
        self.value_opens = Marks([body.value_opens] if body.value_opens else [])
        self.value = Marks([body.value_closes, body.key_opens, *ends, *starts])
        """What may end a value."""
        self.next = Marks([body.key_opens, *ends, *starts])
        """What may follow the name of the function, or a value."""
        self.after_end = Marks([body.closes, *starts])
        """What shows that a marker in a value which ends a call does so."""
        self.close = Marks([body.closes])
        self.turn_end = Marks(body.turn_ends)
        self.call = Marks([*ends, *starts])
        """Where a call that cannot be read ends."""
        inner = _either(mark[1:] for mark in (*self.next.markers, body.value_closes))
        other = _either(self.next.markers)
        self.marker = re.compile(f"<({JOINER}*)({inner})")
        self.joined = re.compile(f"<{JOINER}({JOINER}*)(?={inner})")
        self.ambiguous = re.compile(f"{other}|<{JOINER}+(?:{inner})")
        # A good call, in a few patterns. None of them can go back: what they take, they keep.
        name = rf"([\w$@#.:/+-]{{1,{LONGEST_NAME}}}+)"
        begins = rf"{name}{re.escape(body.name_ends)}(?=\s*+<)"
        opens = rf"\s*+{re.escape(body.function_opens)}" if body.function_opens else r"\s*+"
        self.begins_at_once = {
            body.opens: re.compile(opens + begins).match,
            body.function_opens: re.compile(begins).match,
        }
        value_opens = rf"\s*+{re.escape(body.value_opens)}" if body.value_opens else ""
        key = rf"{re.escape(body.key_opens)}{name}{re.escape(body.key_closes)}"
        self.pair_at_once = re.compile(rf"\s*+{key}{value_opens}").match
        self.ends_at_once = re.compile("".join(rf"\s*+{re.escape(end)}" for end in ends)).match


def _either(marks: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(marks, key=len, reverse=True)))
