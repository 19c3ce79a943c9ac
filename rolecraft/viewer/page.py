"""The page around a report: one HTML file that holds everything it needs, and no script."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from rolecraft.viewer.markup import Child, Markup, element

_NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, *body: Child) -> Markup:
    """A whole HTML document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # A trajectory holds what strangers wrote; should escaping ever fail, nothing runs.
        element("meta", http_equiv="Content-Security-Policy", content=_NOTHING_FROM_OUTSIDE),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", _style()),
    )
    return Markup(f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n")


def write_page(path: str | Path, html: str) -> Path:
    """Write a page, making the folder if need be; the path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
    return path


@cache
def _style() -> Markup:
    return Markup(resources.files("rolecraft.viewer").joinpath("style.css").read_text("utf-8"))
