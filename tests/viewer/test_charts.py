"""Charts: what is drawn stands where its value says."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.viewer.charts import Level, Series, bar_pairs, line_chart, ticks

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 59, [0, 20, 40]),
        (3, 3, [3]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@given(FINITE, st.floats(1e-3, 1e6))
def test_ticks_lie_within_the_range_and_are_few(low, span):
    marks = ticks(low, low + span)
    assert 1 <= len(marks) <= 8
    assert all(low - span * 1e-6 <= mark <= low + span * (1 + 1e-6) for mark in marks)


def chart(points, **options) -> str:
    return line_chart(
        [Series("reward", points)], title="Reward", x_label="step", y_label="mean", **options
    )


def line_of(html: str) -> list[tuple[float, float]]:
    drawn = re.search(r'points="([^"]*)"', html)
    assert drawn is not None
    return [tuple(map(float, pair.split(","))) for pair in drawn.group(1).split()]


def test_a_line_rises_with_its_values_and_runs_to_the_right(read_html):
    html = chart([(0, 0.2), (10, 0.5), (20, 1.0)])
    read_html(html)
    points = line_of(html)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    # Even distances of x are drawn evenly.
    assert points[1][0] - points[0][0] == pytest.approx(points[2][0] - points[1][0], abs=0.2)


def test_values_outside_the_range_are_drawn_at_its_edge():
    low, middle, high = (y for _, y in line_of(chart([(0, -5.0), (1, 0.5), (2, 7.0)])))
    edges = [y for _, y in line_of(chart([(0, 0.0), (1, 0.5), (2, 1.0)]))]
    assert [low, middle, high] == edges


def test_points_that_are_no_numbers_are_left_out():
    assert len(line_of(chart([(0, 0.1), (1, math.nan), (2, math.inf), (3, 0.4)]))) == 2


@pytest.mark.parametrize("points", [[], [(0, math.nan)]])
def test_a_chart_without_points_says_so(points):
    assert "no points" in chart(points)


def test_a_single_point_can_be_drawn(read_html):
    read_html(chart([(5, 0.5)]))


def test_names_and_levels_are_written_and_escaped(read_html):
    html = line_chart(
        [Series("<a>", [(0, 0), (1, 1)]), Series("second", [(0, 1), (1, 0)], muted=True)],
        title="T",
        x_label="x",
        y_label="y",
        levels=[Level("chance & more", 0.2)],
    )
    text = read_html(html).text
    assert "<a>" in text
    assert "second" in text
    assert "chance & more" in text


def test_bars_are_as_long_as_their_values_on_one_scale(read_html):
    html = bar_pairs([("a", 10, 5), ("b", 0, 2.5)], names=("before", "after"), head="mode")
    read_html(html)
    assert re.findall(r'<rect width="([\d.]+)%"', html) == ["100.00", "50.00", "0.00", "25.00"]


def test_bars_of_nothing_but_zeros_are_empty():
    html = bar_pairs([("a", 0, 0)], names=("before", "after"), head="mode")
    assert re.findall(r'<rect width="([\d.]+)%"', html) == ["0.00", "0.00"]


def test_whole_numbers_on_the_axis_and_equal_lines_that_are_both_seen(read_html):
    """Lines that are told apart have no colour and dash together; what has gaps lies on top."""
    lines = [Series(f"line {at}", [(1, 0.5), (2, 0.5)]) for at in range(9)]
    html = line_chart(lines, title="t", x_label="k", y_label="y", whole=True, dashes=True)
    document = read_html(html)
    assert "1.2" not in document.texts
    assert {"1", "2"} <= set(document.texts)
    drawn = re.findall(r'<polyline points="[^"]*" class="line (c\d) strong"([^>]*)>', html)
    assert len(set(drawn)) == len(drawn) == 9
    with_gaps = ["dasharray" in more for _, more in drawn]
    assert with_gaps == sorted(with_gaps)
