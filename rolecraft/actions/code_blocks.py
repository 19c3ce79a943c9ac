"""Fenced code in what a model wrote: which lines belong to a block, and what the blocks hold.

As in CommonMark, except that a block may be indented as deeply as the list that it stands in. A
block that is never closed goes on to the end: a model that was cut off has still written code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_NO_NAME = re.compile(r"[^\w+#-]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_DEEPER = 3
"""So many columns further in a closing fence may stand; one that is deeper is text of the code."""


class Line(NamedTuple):
    """A line without its end; `fence` are the marks of the block that it is part of, if any."""

    text: str
    part: Literal["text", "opening", "code", "closing"]
    fence: str = ""


class CodeBlock(NamedTuple):
    """A block: its language as the opening fence names it, in lower case, and its lines."""

    language: str
    code: str


def fenced_lines(text: str) -> Iterator[Line]:
    """The lines of a text, and which of them are code."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    fence, depth = "", 0
    for line in lines:
        found = _FENCE.fullmatch(line)
        if not fence:
            # A back quote after an opening fence makes it a code span.
            if found and not (found["marks"][0] == "`" and "`" in found["info"]):
                fence, depth = found["marks"], len(found["indent"])
                yield Line(line, "opening", fence)
            else:
                yield Line(line, "text")
        elif (
            found
            and found["marks"].startswith(fence)
            and not found["info"].strip()
            and len(found["indent"]) <= depth + _DEEPER
        ):
            yield Line(line, "closing", fence)
            fence = ""
        else:
            yield Line(line, "code", fence)


def code_blocks(text: str) -> list[CodeBlock]:
    """The blocks of a text, in order; without the indentation that their opening fence has too."""
    found: list[tuple[str, str, list[str]]] = []
    for line in fenced_lines(text):
        if line.part == "opening":
            indent, _, info = line.text.partition(line.fence)
            found.append((info.strip(), indent, []))
        elif line.part == "code":
            _, indent, rows = found[-1]
            rows.append(line.text.removeprefix(indent))
    return [
        CodeBlock(_NO_NAME.split(info, maxsplit=1)[0].lower(), "\n".join(rows))
        for info, _, rows in found
    ]
