"""Charts as inline SVG and HTML: no script, no library, readable in the light and in the dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rolecraft.viewer.markup import Markup, element, join

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 44


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: points `(x, y)`, x ascending. `muted` draws it thin and pale."""

    name: str
    points: Sequence[tuple[float, float]]
    muted: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A dashed horizontal line at `y`, with what it stands for."""

    name: str
    y: float


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that span `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] = (0.0, 1.0),
    levels: Sequence[Level] = (),
    whole: bool = False,
    dashes: bool = False,
) -> Markup:
    """Lines over x with axes, grid and legend. `title` is what a screen reader says.

    `whole` marks x at whole numbers only. With `dashes` up to 16 lines differ in colour or dash,
    and those that lie upon each other are all seen.
    """
    points = [point for line in series for point in line.points if _finite(point)]
    if not points:
        return element("p", "Nothing to draw: there are no points.", class_="quiet")
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    if x_low == x_high:
        x_low, x_high = x_low - 0.5, x_high + 0.5
    y_low, y_high = y_range

    def across(x: float) -> str:
        return f"{_LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT):.1f}"

    def down(y: float) -> str:
        share = (min(max(y, y_low), y_high) - y_low) / (y_high - y_low)
        return f"{_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    drawn: list[Markup] = [element("title", title)]
    for y in ticks(y_low, y_high):
        drawn.append(_line(_LEFT, down(y), _WIDTH - _RIGHT, down(y), "grid"))
        drawn.append(_label(_LEFT - 8, down(y), f"{y:g}", "end", shift="0.35em"))
    drawn += [
        _label(across(x), _HEIGHT - _BOTTOM + 18, f"{x:g}", "middle")
        for x in ticks(x_low, x_high, about=8)
        if not whole or x == round(x)
    ]
    drawn.append(_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
    drawn.append(_label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, x_label, "middle"))
    for level in levels:
        drawn.append(_line(_LEFT, down(level.y), _WIDTH - _RIGHT, down(level.y), "level"))
        drawn.append(_label(_WIDTH - _RIGHT - 4, down(level.y), level.name, "end", shift="-0.4em"))
    # Pale lines first, so that the ones that matter lie on top of them, and those with gaps last.
    dash = [_dash(index) if dashes else None for index in range(len(series))]
    for index, line in sorted(
        enumerate(series), key=lambda pair: (not pair[1].muted, dash[pair[0]] or "")
    ):
        path = " ".join(f"{across(x)},{down(y)}" for x, y in line.points if _finite((x, y)))
        weight = "muted" if line.muted else "strong"
        drawn.append(
            element(
                "polyline",
                points=path,
                class_=f"line c{index % 4} {weight}",
                stroke_dasharray=dash[index],
            )
        )
    figure = element("svg", *drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", class_="chart")
    legend = join(
        element("span", _key(index, dash[index], dashes=dashes), line.name)
        for index, line in enumerate(series)
    )
    return element(
        "figure",
        element("figcaption", element("span", y_label, class_="axis-name"), legend),
        figure,
        class_="plot",
    )


def bar_pairs(
    rows: Sequence[tuple[str, float, float]], *, names: tuple[str, str], head: str
) -> Markup:
    """A table with two bars a row, `names[0]` above `names[1]`, on one scale."""
    top = max((value for _, *pair in rows for value in pair if value > 0), default=1.0)

    def bar(value: float, which: int) -> Markup:
        width = f"{max(value, 0) / top * 100:.2f}%"
        return element(
            "svg",
            element("rect", width=width, height="100%", rx="2"),
            class_=f"bar c{which}",
            role="img",
            aria_label=f"{names[which]}: {value:g}",
        )

    body = [
        element(
            "tr",
            element("th", label, scope="row"),
            element("td", bar(before, 0), bar(after, 1), class_="bars"),
            element("td", f"{before:g}", class_="num"),
            element("td", f"{after:g}", class_="num"),
        )
        for label, before, after in rows
    ]
    keys = [
        element("th", element("i", class_=f"key c{index}"), name, class_="num")
        for index, name in enumerate(names)
    ]
    headings = element("tr", element("th", head), element("th", class_="bars"), *keys)
    return element(
        "div",
        element("table", element("thead", headings), element("tbody", *body)),
        class_="scroll",
    )


_DASHES = (None, "9 7", "2 6", "14 5 2 5")


def _dash(index: int) -> str | None:
    """The dash of a line: with its colour, one of four in turn, it is no other's of 16."""
    return _DASHES[(index + index // 4) % 4]


def _key(index: int, dash: str | None, *, dashes: bool) -> Markup:
    if not dashes:
        return element("i", class_=f"key c{index % 4}")
    line = element(
        "line", x1=0, x2=30, y1=5, y2=5, class_=f"line strong c{index % 4}", stroke_dasharray=dash
    )
    return element("svg", line, width=30, height=10, aria_hidden="true")


def _finite(point: tuple[float, float]) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])


def _line(x1: float | str, y1: float | str, x2: float | str, y2: float | str, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _label(
    x: float | str, y: float | str, text: str, anchor: str, *, shift: str | None = None
) -> Markup:
    return element("text", text, x=x, y=y, text_anchor=anchor, dy=shift)
