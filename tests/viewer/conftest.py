"""A strict reader of HTML: what the pages are checked with."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

VOID = {"br", "hr", "img", "input", "link", "meta"}


@dataclass
class Document:
    """What a browser would make of a page."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Tag, name, value."""
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.document = Document()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.document.tags.append(tag)
        self.document.attributes += [(tag, name, value) for name, value in attrs]
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> inside <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.document.texts.append(data)


def _read(html: str) -> Document:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader.document


@pytest.fixture(scope="session")
def read_html():
    """Parse a page or a part of one; fails if tags are not balanced."""
    return _read
