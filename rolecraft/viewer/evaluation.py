"""An evaluation as a web page: who succeeds how often, within which bounds, and for how much.

Invariant: what is drawn as a point has its interval drawn too, and what has none is said to have
none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rolecraft.experiments.broke_off import broke_off
from rolecraft.experiments.evaluation_page import (
    CONTRASTS,
    cells,
    contrast_cells,
    failure_head,
    failure_rows,
    failures_how,
    head,
    how,
    stop_head,
    stop_rows,
)
from rolecraft.viewer.charts import Series, line_chart, ticks
from rolecraft.viewer.markup import Child, Markup, element, table
from rolecraft.viewer.page import page

if TYPE_CHECKING:
    from rolecraft.experiments.evaluation import Evaluation, Measured

_WIDTH, _ROW = 720, 30
_NAME, _SAID = 260, 130
"""Room for names on the left and for figures on the right."""


def evaluation_page(evaluation: Evaluation) -> Markup:
    """A self-contained HTML page."""
    body: list[Child] = [element("h1", "Evaluation")]
    body += [element("p", element("strong", *_prose(text))) for text in evaluation.warnings]
    body += [
        whiskers(evaluation.rows, binary=evaluation.binary),
        table(head(evaluation), [cells(row, evaluation) for row in evaluation.rows], numeric=1),
    ]
    if evaluation.binary and len(evaluation.ks) > 2:
        body += [element("h2", "With more attempts"), _pass_at(evaluation)]
    if evaluation.contrasts:
        rows = [contrast_cells(each, evaluation) for each in evaluation.contrasts]
        body += [element("h2", "Differences"), table(CONTRASTS, rows, numeric=2)]
    if evaluation.failures:
        body.append(element("h2", "Failures"))
        if listed := failure_rows(evaluation):
            body.append(table(failure_head(evaluation), listed, numeric=1))
        body.append(element("p", *_prose(failures_how(evaluation)), class_="quiet"))
    if ended := stop_rows(evaluation):
        body += [
            element("h2", "How runs ended"),
            table(stop_head(evaluation), ended, numeric=1),
        ]
    if evaluation.errors:
        body.append(element("h2", "Runs that broke off"))
        said = (each.in_words() for each in broke_off(evaluation.errors))
        body.append(element("ul", *(element("li", *_prose(text)) for text in said)))
    body.append(element("h2", "How it was measured"))
    body += [element("p", *_prose(text)) for text in how(evaluation)]
    return page("Evaluation", element("main", *body))


def _prose(text: str) -> list[Child]:
    """Text with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one without its other is a backtick
        return [text]
    return [element("code", part) if at % 2 else part for at, part in enumerate(parts)]


def whiskers(rows: Sequence[Measured], *, binary: bool) -> Markup:
    """A point and its 95 % interval for each entry, on one scale."""
    known = [row.success for row in rows if row.success.value is not None]
    ends = [end for mean in known for end in (mean.low, mean.high, mean.value) if end is not None]
    if not ends:
        return element("p", "Nothing to draw: no run came to its end.", class_="quiet")
    low, high = (0.0, 1.0) if binary else (min(ends), max(ends))
    if low == high:
        low, high = low - 0.5, high + 0.5

    def across(value: float) -> str:
        share = (value - low) / (high - low)
        return f"{_NAME + share * (_WIDTH - _NAME - _SAID):.1f}"

    bottom = _ROW * len(rows) + 8
    what = "success" if binary else "reward"
    drawn: list[Markup] = [element("title", f"Mean {what} of each, with its 95 % interval")]
    for tick in ticks(low, high):
        x = across(tick)
        label = f"{tick:.0%}" if binary else f"{tick:g}"
        drawn.append(element("line", x1=x, x2=x, y1=4, y2=bottom, class_="grid"))
        drawn.append(element("text", label, x=x, y=bottom + 16, text_anchor="middle"))
    for at, row in enumerate(rows):
        y = at * _ROW + _ROW / 2 + 4
        name = row.name if len(row.name) <= 40 else f"{row.name[:39]}…"
        drawn.append(element("text", name, x=_NAME - 10, y=y + 4, text_anchor="end", class_="name"))
        drawn += _whisker(row, y, across, binary=binary)
    return element(
        "figure",
        element(
            "svg",
            *drawn,
            viewBox=f"0 0 {_WIDTH} {bottom + 24}",
            role="img",
            class_="chart failures",
        ),
        class_="plot",
    )


def _whisker(
    row: Measured, y: float, across: Callable[[float], str], *, binary: bool
) -> list[Markup]:
    found = row.success
    colour = f"c{('team', 'single', 'best-of-n', 'vote').index(row.form)}"
    said = element("text", "nothing known", x=_WIDTH - _SAID + 10, y=y + 4)
    if found.value is None:
        return [said]
    value = f"{found.value:.1%}" if binary else f"{found.value:.3g}"
    drawn: list[Markup] = []
    if found.low is not None and found.high is not None:
        bounds = f"{found.low:.1%} to {found.high:.1%}" if binary else ""
        left, right = across(found.low), across(found.high)
        drawn.append(element("line", x1=left, x2=right, y1=y, y2=y, class_=f"line strong {colour}"))
        about = f"{row.name}: {value}, 95 % from {bounds}; {found.tasks} tasks"
    else:
        about = f"{row.name}: {value}, no interval; {found.tasks} tasks"
        value += ", no interval"
    drawn.append(
        element(
            "circle",
            element("title", about),
            cx=across(found.value),
            cy=y,
            r=5,
            class_=f"fill {colour}",
        )
    )
    drawn.append(
        element(
            "text", f"{value}, n = {found.tasks}", x=_WIDTH - _SAID + 10, y=y + 4, class_="said"
        )
    )
    return drawn


def _pass_at(evaluation: Evaluation) -> Markup:
    series = [
        Series(
            row.name,
            [(k, mean.value) for k, mean in row.pass_at.items() if mean.value is not None],
        )
        for row in evaluation.rows
    ]
    return line_chart(
        series,
        title="pass@k over k",
        x_label="attempts, k",
        y_label="pass@k",
        y_range=(0.0, 1.0),
        whole=True,
        dashes=True,
    )
