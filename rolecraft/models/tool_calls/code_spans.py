"""Code in an answer's text: what stands between backticks shows a call, and is none.

Inline code is what stands between single or double backticks in one line. In a code fence (three
backticks at the beginning of a line) only calls without markers are text, and not even these where
the fence is the whole answer: models put their calls into one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.source import Reading, Source

_TICKS = re.compile("`+|\n")
_LINE_ENDS = Marks(("`", "\n"))
_FENCE = "```"
_FENCE_ENDS = Marks(("\n" + _FENCE,))


_LONGEST_FENCE = 100


class _State(NamedTuple):
    inline: bool
    fence: bool


class CodeSpans:
    """Where the content of a source stands in code. It looks at each character of it once.

    Content is only added to while one of these is used.
    """

    __slots__ = ("_at", "_known", "_plain_to", "_source", "_tail", "_whole_to")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0
        """So many parts of the content were looked at."""
        self._tail = "\n"
        """Their last characters, of which the meaning is not certain yet."""
        self._known = _State(False, False)
        """What holds before these."""
        self._plain_to = self._whole_to = 0
        """Up to where in the answer no inline code, or no text in a fence, is known to stand."""

    def may_surround(self, *, bare: bool) -> bool:
        """Whether `around` must be asked about the marker that was just read.

        `bare` says that it is no marker but the beginning of a call without one.
        """
        inline, fence = self._state()
        return inline or (bare and fence)

    def around(self, marker: str, *, bare: bool) -> Reading[bool]:
        """Whether `marker`, which was just read, stands in code; then that code was said."""
        source = self._source
        inline, fence = self._state()
        if inline and source.position > self._plain_to:
            parts = [marker]
            end = yield from source.until(_LINE_ENDS, parts)
            source.unread(end or "")
            if end == "`":
                source.say("".join(parts))
                return True
            self._plain_to = source.position
            source.unread("".join(parts[1:]))
        if bare and fence and source.position > self._whole_to:
            return (yield from self._in_fence(marker))
        return False

    def _in_fence(self, marker: str) -> Reading[bool]:
        source = self._source
        parts = [marker]
        end = yield from source.until(_FENCE_ENDS, parts)
        before = self._beginning().strip()
        alone = before.startswith(_FENCE) and "\n" not in before
        if alone and end is not None:
            parts += (end, (yield from source.blanks()))
            alone = source.at == len(source.text) or source.text[source.at] == "<"
        elif end is not None:
            parts.append(end)
        if not alone:
            source.say("".join(parts))
            return True
        self._whole_to = source.position
        source.unread("".join(parts[1:]))
        return False

    def _beginning(self) -> str:
        """The content, of which not much is looked at."""
        text = ""
        for part in self._source.content:
            text += part[:_LONGEST_FENCE]
            if len(text) >= _LONGEST_FENCE:
                return text + "\n."
        return text

    def _state(self) -> _State:
        """Where the content ends: in inline code, in a code fence."""
        content = self._source.content
        if self._at < len(content):
            text = "".join((self._tail, *content[self._at :]))
            self._at = len(content)
            # More backticks may follow these, and a line break shows that a fence begins.
            end = len(text.rstrip("`"))
            end -= text.endswith("\n", 0, end)
            self._known = _after(text[:end], self._known)
            self._tail = text[end:]
        return _after("".join((self._tail, *self._source.held)), self._known)


def _after(text: str, state: _State) -> _State:
    inline, fence = state
    if "`" not in text:
        return _State(False, fence) if inline and "\n" in text else state
    for found in _TICKS.finditer(text):
        if found[0] == "\n":
            inline = False
        elif len(found[0]) < 3:
            inline = not inline
        elif found.start() and text[found.start() - 1] == "\n":
            fence = not fence
    return _State(inline, fence)
