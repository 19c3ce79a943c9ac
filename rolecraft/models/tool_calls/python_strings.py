"""Python's string literals: where one ends in a text that is still growing, and what it says."""

from __future__ import annotations

import re
import unicodedata

from rolecraft.models.tool_calls.json_span import escaped
from rolecraft.models.tool_calls.source import Reading, Source

PREFIXES = frozenset(("", "u", "r", "b", "br", "rb", "f", "fr", "rf"))


class NoString(ValueError):
    """What looks like a string is none that has one meaning. Says why."""


def read_string(source: Source, quote: str, into: list[str]) -> Reading[str | None]:
    """Read the rest of a string, of which one `quote` was read, up to its end.

    What was read goes to `into`. Returns what stands between the quotes, as it was written; None
    if the text ends before the string does.
    """
    if not (yield from _enough(source, 1)):
        return None
    end = 1
    if source.text[source.at] == quote:
        if (yield from _enough(source, 2)) and source.text[source.at + 1] == quote:
            into.append(quote * 2)
            source.at += 2
            end = 3
        else:
            into.append(quote)
            source.at += 1
            return ""
    written = len(into)
    while True:
        text, at = source.text, source.at
        found = text.find(quote, at)
        if found < 0:
            into.append(text[at:])
            source.at = len(text)
            if source.ended:
                return None
            yield from source.sleep(quote, into)
            continue
        into.append(text[at:found])
        source.at = found
        if end == 3 and not escaped(into):
            if not (yield from _enough(source, 3)):
                into.append(source.text[source.at :])
                source.at = len(source.text)
                return None
            if source.text.startswith(quote * 3, source.at):
                break
        elif not escaped(into):
            break
        into.append(quote)
        source.at += 1
    inside = "".join(into[written:])
    into.append(quote * end)
    source.at += end
    return inside


def _enough(source: Source, count: int) -> Reading[bool]:
    """Whether so many characters follow."""
    while len(source.text) - source.at < count:
        if source.ended:
            return False
        yield
    return True


def string_value(prefix: str, inside: str) -> str:
    """What a string says that was written with this prefix. Raises `NoString`."""
    prefix = prefix.lower()
    if "f" in prefix and ("{" in inside or "}" in inside):
        raise NoString("a string with `{}` to fill in is no literal")
    return inside if "r" in prefix or "\\" not in inside else _ESCAPE.sub(_meaning, inside)


def _meaning(found: re.Match[str]) -> str:
    """What an escape stands for. One that means nothing stands for itself."""
    escape = found[0]
    kind = escape[1]
    if kind in _ESCAPES:
        return _ESCAPES[kind]
    if kind in "01234567":
        return chr(int(escape[1:], 8))
    if kind in "xuU" and len(escape) > 2:
        code = int(escape[2:], 16)
        return chr(code) if code <= _LAST_CODE else escape
    if kind == "N" and len(escape) > 2:
        try:
            return unicodedata.lookup(escape[3:-1])
        except KeyError:
            return escape
    return escape


_ESCAPE = re.compile(
    r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^{}\n]{1,100}\}|.)",
    re.DOTALL,
)
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
_LAST_CODE = 0x10FFFF
