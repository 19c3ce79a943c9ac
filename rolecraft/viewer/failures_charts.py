"""Plots of failures as inline SVG: the modes over the stages of a run, groups, and correlations.

After the figures of the study (arXiv 2503.13657): its taxonomy with stages, its distribution by
system, its two correlation matrices. What was not judged has a look of its own, never that of zero.
"""

from __future__ import annotations

from rolecraft.failure_taxonomy.distribution import Correlation, Count, Distribution, Group
from rolecraft.failure_taxonomy.modes import MODES, Category, Stage
from rolecraft.viewer.markup import Markup, element
from rolecraft.viewer.reading import percent

_WIDTH = 720
_ROW = 26
_NAME = 214
"""Room for names on the left."""


def colour_of(category: Category) -> str:
    """The class of a category's colour."""
    return f"c{list(Category).index(category)}"


def key(group: Group) -> Markup:
    """The legend of the categories, with their shares of all failures."""
    whole = group.failures or 1
    return element(
        "figcaption",
        *(
            element(
                "span",
                element("i", class_=f"key {colour_of(each)}"),
                f"{each} {percent(n / whole)}",
            )
            for each, n in group.categories.items()
        ),
    )


def share_of(counted: Count) -> str:
    """`1 of 40`, with `+4` for what others added who only find; empty where nobody decided."""
    present, judged = counted.decided
    share = f"{present} of {judged}" if judged else ""
    return f"{share} +{counted.added}".strip() if counted.added else share


def stages(group: Group) -> Markup:
    """Each mode as a bar over the stages in which it can arise, with its share of all failures."""
    top, width = 30, (_WIDTH - _NAME) / len(Stage)
    order = list(Stage)
    drawn: list[Markup] = [element("title", "Failure modes over the stages of a run")]
    for index, stage in enumerate(order):
        middle = _NAME + (index + 0.5) * width
        drawn.append(_text(middle, 14, f"{stage} ({group.stage(stage)})", "middle"))
    rows = [mode for mode in MODES if mode in group.modes]
    height = top + _ROW * len(rows) + 6
    for index in range(len(order) + 1):
        x = _NAME + index * width
        drawn.append(element("line", x1=x, x2=x, y1=22, y2=height - 4, class_="grid"))
    for at, mode in enumerate(rows):
        y = top + at * _ROW
        described, count = MODES[mode], group.modes[mode]
        first = order.index(described.stages[0])
        last = order.index(described.stages[-1])
        share = group.share(mode)
        drawn.append(_text(_NAME - 10, y + 16, mode, "end", shown="name"))
        if count.judged:
            look = "stage" if count.present else "stage none"
            said = f"{share:.1%}" if share else "0"
        else:
            look, said = "stage unjudged", "not judged"
        said = f"{said} · {share_of(count)}" if count.judged else said
        drawn.append(
            element(
                "rect",
                element("title", f"{described.name}: {said}"),
                x=f"{_NAME + first * width + 4:.1f}",
                y=y + 2,
                width=f"{(last - first + 1) * width - 8:.1f}",
                height=_ROW - 5,
                rx=4,
                class_=f"{look} {colour_of(described.category)}",
            )
        )
        middle = _NAME + (first + last + 1) / 2 * width
        drawn.append(_text(middle, y + 16.5, said, "middle", shown="said"))
    return _figure(drawn, height, key(group))


def groups(found: Distribution) -> Markup:
    """For each group its failures a trace, stacked by category."""
    rows = found.groups
    top = max((group.failures / group.traces for group in rows), default=0) or 1.0
    room = _WIDTH - _NAME - 200
    drawn: list[Markup] = [element("title", f"Failures per trace by {found.by}")]
    for at, group in enumerate(rows):
        y = at * (_ROW + 4) + 6
        drawn.append(_text(_NAME - 10, y + 16, _short(group.name), "end", shown="name"))
        x = float(_NAME)
        for category, failures in group.categories.items():
            width = failures / group.traces / top * room
            if failures:
                drawn.append(
                    element(
                        "rect",
                        element("title", f"{category}: {failures} failures"),
                        x=f"{x:.1f}",
                        y=y,
                        width=f"{width:.1f}",
                        height=_ROW - 2,
                        class_=f"fill {colour_of(category)}",
                    )
                )
            x += width
        unknown = percent(group.unknown_share)
        said = f"{group.failures / group.traces:.2f} a trace, {unknown} not judged"
        drawn.append(_text(x + 8, y + 16, said, "start"))
    return _figure(drawn, len(rows) * (_ROW + 4) + 10, key(found.whole))


def heat(found: Correlation, *, title: str, wide: bool = False) -> Markup:
    """A correlation matrix; a cell without a number has too few traces, or no variation."""
    left = 330 if wide else _NAME
    names = found.names
    size = min(110.0, (_WIDTH - left - 4) / max(1, len(names)))
    height = 34.0 if wide else size
    drawn: list[Markup] = [element("title", title)]
    for row, one in enumerate(names):
        y = row * height
        label = one if wide else f"{row + 1}  {one}"
        drawn.append(_text(left - 10, y + height / 2 + 4, label, "end", shown="name"))
        for column, other in enumerate(names[: row + 1]):
            x = left + column * size
            value, traces = found.values[one, other], found.traces[one, other]
            said = "not known" if value is None else f"{value:.2f}"
            look = "cell none" if value is None else f"cell {'c1' if value >= 0 else 'c0'}"
            drawn.append(
                element(
                    "rect",
                    element("title", f"{one} and {other}: {said}, {traces} traces"),
                    x=f"{x + 1:.1f}",
                    y=f"{y + 1:.1f}",
                    width=f"{size - 2:.1f}",
                    height=f"{height - 2:.1f}",
                    fill_opacity=None if value is None else f"{abs(value):.2f}",
                    class_=look,
                )
            )
            text = "-" if value is None else f"{value:.2f}".replace("0.", ".", 1)
            strong = "value strong" if value is not None and abs(value) > 0.55 else "value"
            middle = x + size / 2
            drawn.append(_text(middle, y + height / 2 + 4, text, "middle", shown=strong))
    bottom = len(names) * height + 16
    for column, name in enumerate(names):
        label = name.partition(" ")[0] if wide else str(column + 1)
        drawn.append(_text(left + (column + 0.5) * size, bottom, label, "middle"))
    return _figure(drawn, bottom + 8, None)


def _figure(drawn: list[Markup], height: float, caption: Markup | None) -> Markup:
    picture = element(
        "svg", *drawn, viewBox=f"0 0 {_WIDTH} {height:g}", role="img", class_="chart failures"
    )
    return element("figure", caption, picture, class_="plot")


def _text(x: float, y: float, text: str, anchor: str, *, shown: str | None = None) -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=shown)


def _short(name: str, length: int = 30) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"
