"""HTML by construction: text is escaped, tags are balanced.

Invariant: a plain `str` never becomes markup, wherever it is put; only `Markup` does, and only
`element` and `join` make it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""What HTML text cannot hold: control characters, lone surrogates, noncharacters."""


class Markup(str):
    """HTML that may stand in a page as it is."""

    __slots__ = ()


Child = str | int | float | None


def escape(text: str) -> Markup:
    """`text` as HTML that shows it; characters that HTML cannot hold show as U+FFFD."""
    return Markup(html.escape(_NO_TEXT.sub("\ufffd", text), quote=True))


def join(children: Iterable[Child], separator: str = "") -> Markup:
    """Children one after the other; what is not `Markup` is escaped, None is left out."""
    return Markup(
        escape(separator).join(
            child if isinstance(child, Markup) else escape(str(child))
            for child in children
            if child is not None
        )
    )


def element(tag: str, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """`<tag attributes>children</tag>`.

    `class_` stands for `class`, and `_` for `-` (`stroke_width`). An attribute that is None or
    False is left out, True is written as its bare name.
    """
    opening = tag
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        opening += f" {name}" if value is True else f' {name}="{escape(str(value))}"'
    if tag in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def table(head: Iterable[Child], rows: Iterable[Iterable[Child]], *, numeric: int = 99) -> Markup:
    """A table; columns from number `numeric` on (0-based) are figures and stand to the right."""

    def cells(tag: str, row: Iterable[Child]) -> Markup:
        return join(
            element(tag, cell, class_="num" if column >= numeric else None)
            for column, cell in enumerate(row)
        )

    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", cells("th", head))),
            element("tbody", *(element("tr", cells("td", row)) for row in rows)),
        ),
        class_="scroll",
    )
