"""Fenced code in a text. A fence that is never closed reaches to the end of the text."""

from __future__ import annotations

FENCE = "```"


def blocks(text: str) -> list[str]:
    """The fenced code, without the fences, and with what follows the opening one."""
    return text.split(FENCE)[1::2] if FENCE in text else []


def code_in(text: str) -> list[str]:
    """The fenced code without the lines of the fences."""
    return [block.partition("\n")[2] for block in blocks(text)]


def without_code(text: str) -> str:
    """The text without fenced code."""
    return "\n".join(text.split(FENCE)[::2]) if FENCE in text else text
