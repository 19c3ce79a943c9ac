"""Names of tools and parameters where a format writes them bare, between markers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from rolecraft.errors import UsageError

LONGEST_NAME = 256
"""No tool and no parameter has a longer name."""


def write_name(name: str) -> str:
    """A name as it stands, or as a JSON string where it could not be read back."""
    if _PLAIN.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    text = json.dumps(name).replace("<", "\\u003c").replace(">", "\\u003e")
    if len(text) > LONGEST_NAME:
        raise UsageError(f"The name {name[:40]!r}… is too long for a tool or a parameter.")
    return text


def read_name(text: str) -> str | None:
    """A name without blanks and quotes around it; None if the text can be no name."""
    text = text.strip()
    if not text or len(text) > LONGEST_NAME:
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        if text[0] == "'":
            return text[1:-1] or None
        try:
            return str(json.loads(text))
        except ValueError:
            return None
    return text if _ANY.fullmatch(text) else None


def begins_name(text: str, tools: Iterable[str] | None) -> bool:
    """Whether a text that ends here may be the beginning of a name, one of `tools` if known."""
    text = text.strip()
    if not text or tools is None:
        return not text or _BEGUN.fullmatch(text) is not None
    return any(name.startswith(text) for name in tools)


_BEGUN = re.compile(r"[\w$@#.:/+-]*[\w$@#:/+-]")
_PLAIN = re.compile(r"[\w$@#.:/+-]+(?: [\w$@#.:/+-]+)*")
_ANY = re.compile(r"[^\x00-\x1f<>{}\"'`]+")
