"""The text of one answer as it comes in, and what was found in it so far.

Formats are read by coroutines: a reading asks the source for text and waits (`yield`) where there
is none yet. So a format is written as if the text were all there, and how the text is cut cannot
change what is found: a reading sees only what `until`, `blanks` and the like give it.

Nothing waits in `text` but what may still become a marker, or a short beginning; what was read is
moved to lists. So each character is looked at a bounded number of times, however small the pieces.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.output import (
    CallPiece,
    ContentPiece,
    Diagnostic,
    DiagnosticKind,
    ParsedOutput,
    Piece,
    ReasoningPiece,
    TakenBack,
)

T = TypeVar("T")
Reading = Generator[None, None, T]
"""Reads something from a `Source`; waits where text is missing, and returns what it read."""


class Source:
    """Text of which the part from `at` on is still to be read, and what was found before it."""

    __slots__ = (
        "at",
        "barren",
        "before",
        "blank",
        "calls",
        "closing",
        "content",
        "diagnostics",
        "ended",
        "fresh",
        "held",
        "ids",
        "last_brace",
        "looked_ahead",
        "looked_at",
        "offset",
        "pieces",
        "quiet",
        "quiet_marks",
        "quiet_parts",
        "reasoning",
        "repair",
        "text",
        "tools",
        "undecodable",
        "unknown",
    )

    def __init__(
        self, tools: dict[str, Any] | None, *, repair: bool, unknown: bool = False
    ) -> None:
        self.tools = tools
        """JSON Schema of each tool's parameters by name; None if it is not known what there is."""
        self.repair = repair
        self.unknown = unknown
        """Whether a call of a tool that was not offered is a call."""
        self.text = ""
        self.at = 0
        self.offset = 0
        """How many characters of the answer came before `text`."""
        self.before = ""
        """The last of them, if it is known."""
        self.looked_at = self.text
        self.last_brace = -1
        self.closing = (self.text, -1)
        """A text, and up to where in it `narrow` has looked."""
        self.looked_ahead = False
        """Whether the end of the answer was looked for once, from a call that cannot be read."""
        self.undecodable = -1
        """Where, in characters of the answer, no JSON could be read at once."""
        self.barren: set[int] = set()
        """Where, in characters of the answer, brackets stand that are known to begin no call."""
        self.ended = False
        self.quiet = ""
        """While set, text without this character changes nothing but `quiet_parts`."""
        self.quiet_parts: list[str] = []
        self.quiet_marks: Marks | None = None
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.blank: list[str] = []
        """White space at the beginning of the reasoning, which is none if nothing follows."""
        self.calls: list[ToolCall] = []
        self.ids: dict[str, int] = {}
        """Those of the calls, and a number at which to look for another one like it."""
        self.diagnostics: list[Diagnostic] = []
        self.pieces: list[Piece] = []
        self.held: list[str] = []
        """White space and end markers that are content only if content follows."""
        self.fresh = True
        """Whether no content came since the beginning, a call or a block of reasoning."""

    def take_pieces(self) -> list[Piece]:
        """What was found since the last time."""
        pieces, self.pieces = self.pieces, []
        return pieces

    # What readings take.

    @property
    def position(self) -> int:
        """How many characters of the answer were read."""
        return self.offset + self.at

    def push(self, delta: str) -> None:
        """More text came."""
        if self.at:
            self.offset += self.at
            self.before = self.text[self.at - 1]
            self.text = self.text[self.at :] + delta
            self.at = 0
        else:
            self.text += delta

    def trim(self) -> None:
        """Forget what was read, if that is much: some functions look at a text's beginning."""
        if self.at > 10_000:
            self.push("")

    def may_close(self) -> bool:
        """Whether a closing brace is in the text that is there. It looks once at each text."""
        if self.looked_at is not self.text:
            self.looked_at, self.last_brace = self.text, self.text.rfind("}")
        return self.last_brace >= self.at

    def narrow(self, start: int, marker: str) -> str:
        """The text from `start` to the next `marker`, if it is ASCII in a text that is not.

        Python's `json` reads that in half the time. Empty where it is not worth it; no text is
        looked at twice.
        """
        text, (looked_in, looked_to) = self.text, self.closing
        if text.isascii() or (looked_in is text and start < looked_to):
            return ""
        end = text.find(marker, start)
        self.closing = (text, len(text) if end < 0 else end)
        piece = text[start:end] if end >= 0 else ""
        return piece if piece.isascii() else ""

    def unread(self, text: str) -> None:
        """Put `text`, which was read last, back."""
        if self.text.startswith(text, self.at - len(text)) and self.at >= len(text):
            self.at -= len(text)
            return
        self.offset -= len(text) - self.at
        self.text = text + self.text[self.at :]
        self.at = 0
        self.before = ""

    def sleep(self, char: str, into: list[str], marks: Marks | None = None) -> Reading[None]:
        """Wait for text with `char`; other text goes to `into` without waking the reading.

        With `marks`, all of which begin with `char`, one of them must begin in the text. All text
        must have been read. This is what makes long strings cheap in small pieces.
        """
        known = len(into)
        self.quiet, self.quiet_parts, self.quiet_marks = char, into, marks
        yield
        self.quiet = ""
        self.offset += sum(map(len, into[known:]))

    def sleeps_on(self, delta: str) -> bool:
        """Whether the reading may sleep on though the character it waits for is in `delta`.

        So it is with a part of no marker, and with a quote that does not end the string.
        """
        if self.quiet_marks is not None:
            return self.quiet_marks.begun_in(delta) is None
        if self.quiet not in "\"'":
            return False
        at = delta.index(self.quiet)
        if at < 2:
            last = self.quiet_parts[-1]
            delta, at = last + delta, at + len(last)
        return (
            at > 1
            and delta[at - 1] == "\\"
            and delta[at - 2] != "\\"
            and delta.find(self.quiet, at + 1) < 0
        )

    def until(self, marks: Marks, into: list[str]) -> Reading[str | None]:
        """Read up to and including the first marker; what precedes it goes to `into`.

        Returns the marker, None where the text ends without one.
        """
        while True:
            end, marker = marks.search(self.text, self.at, self.ended)
            if end > self.at:
                into.append(self.text[self.at : end])
                self.at = end
            if marker is not None:
                self.at += len(marker)
                return marker
            if self.ended:
                return None
            if marks.first and self.at == len(self.text):
                yield from self.sleep(marks.first, into, marks)
            else:
                yield

    def skip(self) -> str | None:
        """Read white space, if it is certain where it ends, and return it."""
        text, at = self.text, self.at
        end = at
        for char in text[at : at + 8]:
            if not char.isspace():
                self.at = end
                return text[at:end]
            end += 1
        return None

    def blanks(self) -> Reading[str]:
        """Read white space, and return it. Ask `skip` first where it must be fast."""
        parts: list[str] = []
        while True:
            text, at = self.text, self.at
            end = len(text)
            while at < end and text[at].isspace():
                at += 1
            if at > self.at:
                parts.append(text[self.at : at])
                self.at = at
            if at < end or self.ended:
                return "".join(parts)
            yield

    def marker(self, marks: Marks) -> Reading[str | None]:
        """Read one of `marks` if the text goes on with it, else nothing."""
        while True:
            sure, marker = marks.match(self.text, self.at, self.ended)
            if marker is not None:
                self.at += len(marker)
            if sure:
                return marker
            yield

    def output(self) -> ParsedOutput:
        """All that was found."""
        return ParsedOutput(
            "".join(self.content), "".join(self.reasoning), self.calls, self.diagnostics
        )

    # What readings give.

    def say(self, text: str) -> None:
        """`text` is content, as soon as something follows that is no white space."""
        if not text:
            return
        if self.held or self.fresh:
            if text.isspace():
                self.held.append(text)
                return
            text = "".join([*self.held, text])
            self.held = []
            self.fresh = False
        self.content.append(text)
        self.pieces.append(ContentPiece(text))

    def hold(self, text: str) -> None:
        """`text` is content only if content follows: a marker at the end of a turn."""
        self.held.append(text)

    def think(self, text: str) -> None:
        """`text` is reasoning, unless all reasoning is white space."""
        if not self.reasoning:
            if not text or text.isspace():
                self.blank.append(text)
                return
            text = "".join([*self.blank, text])
        if text:
            self.reasoning.append(text)
            self.pieces.append(ReasoningPiece(text))

    def rethink(self) -> None:
        """All content so far is reasoning."""
        self.pieces.append(TakenBack())
        self.reasoning.extend(self.content)
        self.content.clear()
        self.think("".join(self.held))
        self.framed()

    def framed(self) -> None:
        """A call or a block of reasoning ended: white space up to the next one is no content."""
        self.held = []
        self.fresh = True

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        raw: str,
        call_id: str = "",
        repairs: tuple[str, ...] = (),
    ) -> None:
        """A good call, which was written as `raw`, the text read last."""
        self.framed()
        if call_id:
            call_id = self._own_id(call_id)
        call = ToolCall(name, arguments, call_id, repairs=repairs)
        if not self.offered(name):
            why = f"no tool {name!r} was offered"
            self.diagnose("unknown tool", raw, why, call=call)
            return
        self.pieces.append(CallPiece(len(self.calls), call))
        self.calls.append(call)

    def offered(self, name: str) -> bool:
        """Whether a call of the tool `name` is a good one."""
        return self.tools is None or self.unknown or name in self.tools

    def _own_id(self, call_id: str) -> str:
        """`call_id`, or one like it if a call before has it: results are matched by it."""
        if call_id not in self.ids:
            self.ids[call_id] = 0
            return call_id
        stem, colon, number = call_id.rpartition(":")
        if not (colon and number.isdecimal()):
            return ""  # whoever sends results gives it one
        following = self.ids[call_id] or int(number[:9])
        while f"{stem}:{following}" in self.ids:
            following += 1
        self.ids[call_id] = following
        own = f"{stem}:{following}"
        self.ids[own] = 0
        return own

    def malformed(self, raw: str, why: str, *, content: bool = True) -> None:
        """`raw`, the text read last, begins like a call and is none: it is `content`, or not."""
        self.diagnose("malformed call", raw, why)
        if content:
            self.say(raw)

    def cut(self, raw: str, *, name: str = "", call_id: str = "", content: bool = True) -> None:
        """The text ended within a call, which was written as `raw` so far."""
        self.diagnose("incomplete call", raw, "the text ends within it")
        if content:
            self.say(raw)
        call = ToolCall(name, {}, call_id, incomplete=True, raw=raw)
        self.pieces.append(CallPiece(len(self.calls), call))
        self.calls.append(call)

    def diagnose(
        self,
        kind: DiagnosticKind,
        text: str,
        why: str,
        *,
        after: int = 0,
        call: ToolCall | None = None,
    ) -> None:
        """Note something about `text`, after which `after` characters were read."""
        at = max(0, self.position - after - len(text))
        self.diagnostics.append(Diagnostic(kind, text, at, why, call))
