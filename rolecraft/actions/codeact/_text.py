"""Text for a model to read: of bounded length, without terminal codes, with line numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.sandboxes.base import Execution

_CODES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]"
)
"""Escape sequences of terminals, also unfinished ones, and other control characters."""
_REDRAWN = re.compile(r"[^\n]*\r(?=[^\n])")
LINE_CHARACTERS = 2000


def plain(text: str) -> str:
    """What a terminal would show in the end: no codes, of a line drawn anew its last state."""
    return _REDRAWN.sub("", _CODES.sub("", text.replace("\r\n", "\n"))).replace("\r", "")


def head_and_tail(text: str, limit: int) -> str:
    """`text`, or about `limit` characters of it from both ends and a line on what is left out."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[len(text) - (limit - limit // 2) :]
    # At whole lines, where that does not cost most of it.
    head = head[: cut + 1] if (cut := head.rfind("\n")) > len(head) // 2 else f"{head}\n"
    if 0 <= (cut := tail.find("\n")) < len(tail) // 2:
        tail = tail[cut + 1 :]
    lines = text.count("\n", len(head), len(text) - len(tail))
    left_out = len(text) - len(head) - len(tail)
    return f"{head}[... {left_out} characters, {lines} lines left out here ...]\n{tail}"


def how_it_ended(done: Execution, limit: float) -> str:
    """One line for a model: what stopped a command that had `limit` seconds, or its exit code."""
    match done.failure:
        case "timeout":
            return f"[Stopped after {limit:g} seconds: out of time.]"
        case "memory":
            return "[Stopped: out of memory.]"
        case "killed":
            return f"[Killed, exit code {done.exit_code}]"
    return f"[exit code {done.exit_code}]"


def short(line: str, limit: int = LINE_CHARACTERS) -> str:
    """A line of at most `limit` characters, saying what is left out."""
    return line if len(line) <= limit else f"{line[:limit]} [... {len(line) - limit} more]"


def lines_of(text: str) -> list[str]:
    """The lines of a file's text. What ends the last line begins no other."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def numbered(lines: list[str], first: int = 1) -> str:
    """Lines as `cat -n` shows them, the first with the number `first`."""
    return "\n".join(f"{number:6}\t{short(line)}" for number, line in enumerate(lines, first))


def counted(count: int, thing: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
