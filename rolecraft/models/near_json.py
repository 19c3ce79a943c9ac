"""Near-JSON: what models write when they are asked for JSON, as the JSON that it means.

Mended is form, never content: code fences and words around it, trailing commas, comments, single
and curly quotes, unquoted keys, Python's `True`, `False` and `None`, raw line breaks in strings,
and closing brackets that are missing at the end. Numbers and strings are copied as they stand.
Whatever could mean two things (a bare word, a quote within a string, a value that breaks off) is
no JSON; whoever asked asks again.

The libraries that do this guess: json-repair 0.64 reads `{"a":` as `{"a": ""}`, `{"t": 10:30}` as
`{"t": 10}`, and a number that breaks off as one that is whole. So it is done here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

MOST_DEEP = 100
"""So deep may values be nested that need mending; each level takes some of Python's stack."""
MOST_STARTS = 200
"""In so many places of a text is the beginning of a value looked for."""


class NotJSON(ValueError):
    """A text is no JSON, nor nearly. Says where and why, in words for whoever wrote it."""


def repair(text: str) -> str:
    """The JSON of one object, list or plain value that fills `text`, fence and blanks apart.

    Valid JSON comes back as it is. Raises `NotJSON`.
    """
    return mend(text)[0]


def mend(text: str, *, whole: bool = False, tried: bool = False) -> tuple[str, tuple[str, ...]]:
    """What `repair` returns, and what was mended: names such as `trailing comma`, each once.

    `whole` says that the text is known to end where it should, so that a number at its very end
    has all its digits; `tried` says that it is known to be no valid JSON. Raises `NotJSON`.
    """
    text = text.strip()
    if not tried and _is_json(text):
        return text, ()
    inside = _inside_fence(text)
    scan = _Scan(text if inside is None else inside, whole=whole)
    if inside is not None:
        scan.mended["code fence"] = None
    found = scan.value()
    if not scan.at_end():
        raise scan.failure("something follows the value")
    return found, tuple(scan.mended)


def json_values(text: str, *, cut: bool = False) -> list[str]:
    """The JSON values in a reply that may have words around them, in order.

    A text of its own may be any JSON value; among words only objects and lists are looked for,
    and if there are code fences that say `json`, only there. `cut` says that the reply was cut
    off, so that no missing bracket is added. Raises `NotJSON` where a value begins that cannot be
    read: what follows it may be part of it.
    """
    text = text.strip()
    bare = text.startswith(("{", "["))
    if not bare and (thoughts := _THOUGHTS.match(text)):
        text = text[thoughts.end() :].strip()
    inside = _inside_fence(text)
    whole = text if inside is None else inside.strip()
    if _is_json(whole):
        return [whole]
    if not _START.search(whole):
        try:
            return [repair(whole)]
        except NotJSON:
            return []
    labelled = [] if bare else [fence.end() for fence in _LABELLED.finditer(text)]
    return _in_fences(text, labelled, cut) if labelled else _among_words(text, cut)


def _in_fences(text: str, starts: list[int], cut: bool) -> list[str]:
    values: list[str] = []
    read = 0
    for start in starts:
        if start >= read:  # else it stands in a string of the value before
            scan = _Scan(text, start, cut=cut)
            values.append(scan.value())
            read = scan.at
    return values


def _among_words(text: str, cut: bool) -> list[str]:
    values: list[str] = []
    start = _START.search(text)
    for _ in range(MOST_STARTS):
        if start is None:
            break
        scan = _Scan(text, start.start(), cut=cut)
        try:
            values.append(scan.value())
        except NotJSON:
            if _TABLE.match(text, start.start()):
                raise
            scan.at = start.end()
        start = _START.search(text, scan.at)
    return values


def _inside_fence(text: str) -> str | None:
    """What stands in the code fence that is the whole of `text`; None if there is none."""
    opening = _FENCE.match(text)
    if opening is None or not text.endswith("```") or len(text) < opening.end() + 3:
        return None
    return text[opening.end() : -3].rstrip()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_FENCE = re.compile(r"```[\w-]*[ \t]*\n")
_THOUGHTS = re.compile(r"<think>.*?</think>|(?!```).*</think>\s*\n", re.DOTALL)
"""What some models begin with; the opening tag may have been part of the prompt."""
_LABELLED = re.compile(r"```json[5c]?[ \t]*\n", re.IGNORECASE)
_START = re.compile(r"[\[{]")
_TABLE = re.compile(r"""\{\s*(?:["'“{}]|//|/\*|[\w$-]+\s*:)|\[\s*(?:["'“{\[\]]|//|/\*|-?\d)""")
"""How an object or a list begins that is not just a word in brackets."""
_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_BARE_KEY = re.compile(r"[\w$][\w$-]*")
_WORD = re.compile(r"-?\w+")
_PLAIN = re.compile(r"""[^"'“”\\\x00-\x1f]+""")
_WORDS = {
    **{word: word for word in ("true", "false", "null", "NaN", "Infinity", "-Infinity")},
    "True": "true",
    "False": "false",
    "None": "null",
}
_CLOSING = {'"': '"', "'": "'", "“": "”"}
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = frozenset("\"\\/bfnrtu'")
_CONTROL_ESCAPES = frozenset("bfnrt")
_BACKSLASHES = (
    "one backslash before this text stands for itself, so `\\b`, `\\f`, `\\n`, `\\r` and `\\t` "
    "may mean two things; write each backslash twice"
)
_PYTHON_ONLY = frozenset("avxNU01234567\n")
"""What follows a backslash in Python and not in JSON: a reader of the one or the other differs."""


class _Scan:
    """Reads one value from `at` on, and writes it as JSON."""

    def __init__(self, text: str, at: int = 0, *, cut: bool = False, whole: bool = False) -> None:
        self.text, self.at, self.cut, self.whole = text, at, cut, whole
        self.path: list[str] = []
        self.mended: dict[str, None] = {}
        """What was mended, each once, in the order in which it came up."""

    def value(self) -> str:
        self.blank()
        char = self.text[self.at : self.at + 1]
        if char == "{":
            return self.group("{", "}", self.member)
        if char == "[":
            return self.group("[", "]", self.item)
        if char in _CLOSING:
            return self.string(char)
        number = _NUMBER.match(self.text, self.at)
        if number and self.ends_at(number.end()):
            self.at = number.end()
            if self.at == len(self.text) and self.path and not self.whole:
                raise self.broken_off()  # more digits may have followed
            return number.group()
        word = _WORD.match(self.text, self.at)
        if word and word.group() in _WORDS and self.ends_at(word.end()):
            self.at = word.end()
            if _WORDS[word.group()] != word.group():
                self.mended["python literals"] = None
            return _WORDS[word.group()]
        if self.at_end() or (word and word.end() == len(self.text)):
            raise self.broken_off()
        raise self.failure("text in double quotes, a number, true, false or null is expected here")

    def group(self, opening: str, closing: str, read: Callable[[int], str]) -> str:
        """An object or a list: what `read` reads, between brackets, with commas."""
        if len(self.path) == MOST_DEEP:
            raise self.failure(f"it is nested more than {MOST_DEEP} deep")
        self.at += 1
        parts: list[str] = []
        comma = False
        while True:
            self.blank()
            if self.text.startswith(closing, self.at):
                self.at += 1
                if comma:
                    self.mended["trailing comma"] = None
                break
            if self.at_end():
                raise self.broken_off()
            self.path.append("")
            parts.append(read(len(parts)))
            self.path.pop()
            self.blank()
            comma = self.text.startswith(",", self.at)
            if comma:
                self.at += 1
            elif self.at_end() and not self.cut:
                self.mended["missing brace" if closing == "}" else "missing bracket"] = None
                break  # all that is missing is the bracket
            elif self.at_end():
                raise self.broken_off()
            elif not self.text.startswith(closing, self.at):
                raise self.failure(f"`,` or `{closing}` is expected here")
        return f"{opening}{', '.join(parts)}{closing}"

    def member(self, number: int) -> str:
        char = self.text[self.at]
        if char in _CLOSING:
            key = self.string(char)
        else:
            bare = _BARE_KEY.match(self.text, self.at)
            if bare is None:
                raise self.failure("a key is expected here, in double quotes")
            self.mended["unquoted key"] = None
            key, self.at = json.dumps(bare.group(), ensure_ascii=False), bare.end()
        self.path[-1] = json.loads(key)
        self.blank()
        if not self.text.startswith(":", self.at):
            if self.at_end():
                raise self.broken_off()
            raise self.failure(f"`:` is expected here, after the key {key}")
        self.at += 1
        return f"{key}: {self.value()}"

    def item(self, number: int) -> str:
        self.path[-1] = str(number)
        return self.value()

    def string(self, opening: str) -> str:
        closing, text = _CLOSING[opening], self.text
        if opening != '"':
            self.mended["single quotes" if opening == "'" else "curly quotes"] = None
        parts = ['"']
        self.at += 1
        escapes: set[str] = set()
        while self.at < len(text):
            if plain := _PLAIN.match(text, self.at):
                parts.append(plain.group())
                self.at = plain.end()
                continue
            char = text[self.at]
            if char == closing:
                self.at += 1
                if not (escapes <= _ESCAPES or escapes.isdisjoint(_CONTROL_ESCAPES)):
                    raise self.failure(_BACKSLASHES)
                return "".join((*parts, '"'))
            if char == "\\":
                escapes.add(text[self.at + 1 : self.at + 2])
                parts.append(self.escape())
                continue
            if char == '"':
                parts.append('\\"')
            elif char < " ":
                self.mended["raw newline" if char in "\n\r" else "raw control character"] = None
                parts.append(_CONTROLS.get(char, f"\\u{ord(char):04x}"))
            else:
                parts.append(char)
            self.at += 1
        raise self.broken_off()

    def escape(self) -> str:
        """A backslash and what it stands before. One that means nothing stands for itself."""
        char = self.text[self.at + 1 : self.at + 2]
        if not char:
            raise self.broken_off()
        if char == "u":
            code = self.text[self.at + 2 : self.at + 6]
            if not re.fullmatch("[0-9a-fA-F]{4}", code):
                raise self.failure("`\\u` wants four hexadecimal digits")
            self.at += 6
            return f"\\u{code}"
        if char in _PYTHON_ONLY:
            raise self.failure(f"{self.text[self.at : self.at + 2]!r} is no escape of JSON")
        self.at += 2
        if char in '"\\/bfnrt':
            return f"\\{char}"
        if char == "'":
            return char
        self.mended["stray backslash"] = None
        return f"\\\\{char}"

    def blank(self) -> None:
        """Go over blanks and comments."""
        found = _BLANK.match(self.text, self.at)
        assert found is not None  # it matches nothing, too
        if "/" in found.group():
            self.mended["comment"] = None
        self.at = found.end()

    def at_end(self) -> bool:
        """At the end of the text, or of the code fence around the value."""
        self.blank()
        return self.at == len(self.text) or self.text.startswith("```", self.at)

    def ends_at(self, at: int) -> bool:
        """Whether a number or word may end here."""
        return at == len(self.text) or self.text[at] in ",]}:`/" or self.text[at].isspace()

    def broken_off(self) -> NotJSON:
        return NotJSON(f"It breaks off{self.where()}: a value is not finished")

    def failure(self, reason: str) -> NotJSON:
        around = self.text[max(0, self.at - 20) : self.at + 20]
        return NotJSON(f"It is no JSON{self.where()}: {reason}, at {around!r}")

    def where(self) -> str:
        path = ".".join(part for part in self.path if part)
        return f" in `{path}`" if path else ""
