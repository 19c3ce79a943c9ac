"""Where a JSON value ends in a text that is still growing.

The scan knows JSON's syntax, so a marker within a string is data, and it stops at the first
character that can't stand where it stands. It lets pass what can be mended without guessing where
the value ends: raw control characters in strings, a comma before a closing bracket, Python's words
and its single quotes.

At most three scans that begin at different places of a text can go on at one later place: being
within double quotes, within single quotes or without is permuted by every character, never merged,
and outside of quotes a marker ends a scan. So reading again from a marker in a scan that failed
costs no more than reading the text three times.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from rolecraft.models.tool_calls.source import Reading, Source


@dataclass(slots=True)
class Span:
    """What was read as one JSON value."""

    text: str
    state: Literal["whole", "broken", "cut"]
    """`broken`: `text` ends before a character that can't stand there; `cut`: the answer ends."""
    value: Any = None
    strict: bool = False
    """Whether `value` is what `text` says; else `text` is still to be decoded."""
    open_at: tuple[int, ...] = ()
    """Where the objects and lists begin that were not closed, in characters of the answer."""


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these members. Raises `ValueError` if two have one name: which counts?"""
    value = dict(members)
    if len(value) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in value if names.count(name) > 1)
        raise ValueError(f"`{twice}` is given twice")
    return value


STRICT = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=unique)
"""JSON as it is defined: Python's own reader takes `NaN` and `Infinity` for numbers, too.

And it keeps the last of two members of one name, where the first may be what was meant.
"""
_TOKEN = re.compile(r"""[ \t\n\r]*(?:(["'{}\[\],:])|([-+.\w]+))?""")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII).fullmatch
_WORDS = frozenset(
    ("true", "false", "null", "True", "False", "None", "NaN", "Infinity", "-Infinity")
)

_VALUE, _ITEM, _KEY, _COLON, _COMMA = range(5)
"""What may come next; `_ITEM` and `_KEY` stand for the end of the list or object as well."""


def json_span(source: Source) -> Reading[Span]:
    """Read an object or a list, which begins here."""
    source.trim()  # an error of `json` counts the lines of all text before it
    text, at = source.text, source.at
    if source.undecodable != source.position and source.may_close():
        try:
            value, end = STRICT.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass  # not whole yet, or not valid: the scan below tells
        else:
            source.at = end
            return Span(text[at:end], "whole", value, strict=True)
    return (yield from _scan(source))


def _scan(source: Source) -> Reading[Span]:
    parts: list[str] = []
    opened: list[tuple[str, int]] = []  # the brackets that are open, and where
    word: list[str] = []  # a number or a word that may go on
    expected = _VALUE
    text, at, start = source.text, source.at, source.at

    def span(state: Literal["whole", "broken", "cut"]) -> Span:
        parts.append(text[start:at])
        source.at = at
        return Span("".join(parts), state, open_at=tuple(where for _, where in opened))

    while True:
        token = _TOKEN.match(text, at)
        assert token is not None  # it matches nothing, too
        sign, letters = token.groups()
        if word and token.start(2) != at and (token.end() > at or at < len(text) or source.ended):
            written = "".join(word)  # the word ended before this token
            if not (written in _WORDS or _NUMBER(written)):
                return span("cut" if at == len(text) else "broken")
            word.clear()
            expected = _COMMA
        if letters is not None:
            if not word and expected not in (_VALUE, _ITEM):
                at = token.start(2)
                return span("broken")
            word.append(letters)
            at = token.end()
            expected = _COLON  # nothing but more of the word fits
        elif sign is None:
            at = token.end()
            if at < len(text):
                return span("broken")
            parts.append(text[start:at])
            source.at = at
            if source.ended:
                start = at
                return span("cut")
            yield
            text, at = source.text, source.at
            start = at
        elif sign in "\"'":
            if expected in (_COLON, _COMMA):
                at = token.start(1)
                return span("broken")
            parts.append(text[start : token.end()])
            source.at = token.end()
            if not (yield from _string(source, sign, parts)):
                text = source.text
                start = at = source.at
                return span("cut")
            text = source.text
            start = at = source.at
            expected = _COLON if expected == _KEY else _COMMA
        elif sign == ":":
            if expected != _COLON or letters is not None:
                at = token.start(1)
                return span("broken")
            at = token.end()
            expected = _VALUE
        elif sign == ",":
            if expected != _COMMA:
                at = token.start(1)
                return span("broken")
            at = token.end()
            expected = _KEY if opened[-1][0] == "{" else _ITEM
        elif sign in "{[":
            if expected not in (_VALUE, _ITEM):
                at = token.start(1)
                return span("broken")
            opened.append((sign, source.offset + token.start(1)))
            at = token.end()
            expected = _KEY if sign == "{" else _ITEM
        else:
            fits = opened[-1][0] == ("{" if sign == "}" else "[")
            if not fits or expected not in (_COMMA, _KEY if sign == "}" else _ITEM):
                at = token.start(1)
                return span("broken")
            opened.pop()
            at = token.end()
            if not opened:
                return span("whole")
            expected = _COMMA


def _string(source: Source, quote: str, parts: list[str]) -> Reading[bool]:
    """Read the rest of a string, whose quote was read, into `parts`. False if the text ends."""
    while True:
        text, at = source.text, source.at
        end = text.find(quote, at)
        if end >= 0:
            parts.append(text[at:end])
            source.at = end + 1
            is_escaped = escaped(parts)
            parts.append(quote)
            if not is_escaped:
                return True
            continue
        parts.append(text[at:])
        source.at = len(text)
        if source.ended:
            return False
        yield from source.sleep(quote, parts)


def escaped(parts: list[str]) -> bool:
    """Whether an odd number of backslashes is at the end of what `parts` say."""
    backslashes = 0
    for part in reversed(parts):
        rest = part.rstrip("\\")
        backslashes += len(part) - len(rest)
        if rest:
            break
    return backslashes % 2 == 1
