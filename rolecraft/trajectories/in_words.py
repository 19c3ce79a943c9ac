"""Figures and texts as people read them: the same in tables, pictures and the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

UNKNOWN = "-"


def money(usd: float | None) -> str:
    """A price in US dollars; a dash where it is unknown."""
    if usd is None:
        return UNKNOWN
    return "$0" if usd == 0 else f"${usd:.2f}" if usd >= 1 else f"${usd:.6f}".rstrip("0")


def bill(usd: float | None, unpriced: int) -> str:
    """What calls cost, `unpriced` of them unknown: then `≥`, or a dash if nothing is known."""
    if unpriced and not usd:
        return UNKNOWN
    return f"{'≥ ' if unpriced else ''}{money(usd or 0.0)}"


def duration(seconds: float | None) -> str:
    """A time in the unit that suits it; a dash where it is unknown."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def count(number: int, thing: str, things: str = "") -> str:
    """`1 event`, `2 events`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def one_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters; an ellipsis says that there was more."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def printable(text: str) -> str:
    """`text` without what could move a terminal's cursor, ends of lines included."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def columns(text: str) -> int:
    """How wide a text is shown: two columns for a Chinese character, none for a combining mark."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def text_table(lines: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Lines of cells in columns; the first `left` columns begin, the others end, at one place."""
    widths = [max(map(columns, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            _padded(cell, width, begins=column < left)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _padded(cell: str, width: int, *, begins: bool) -> str:
    space = " " * (width - columns(cell))
    return cell + space if begins else space + cell
