"""Markdown as far as a program that writes and measures documents must know it.

What stands in fenced code is code: no line of it is a heading or a link. Headings are lines that
begin with `#`; underlined ones are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rolecraft.actions.code_blocks import fenced_lines

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_HERE = re.compile(r"\]\(#([^)\s]*)\)")
_CODE_SPAN = re.compile(r"`[^`\n]+`")


class Section(NamedTuple):
    """A heading and the text below it, up to the next heading of any level."""

    level: int
    title: str
    text: str


def lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a fenced block (its fences do)."""
    return ((line.text, line.part != "text") for line in fenced_lines(text))


def closed(text: str) -> str:
    """`text`, with an end for a fenced block that has none: it would swallow all that follows."""
    *_, last = fenced_lines(f"{text}\n-")
    return f"{text}\n{last.fence}" if last.fence else text


def sections(text: str) -> list[Section]:
    """The sections of a document, in order; what stands before the first heading is left out."""
    found: list[Section] = []
    for line, is_code in lines(text):
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading:
            found.append(Section(len(heading[1]), heading[2], ""))
        elif found:
            level, title, body = found[-1]
            found[-1] = Section(level, title, f"{body}{line}\n")
    return found


def prose(text: str) -> str:
    """The text without code and without the marks of headings."""
    kept = (line for line, is_code in lines(text) if not is_code)
    return "\n".join(_CODE_SPAN.sub("", line.lstrip("# ")) for line in kept)


def anchors(text: str) -> set[str]:
    """What links can lead to: the anchors of the headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for section in sections(text):
        name = anchor(section.title)
        number = found.get(name, 0)
        found[name] = number + 1
        if number:
            found[f"{name}-{number}"] = 1
    return set(found)


def anchor(heading: str) -> str:
    """The anchor of a heading that no other heading equals."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(text: str) -> list[str]:
    """The links within the document that lead to no heading of it."""
    known = anchors(text)
    found = (
        target
        for line, is_code in lines(text)
        if not is_code
        for target in _HERE.findall(_CODE_SPAN.sub("", line))
    )
    return [target for target in found if target not in known]


def one_line(text: str) -> str:
    """`text` as the words of a heading: on one line, and without what would end a heading."""
    return re.sub(r"(?:(?:^| )#+)+$", "", " ".join(text.split()))


def link(words: str, heading: str) -> str:
    """A link to a heading of the same document."""
    escaped = re.sub(r"([\[\]])", r"\\\1", words)
    return f"[{escaped}](#{anchor(heading)})"


def nested(text: str, *, below: int, title: str = "") -> str:
    """`text` as part of a document: its headings start at level `below + 1`.

    A first line that is the heading `title` itself is dropped, a fence that is left open is closed.
    """
    levels = [section.level for section in sections(text)]
    rows = list(lines(closed(text.strip("\n"))))
    if rows and title:
        first = _HEADING.fullmatch(rows[0][0])
        if first and not rows[0][1] and _same(first[2], title):
            rows, levels = rows[1:], levels[1:]
    deeper = below + 1 - min(levels, default=below + 1)
    moved = [row if is_code else _deeper(row, deeper) for row, is_code in rows]
    return "\n".join(moved).strip("\n")


def _deeper(line: str, by: int) -> str:
    heading = _HEADING.fullmatch(line)
    if heading is None:
        return line
    return f"{'#' * min(6, max(1, len(heading[1]) + by))} {heading[2]}"


def _same(heading: str, title: str) -> bool:
    """True if a heading is the title, whatever number or punctuation goes with it."""
    return (
        re.sub(r"[\W\d_]", "", heading)
        .casefold()
        .endswith(re.sub(r"[\W\d_]", "", title).casefold())
    )
