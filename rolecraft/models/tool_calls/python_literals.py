"""Reads Python literals, and calls with literal arguments, from a text that is still growing.

Only what JSON can hold comes out: tuples and sets become lists, keys of dicts strings, and JSON's
`true`, `false` and `null` are understood too. Nothing is ever evaluated. Not `ast`: that takes the
whole of Python, wants the whole text, and dies of deep nesting; strings with raw line breaks, or a
keyword for a parameter's name, are errors to it. Each character is read once, and reading stops at
the first one that cannot stand where it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecraft.models.tool_calls.python_strings import (
    PREFIXES,
    NoString,
    read_string,
    string_value,
)
from rolecraft.models.tool_calls.source import Reading, Source

State = Literal["whole", "broken", "cut"]
MOST_DEEP = 100
"""So deep may values be nested; what JSON is written from them can be read everywhere."""
LONGEST_WORD = 400
"""A name or number of more characters is none. `_TOKEN` reads one more, and no further."""


class NotLiteral(ValueError):
    """A text is no Python literal. Says why."""


@dataclass(slots=True)
class LiteralCall:
    """A call as it was written: its name, and the arguments by position and by name."""

    name: str
    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    repairs: dict[str, None] = field(default_factory=dict)
    """What was read with leniency, each once."""
    key: str | None = None
    """The name of the argument that is being read."""
    opened: bool = False
    """Whether its bracket was read."""


def python_literal(text: str) -> Any:
    """The value of the one literal that fills `text`, blanks apart. Raises `NotLiteral`."""
    source = Source(None, repair=True)
    source.push(text)
    source.ended = True
    reader = LiteralReader(source, [])
    for _ in reader.read():
        pass
    if reader.state != "whole":
        raise NotLiteral(reader.why)
    if source.text[source.at :].strip():
        raise NotLiteral("something follows the value")
    return reader.value


def python_call(name: str, arguments: dict[str, Any]) -> str:
    """A call as Python writes it."""
    parts = [f"{key}={value!r}" for key, value in arguments.items() if PARAMETER.fullmatch(key)]
    odd = {key: value for key, value in arguments.items() if not PARAMETER.fullmatch(key)}
    if odd:
        parts.append(f"**{odd!r}")
    return f"{name}({', '.join(parts)})"


NAME = re.compile(r"[^\W\d][\w-]*(?:[./][\w-]+)*")
"""A function's name: dotted, and with the other signs that tools have in theirs."""
PARAMETER = re.compile(r"[^\W\d]\w*")

_TOKEN = re.compile(r"""\s*(?:([\[\](){},:=*;<])|(['"])|([^\s\[\](){},:=*;<'"]{1,401}))?""")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII)
_BASED = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F_]+|[oO][0-7_]+|[bB][01_]+)")
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_CLOSING = {"[": "]", "(": ")", "{": "}"}

_NAME, _OPEN, _CALLED, _ARGUMENT, _STAR, _VALUE, _ITEM, _WORD, _STRING, _AFTER = range(10)
"""What may come next: a function's name; its bracket; what follows a call; an argument, or the end;
the second `*`; a value; a value, or the end; what follows a word that may be a key or a value; what
follows a string; what follows a value."""
_BEGINS_VALUE = frozenset((_ARGUMENT, _VALUE, _ITEM))


@dataclass(slots=True)
class _Group:
    """A list, tuple, set or dict that is being read."""

    opening: str
    items: list[Any] = field(default_factory=list)
    members: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    commas: bool = False
    twice: bool = False
    """Whether a key was given twice."""

    def put(self, value: Any) -> None:
        if self.key is None:
            self.items.append(value)
        else:
            self.twice = self.twice or self.key in self.members
            self.members[self.key] = value
            self.key = None

    def colon(self) -> bool:
        """Whether the last item may be a key, as which it is then taken."""
        if self.opening != "{" or len(self.items) != 1:
            return False
        key = self.items.pop()
        if isinstance(key, (list, dict)):
            return False
        self.key = key if isinstance(key, str) else json.dumps(key)
        return True

    def sound(self) -> bool:
        """Whether an item may end here: not a key without a value, nor one that came before."""
        return not (self.members and self.items) and not self.twice

    def value(self) -> Any:
        if self.opening == "{" and not self.items:
            return self.members
        if self.opening == "(" and len(self.items) == 1 and not self.commas:
            return self.items[0]
        return self.items


class LiteralReader:
    """Reads one value, or the calls of a list. What was read is in `seen`.

    `state` says how it ended: `whole`; `broken` before something that cannot stand there, for which
    `why` has the reason; or `cut`, where the text ends.
    """

    def __init__(self, source: Source, seen: list[str]) -> None:
        self.source, self.seen = source, seen
        self.state: State = "cut"
        self.why = "it breaks off"
        self.value: Any = None
        self.call: LiteralCall | None = None
        """The call that is being read, or was read last and is not given yet."""
        self.give: Callable[[LiteralCall], None] = _nobody
        self.bracket = False
        self.groups: list[_Group] = []
        self.expected = _VALUE
        self.word = ""
        self.string = ""

    def read_calls(self, give: Callable[[LiteralCall], None], *, bracket: bool) -> Reading[None]:
        """Read calls; with `bracket` those of a list whose bracket was read, up to its end.

        `give` gets each as soon as it is certain that it is one, while its text is all of `seen`.
        """
        self.give, self.bracket, self.expected = give, bracket, _NAME
        return self.read()

    def read(self) -> Reading[None]:
        """Read a value, or what `read_calls` asks for."""
        source = self.source
        match = _TOKEN.match
        text, at = source.text, source.at
        while True:
            token = match(text, at)
            assert token is not None  # it matches nothing, too
            sign, quote, letters = token.groups()
            stop = token.end()
            begin = stop if token.lastindex is None else token.start(token.lastindex)
            if letters is not None and len(letters) > LONGEST_WORD:
                return self.stop(begin, "a word is too long")
            if sign is None and quote is None and stop == len(text) and not source.ended:
                # Blanks, or a word that may go on.
                self.take(begin)
                yield
                text, at = source.text, source.at
                continue
            prefix = ""
            if letters is not None and text[stop : stop + 1] in _QUOTES:
                if letters.lower() not in PREFIXES:
                    return self.stop(begin, "this is no string")
                prefix, quote = letters, text[stop]
                stop += 1
            if (why := self.settle(sign, quote)) or self.finished:
                return self.stop(begin, why)
            if quote is not None:
                if self.expected not in _BEGINS_VALUE and self.expected != _STRING:
                    return self.stop(begin, "a string cannot stand here")
                self.take(stop)
                inside = yield from read_string(source, quote, self.seen)
                if inside is None:
                    return None
                text, at = source.text, source.at
                if why := self.add_string(prefix, inside):
                    return self.stop(at, why)
                continue
            if sign is not None:
                why = self.add_sign(sign, stop)
            elif letters is not None:
                why = self.add_word(letters)
            else:
                return self.end(stop)
            if why or self.finished:
                return self.stop(begin if why else stop, why)
            at = stop

    @property
    def finished(self) -> bool:
        return self.state == "whole"

    # What each token does. These return why it cannot stand where it stands.

    def settle(self, sign: str | None, quote: str | None) -> str:
        """Take what was read before, if it depended on what comes now."""
        if self.expected == _WORD and sign != "=":
            value = _literal(self.word)
            return f"{self.word[:40]!r} is no literal" if value is _NOTHING else self.put(value)
        if self.expected == _STRING and quote is None:
            return self.put(self.string)
        if self.expected == _CALLED and not self.bracket and sign not in (",", ";"):
            self.state = "whole"  # what follows is no part of it
        return ""

    def add_string(self, prefix: str, inside: str) -> str:
        try:
            value = string_value(prefix, inside)
        except NoString as failure:
            return str(failure)
        if self.call is not None and "\n" in inside and len(self.seen[-1]) == 1:
            self.call.repairs["raw newline"] = None
        # Strings beside one another are one string.
        self.string = self.string + value if self.expected == _STRING else value
        self.expected = _STRING
        return ""

    def add_word(self, letters: str) -> str:
        if self.expected == _NAME and NAME.fullmatch(letters):
            self.call = LiteralCall(letters)
            self.expected = _OPEN
            return ""
        if self.expected == _ARGUMENT:
            self.word = letters
            self.expected = _WORD
            return ""
        if self.expected in (_VALUE, _ITEM):
            value = _literal(letters)
            if value is not _NOTHING:
                return self.put(value)
        return f"{letters[:40]!r} cannot stand here"

    def add_sign(self, sign: str, stop: int) -> str:
        expected, groups, call = self.expected, self.groups, self.call
        if sign in _CLOSING:
            if sign == "(" and expected == _OPEN and call is not None:
                call.opened = True
                self.expected = _ARGUMENT
                return ""
            if expected not in _BEGINS_VALUE:
                return f"`{sign}` cannot stand here"
            if len(groups) == MOST_DEEP:
                return f"it is nested more than {MOST_DEEP} deep"
            groups.append(_Group(sign))
            self.expected = _ITEM
            return ""
        if sign == ",":
            if expected == _CALLED:
                self.take(stop)
                self.given()
                self.expected = _NAME
                return ""
            if expected == _AFTER:
                if groups:
                    groups[-1].commas = True
                self.expected = _ITEM if groups else _ARGUMENT
                return "" if not groups or groups[-1].sound() else "`:` is expected"
        elif sign == "=" and expected == _WORD and call is not None:
            if not PARAMETER.fullmatch(self.word):
                return f"{self.word[:40]!r} is no parameter's name"
            call.key = self.word
            self.expected = _VALUE
            return ""
        elif sign == ":" and expected == _AFTER and groups and groups[-1].colon():
            self.expected = _VALUE
            return ""
        elif sign == "*" and expected in (_ARGUMENT, _STAR) and call is not None:
            call.key = "**" if expected == _STAR else None
            self.expected = _VALUE if expected == _STAR else _STAR
            return ""
        elif sign == ";" and expected == _CALLED and not self.bracket:
            return self.add_sign(",", stop)
        elif sign in "])}":
            return self.close(sign, stop)
        return f"`{sign}` cannot stand here"

    def close(self, sign: str, stop: int) -> str:
        if self.groups:
            group = self.groups[-1]
            fits = sign == _CLOSING[group.opening] and self.expected in (_ITEM, _AFTER)
            if fits and group.sound():
                self.groups.pop()
                return self.put(group.value())
        elif sign == ")" and self.call is not None and self.expected in (_ARGUMENT, _AFTER):
            self.expected = _CALLED
            return ""
        elif sign == "]" and self.bracket and self.expected in (_CALLED, _NAME):
            self.take(stop)
            self.given()
            self.state = "whole"
            return ""
        return f"`{sign}` cannot stand here"

    def put(self, value: Any) -> str:
        """A value is complete."""
        self.expected = _AFTER
        call = self.call
        if self.groups:
            self.groups[-1].put(value)
        elif call is None:
            self.value, self.state = value, "whole"
        elif call.key is None:
            if call.named:
                return "an argument without a name follows one with a name"
            call.positional.append(value)
        elif call.key in call.named:
            return f"`{call.key}` is given twice"
        elif call.key != "**":
            call.named[call.key] = value
        elif isinstance(value, dict):
            if not call.named.keys().isdisjoint(value):
                return "an argument is given twice"
            call.named.update(value)
        else:
            return "a dict is expected after `**`"
        if call is not None and not self.groups:
            call.key = None
        return ""

    def given(self) -> None:
        if self.call is not None:
            self.give(self.call)
        self.call = None

    # How reading ends.

    def take(self, end: int) -> None:
        source = self.source
        if end > source.at:
            self.seen.append(source.text[source.at : end])
            source.at = end

    def stop(self, at: int, why: str) -> None:
        """Reading is over, at a place of the source's text."""
        self.take(at)
        if why:
            self.state, self.why = "broken", why
        elif not self.bracket:
            self.given()

    def end(self, at: int) -> None:
        """The text ends."""
        self.take(at)
        if self.expected == _CALLED and self.call is not None:
            if self.bracket:
                self.call.repairs["missing bracket"] = None
            self.given()
            self.state = "whole"


def _nobody(call: LiteralCall) -> None:
    pass


def _literal(word: str) -> Any:
    """The value of a word or number; `_NOTHING` if it has none."""
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > LONGEST_WORD:
        return _NOTHING
    if _NUMBER.fullmatch(word):
        digits = word.replace("_", "")
        if digits.lstrip("+-").isdigit():
            return int(digits)
        value = float(digits)
        return word if value in (_INFINITE, -_INFINITE) else value  # JSON has no number for it
    if _BASED.fullmatch(word):
        return int(word.replace("_", ""), 0)
    return _NOTHING


_NOTHING: Any = object()
_INFINITE = float("inf")
_QUOTES = ("'", '"')
