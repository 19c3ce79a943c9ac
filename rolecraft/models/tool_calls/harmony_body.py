"""Harmony, the messages of gpt-oss: `<|start|>ROLE<|channel|>CHANNEL<|message|>TEXT<|end|>`.

The channel says what a message is: `analysis` is reasoning, `final` and `commentary` are for the
user. One with a recipient (`to=functions.NAME`, in whatever channel, before it or after it) is a
call, and its text the arguments. The chat template writes `<|start|>assistant`, so an answer may
begin in the middle of a head. Words of a head that lead to no message are no content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.tool_calls.json_body import Ends, read_json, taking
from rolecraft.models.tool_calls.json_calls import write_arguments
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.source import Reading, Source

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"

FUNCTIONS = "functions."
"""Before the names of the tools that the developer gave; those built in have none."""
CODE = "code"
"""The one argument of a call whose text is a program: gpt-oss calls its `python` tool so."""
LONGEST_HEAD = 1000


@dataclass(frozen=True, slots=True)
class HarmonyBody:
    """All messages of an answer."""

    opens: tuple[str, ...] = (START, CHANNEL, MESSAGE)

    def begin(self, source: Source) -> Reading[None]:
        """Read messages from the beginning of an answer, or from the end of a message, on."""
        started = source.position > 0
        while True:
            head, marker = yield from _head_words(source)
            if marker is None:
                self._no_message(source, head, started)
                return
            filler = head.strip() not in _EXPECTED and not _RECIPIENT.search(head)
            if marker in _MESSAGE_ENDS or (filler and marker in (START, CHANNEL)):
                source.unread(marker)
                _leave_out(source, head)
                source.at += len(marker)
                head = ""
            if marker not in _MESSAGE_ENDS:
                yield from self._message(source, head, marker)
            started = True

    def read(self, source: Source, opened: str) -> Reading[None]:
        """Read a message of which the first marker was read, and those that follow."""
        yield from self._message(source, "", opened)
        yield from self.begin(source)

    def _no_message(self, source: Source, head: str, started: bool) -> None:
        """No message follows: what was read of a head is none, or the text ends in it."""
        ended = source.ended and source.at == len(source.text)
        if ended and started and (recipient := _RECIPIENT.search(head)):
            source.cut(head, name=_tool(source, recipient[1]), content=False)
        elif ended and started:
            _leave_out(source, head)
        else:
            source.say(head)

    def _message(self, source: Source, before: str, marker: str) -> Reading[None]:
        """Read a message: the rest of its head after `marker`, and its text."""
        head = [before, marker]
        channel = before if marker in (MESSAGE, CONSTRAIN) else ""
        while marker != MESSAGE:
            parts: list[str] = []
            following = yield from source.until(_HEAD, parts)
            text = "".join(parts)
            head.append(text)
            if marker == CHANNEL:
                channel = text
            if following is None or following in _MESSAGE_ENDS or len(text) > LONGEST_HEAD:
                if following is not None:
                    source.unread(following)
                self._headless(source, "".join(head), text, following is None)
                return
            head.append(following)
            marker = following
        whole = "".join(head)
        recipient = _RECIPIENT.search(whole)
        role = _ROLE.search(whole)
        if role is not None and role[1] not in ("assistant", ""):
            # The model went on for someone else, such as the tool that it called.
            text, end = yield from _rest(source)
            text = whole + text + (end or "")
            source.diagnose("text after calls", text, f"it is a message of {role[1]!r}")
            return
        if any(word not in _HEAD_WORDS for word in _words(whole, recipient)):
            source.diagnose("text after calls", whole, "words of it are no part of a head")
        if recipient is not None and recipient[1] not in _PEOPLE:
            yield from self._call(source, recipient[1], whole)
        elif channel.split()[:1] == ["analysis"]:
            yield from _text(source, source.think)
            source.framed()
        else:
            yield from _text(source, source.say)

    def _headless(self, source: Source, head: str, text: str, cut: bool) -> None:
        """A head that leads to no text."""
        recipient = _RECIPIENT.search(head)
        if len(text) > LONGEST_HEAD:
            source.say(head)
        elif cut and recipient is not None:
            source.cut(head, name=_tool(source, recipient[1]), content=False)
        else:
            _leave_out(source, head)

    def _call(self, source: Source, recipient: str, head: str) -> Reading[None]:
        name = _tool(source, recipient)
        if not name:
            text, end = yield from _rest(source)
            raw = head + text + (end or "")
            source.malformed(raw, "the function has no name", content=False)
        elif recipient == "python":
            text, end = yield from _rest(source)
            if end is None:
                source.cut(head + text, name=name, content=False)
            elif not end:
                # Whether what follows is a message or a part of the program is not known.
                parts = [text]
                while (marker := (yield from source.until(_HEAD, parts))) is not None:
                    parts.append(marker)
                raw = "".join((head, *parts))
                source.malformed(raw, "another message begins within it", content=False)
            else:
                source.call(name, _program(text), raw=head + text + end)
        else:
            yield from read_json(source, _ENDS, head, taking(name), name=name)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """The text of some calls, as it follows `<|start|>assistant`."""
        return f"{START}assistant".join(map(_written, calls))


def _written(call: ToolCall) -> str:
    if not call.name or re.search(r"[\s<]", call.name):
        raise UsageError(
            f"A tool named {call.name!r} cannot be called in Harmony: "
            f"a name has no blanks there, and no `<`."
        )
    head = f"{CHANNEL}commentary to={FUNCTIONS}{call.name} {CONSTRAIN}json{MESSAGE}"
    return f"{head}{write_arguments(call)}{CALL}"


def _tool(source: Source, recipient: str) -> str:
    """The name of the tool that a message is sent to."""
    if source.tools is not None and recipient in source.tools:
        return recipient
    return recipient.removeprefix(FUNCTIONS)


def _program(text: str) -> dict[str, Any]:
    """The arguments of a call whose text may be a program."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) and CODE in value else {CODE: text}


def _words(head: str, recipient: re.Match[str] | None) -> list[str]:
    """The words of a head, markers and the recipient apart."""
    if recipient is not None:
        head = f"{head[: recipient.start()]} {head[recipient.end() :]}"
    return _MARKER.sub(" ", head).split()


def _leave_out(source: Source, text: str) -> None:
    if text.strip():
        source.diagnose("text after calls", text, "it is part of no message")


def _head_words(source: Source) -> Reading[tuple[str, str | None]]:
    """Read what may stand in a head before a marker, and the marker; None if none follows."""
    parts: list[str] = []
    while True:
        parts.append((yield from source.blanks()))
        marker = yield from source.marker(_FIRST)
        if marker is None or marker.startswith("<"):
            return "".join(parts), marker
        parts.append(marker)
        word: list[str] = []
        stop = yield from source.until(_WORD_ENDS, word)
        if stop is not None:
            source.unread(stop)
        parts += word
        if marker != "to=" and "".join(word):
            return "".join(parts), None


def _text(source: Source, give: Callable[[str], None]) -> Reading[str | None]:
    """Read the text of a message and its end, and return that.

    It is empty where the next message begins without one, and None where the answer ends.
    """
    last = ""  # the last character of the text
    while True:
        text, at = source.text, source.at
        end, marker = _TEXT.search(text, at, source.ended)
        if end > at:
            source.at = end
            give(text[at:end])
            last = text[end - 1]
        if marker is not None and last == "`" and give == source.say:
            source.at += len(marker)
            if (yield from _backtick(source)):
                give(marker)
                last = ""
                continue
            source.unread(marker)
            last = ""
            continue
        if marker is not None:
            if marker not in _MESSAGE_ENDS:
                return ""
            source.at += len(marker)
            return marker
        if source.ended:
            return None
        yield


def _backtick(source: Source) -> Reading[bool]:
    """Whether a backtick follows."""
    while source.at == len(source.text):
        if source.ended:
            return False
        yield
    return source.text[source.at] == "`"


def _rest(source: Source) -> Reading[tuple[str, str | None]]:
    """Read the text of a message and its end, and return both."""
    parts: list[str] = []
    end = yield from _text(source, parts.append)
    return "".join(parts), end


_RECIPIENT = re.compile(r"(?:^|[\s>])to=([^\s<]+)")
_ROLE = re.compile(r"<\|start\|>\s*([^\s<]*)")
_PEOPLE = frozenset(("assistant", "user", "system", "developer", "all"))
_EXPECTED = frozenset(("", "assistant"))
_HEAD_WORDS = frozenset(("assistant", "analysis", "commentary", "final", "json", "code", "text"))
_MARKER = re.compile(r"<\|(?:start|channel|constrain|message)\|>")
_MESSAGE_ENDS = frozenset((END, CALL, RETURN))
_FIRST = Marks(
    (
        START,
        CHANNEL,
        MESSAGE,
        CONSTRAIN,
        END,
        CALL,
        RETURN,
        "to=",
        "assistant",
        "analysis",
        "commentary",
        "final",
    )
)
_WORD_ENDS = Marks((" ", "\n", "\t", "\r", "<"))
_HEAD = Marks((START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN))
_TEXT = Marks((START, CHANNEL, END, CALL, RETURN))
_ENDS = Ends((CALL,), (END, RETURN, START, CHANNEL), opens=(START, CHANNEL), content=False)
