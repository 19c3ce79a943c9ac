"""Reads Python literals and calls with literal arguments: `f(a=1, b=['x'])`.

Only what `json` can hold comes out: tuples and sets become lists, keys of dicts strings, and
JSON's `true`, `false` and `null` are understood too. Nothing is ever evaluated. Not `ast`: that
takes the whole of Python and dies of deep nesting, and strings with raw line breaks, or a keyword
for a parameter's name, are errors to it. Each character is read once.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

MOST_DEEP = 100
"""So deep may values be nested; each level takes some of Python's stack."""
MOST_DIGITS = 4000
"""A number of more digits is none. Python reads long ones in quadratic time."""


class NotLiteral(ValueError):
    """A text is no Python literal. `at` is where it stops being one; `len(text)` if it breaks off.

    `cut` says that the text may yet become one when it goes on.
    """

    def __init__(self, reason: str, at: int, *, cut: bool = False) -> None:
        super().__init__(f"{reason}, at character {at}")
        self.at, self.cut = at, cut


@dataclass(slots=True)
class LiteralCall:
    """A call as it was written: its name, and the arguments by position and by name."""

    name: str
    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    repairs: dict[str, None] = field(default_factory=dict)
    """What was read with leniency, each once."""
    end: int = 0
    """Where the text goes on after it."""


def python_literal(text: str) -> Any:
    """The value of the one literal that fills `text`, blanks apart. Raises `NotLiteral`."""
    reader = _Reader(text, whole=True)
    value = reader.value()
    reader.blank()
    if reader.at < len(text):
        raise NotLiteral("something follows the value", reader.at)
    return value


def read_call(text: str, at: int) -> LiteralCall:
    """The call that begins at `at`. Raises `NotLiteral`."""
    return _Reader(text, at).call()


def python_call(name: str, arguments: dict[str, Any]) -> str:
    """A call as Python writes it; what `read_call` reads back."""
    parts = [f"{key}={value!r}" for key, value in arguments.items() if PARAMETER.fullmatch(key)]
    if odd := {key: value for key, value in arguments.items() if not PARAMETER.fullmatch(key)}:
        parts.append(f"**{odd!r}")
    return f"{name}({', '.join(parts)})"


NAME = re.compile(r"[^\W\d][\w-]*(?:[.:/][\w-]+)*")
"""A function's name: dotted, and with the other signs that tools have in theirs."""
PARAMETER = re.compile(r"[^\W\d]\w*")
_BLANK = re.compile(r"\s*")
_NUMBER = re.compile(
    r"(?P<based>0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+))"
    r"|(?:\d+(?:_\d+)*)?(?:\.(?:\d+(?:_\d+)*)?)?(?:[eE][+-]?\d+)?",
    re.ASCII,
)
_STRING = re.compile(r"(?P<prefix>[a-zA-Z]{0,2})(?P<quote>\"\"\"|'''|\"|')")
_PREFIXES = frozenset(("", "u", "r", "b", "br", "rb", "f", "fr", "rf"))
_WORDS = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    "null": None,
}
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_RUNS = {
    '"': re.compile(r'[^"\\]+'),
    "'": re.compile(r"[^'\\]+"),
}
"""The characters of a string that end neither it nor a run of plain ones."""
_ESCAPES = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\n": "",
}
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}
_OCTAL = re.compile(r"[0-7]{1,3}")
_UNICODE_NAME = re.compile(r"\{([^{}\n]{1,100})\}")


class _Reader:
    def __init__(self, text: str, at: int = 0, *, whole: bool = False) -> None:
        self.text, self.at, self.whole, self.deep = text, at, whole, 0
        self.repairs: dict[str, None] = {}

    def call(self) -> LiteralCall:
        name = NAME.match(self.text, self.at)
        if name is None:
            raise self.failure("a function's name is expected")
        call = LiteralCall(name.group(), repairs=self.repairs)
        self.at = name.end()
        self.blank()
        self.take("(")
        comma = True
        while not self.closes(")"):
            if not comma:
                raise self.failure("`,` or `)` is expected")
            self.argument(call)
            comma = self.comma()
        call.end = self.at
        return call

    def argument(self, call: LiteralCall) -> None:
        if self.text.startswith("**", self.at):
            self.at += 2
            self.blank()
            start = self.at
            more = self.value()
            if not isinstance(more, dict):
                raise NotLiteral("a dict is expected after `**`", start)
            call.named.update(more)
            return
        key = PARAMETER.match(self.text, self.at)
        if key is not None:
            start, self.at = self.at, key.end()
            self.blank()
            if self.text.startswith("=", self.at) and not self.text.startswith("==", self.at):
                self.at += 1
                call.named[key.group()] = self.value()
                return
            if self.at == len(self.text) and start != self.at:
                raise self.failure("it breaks off")
            self.at = start
        if call.named:
            raise self.failure("a value without a name follows one with a name")
        call.positional.append(self.value())

    def value(self) -> Any:
        self.blank()
        text, at = self.text, self.at
        if at == len(text):
            raise self.failure("it breaks off")
        char = text[at]
        if char in "\"'":
            return self.strings()
        if char in _CLOSING:
            return self.group(char)
        if char.isdigit() or char in "+-.":
            return self.number()
        if string := _STRING.match(text, at):
            if string["prefix"].lower() in _PREFIXES:
                return self.strings()
            raise self.failure("a value is expected")
        word = PARAMETER.match(text, at)
        if word is None:
            raise self.failure("a value is expected")
        if word.group() in _WORDS:
            self.at = word.end()
            return _WORDS[word.group()]
        if word.end() == len(text) and len(word.group()) <= len("False"):
            raise NotLiteral("it breaks off", len(text), cut=True)
        raise self.failure(f"{word.group()[:40]!r} is no literal")

    def group(self, opening: str) -> Any:
        """A list, tuple, set or dict; a value in brackets is that value."""
        if self.deep == MOST_DEEP:
            raise self.failure(f"it is nested more than {MOST_DEEP} deep")
        closing = _CLOSING[opening]
        self.deep += 1
        self.at += 1
        items: list[Any] = []
        members: dict[str, Any] = {}
        comma, commas = True, 0
        while not self.closes(closing):
            if not comma:
                raise self.failure(f"`,` or `{closing}` is expected")
            start = self.at
            item = self.value()
            self.blank()
            if opening == "{" and not items and (members or self.text.startswith(":", self.at)):
                self.take(":")
                members[self.key(item, start)] = self.value()
            else:
                items.append(item)
            comma = self.comma()
            commas += comma
        self.deep -= 1
        if opening == "{" and not items:
            return members
        if opening == "(" and len(items) == 1 and not commas:
            return items[0]
        return items

    def key(self, key: Any, start: int) -> str:
        """A key as JSON has it."""
        if isinstance(key, str):
            return key
        if isinstance(key, (list, dict)):
            raise NotLiteral("a list or dict cannot be a key", start)
        return json.dumps(key)

    def number(self) -> Any:
        start = self.at
        negative = False
        while self.text.startswith(("-", "+"), self.at):
            if self.at - start == _MOST_SIGNS:
                raise self.failure("a number is expected")
            negative ^= self.text[self.at] == "-"
            self.at += 1
            self.blank()
        found = _NUMBER.match(self.text, self.at)
        assert found is not None  # it matches nothing, too
        digits = found.group().replace("_", "")
        end = found.end()
        if end == len(self.text) and not self.whole:
            raise NotLiteral("it breaks off", end, cut=True)  # more digits may follow
        follows = self.text[end : end + 1]
        if not digits.strip(".eE") or follows.isalnum() or follows == "_":
            raise self.failure("a number is expected")
        if len(digits) > MOST_DIGITS:
            raise self.failure("a number is too long")
        self.at = end
        value: int | float
        try:
            if found["based"]:
                value = int(digits, 0)
            else:
                value = float(digits) if not digits.isdigit() else int(digits)
        except ValueError:
            raise NotLiteral("a number is expected", start) from None
        if value == float("inf"):
            return self.text[start:end]  # JSON has no number for it: it stays text
        return -value if negative else value

    def strings(self) -> str:
        """One string, or several beside one another, which Python puts together."""
        parts = [self.string()]
        while True:
            self.blank()
            following = _STRING.match(self.text, self.at)
            if following is None or following["prefix"].lower() not in _PREFIXES:
                return parts[0] if len(parts) == 1 else "".join(parts)
            parts.append(self.string())

    def string(self) -> str:
        opening = _STRING.match(self.text, self.at)
        assert opening is not None
        quote, prefix = opening["quote"], opening["prefix"].lower()
        raw, text = "r" in prefix, self.text
        run = _RUNS[quote[0]]
        start = self.at
        self.at = opening.end()
        parts: list[str] = []
        while True:
            if plain := run.match(text, self.at):
                parts.append(plain.group())
                self.at = plain.end()
            if self.at == len(text):
                raise self.failure("a string is not closed")
            if text.startswith(quote, self.at):
                self.at += len(quote)
                break
            if text[self.at] != "\\":
                parts.append(text[self.at])
                self.at += 1
            elif raw:
                parts.append(text[self.at : self.at + 2])
                self.at = min(self.at + 2, len(text))
            else:
                parts.append(self.escape())
        value = "".join(parts)
        if "f" in prefix and ("{" in value or "}" in value):
            raise NotLiteral("a string with `{}` to fill in is no literal", start)
        if len(quote) == 1 and "\n" in value and "\n" in text[start : self.at]:
            self.repairs["raw newline"] = None
        return value

    def escape(self) -> str:
        """A backslash and what it stands before. One that means nothing stands for itself."""
        text, at = self.text, self.at
        char = text[at + 1 : at + 2]
        if not char:
            raise NotLiteral("it breaks off", len(text), cut=True)
        if char in _ESCAPES:
            self.at += 2
            return _ESCAPES[char]
        if octal := _OCTAL.match(text, at + 1):
            self.at = octal.end()
            return chr(int(octal.group(), 8))
        if char in _HEXADECIMAL:
            code = text[at + 2 : at + 2 + _HEXADECIMAL[char]]
            digits = re.fullmatch("[0-9a-fA-F]+", code) and len(code) == _HEXADECIMAL[char]
            if digits and int(code, 16) <= _LAST_CODE:
                self.at += 2 + len(code)
                return chr(int(code, 16))
        if char == "N" and (name := _UNICODE_NAME.match(text, at + 2)):
            try:
                self.at = name.end()
                return unicodedata.lookup(name[1])
            except KeyError:
                self.at = at
        self.at += 2
        return text[at : at + 2]

    def closes(self, closing: str) -> bool:
        self.blank()
        if self.at == len(self.text):
            raise self.failure("it breaks off")
        if self.text[self.at] != closing:
            return False
        self.at += 1
        return True

    def comma(self) -> bool:
        self.blank()
        if self.text.startswith(",", self.at):
            self.at += 1
            return True
        return False

    def take(self, sign: str) -> None:
        if not self.text.startswith(sign, self.at):
            raise self.failure(f"`{sign}` is expected")
        self.at += 1

    def blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        assert found is not None  # it matches nothing, too
        self.at = found.end()

    def failure(self, reason: str) -> NotLiteral:
        return NotLiteral(reason, self.at, cut=self.at == len(self.text))


_LAST_CODE = 0x10FFFF
_MOST_SIGNS = 4
