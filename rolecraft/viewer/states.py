"""A role's states as inline SVG: one column, from the start at the top to the end at the bottom.

States stand below each other in the order in which they appeared. A way to the next one is a
straight arrow; one that skips some runs down on the right, one that goes back runs up on the left,
each in a lane of its own. Every arrow has its count; a state's way to itself is a count in its box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rolecraft.trajectories.in_words import columns, count, one_line
from rolecraft.trajectories.states import State, StateMachine, Transition, swaps_in_words
from rolecraft.viewer.markup import Markup, element

MAX_STATES = 24
"""Of a role with more, those that were entered most often are drawn."""
_ROW, _BOX, _LANE, _DOT, _MARGIN = 56, 30, 30, 7, 16
_MOST_REMARKS = 6
_CHARACTER = 7.3
"""Width of a character in pixels, on the safe side for the size that the style sheet sets."""


def state_figure(machine: StateMachine) -> Markup:
    """The machine as a drawing; swaps of the action list, and what is not drawn, in words below."""
    shown = _most_entered(machine, MAX_STATES)
    remarks = [
        element(
            "li", f"{way.source or 'start'} → {way.target or 'end'}: {swaps_in_words(way.swaps)}"
        )
        for way in shown.transitions
        if way.swaps
    ]
    if len(remarks) > _MOST_REMARKS:
        more = len(remarks) - _MOST_REMARKS + 1
        remarks[-more:] = [element("li", f"and {more} other ways on which the list was replaced")]
    if left_out := len(machine.states) - len(shown.states):
        text = f"{count(left_out, 'state')} that it entered less often, and their ways, left out"
        remarks.append(element("li", text))
    return element(
        "figure",
        element("figcaption", machine.role),
        _drawing(shown),
        element("ul", *remarks) if remarks else None,
        class_="states",
    )


def _most_entered(machine: StateMachine, most: int) -> StateMachine:
    if len(machine.states) <= most:
        return machine
    kept = set(sorted(machine.states, key=lambda state: -state.entered)[:most])
    names = {None, *(state.name for state in kept)}
    return StateMachine(
        machine.role,
        tuple(state for state in machine.states if state in kept),
        tuple(w for w in machine.transitions if w.source in names and w.target in names),
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """A transition between two rows: 0 is the start, the states follow, the last is the end."""

    source: int
    target: int
    transition: Transition

    @property
    def span(self) -> tuple[int, int]:
        return min(self.source, self.target), max(self.source, self.target)


def _drawing(machine: StateMachine) -> Markup:
    rows: dict[str, int] = {state.name: row for row, state in enumerate(machine.states, 1)}
    end = len(rows) + 1
    itself = {way.source: way.count for way in machine.transitions if way.source == way.target}
    ways = [
        _Way(
            0 if way.source is None else rows[way.source],
            end if way.target is None else rows[way.target],
            way,
        )
        for way in machine.transitions
        if way.source != way.target
    ]
    right = _lanes(way for way in ways if way.target > way.source + 1)
    left = _lanes(way for way in ways if way.target < way.source)
    boxes = [_words(state, itself.get(state.name, 0)) for state in machine.states]
    width = max([_length(box) for box in boxes], default=6) * _CHARACTER + 24
    centre = _MARGIN + max(left.values(), default=0) * _LANE + width / 2
    page = _Page(centre, width, end)
    drawn = [element("title", f"The states of {machine.role}")]
    for way in ways:
        lane = right.get(way) or -left.get(way, 0)
        drawn.append(page.bend(way, lane) if lane else page.straight(way))
    for state, words in zip(machine.states, boxes, strict=True):
        drawn += page.box(rows[state.name], words, state.entered > 0)
    drawn.append(_dot(centre, _y(0), "start"))
    if any(way.target == end for way in ways):  # else it was cut off, or waits
        drawn += [_dot(centre, _y(end), "ring"), _dot(centre, _y(end), "start", _DOT - 3)]
    across = round(centre + width / 2 + max(right.values(), default=0) * _LANE + 2 * _MARGIN)
    down = _y(end) + _MARGIN
    area = f"0 0 {across} {down}"
    return element("svg", *drawn, role="img", width=across, height=down, viewBox=area)


def _lanes(ways: Iterable[_Way]) -> dict[_Way, int]:
    """A lane for each way, from 1: short ones next to the states, none on top of another."""
    taken: list[list[tuple[int, int]]] = []
    lanes: dict[_Way, int] = {}
    for way in sorted(ways, key=lambda way: (way.span[1] - way.span[0], way.span)):
        top, bottom = way.span
        free = (
            lane
            for lane, others in enumerate(taken)
            if all(bottom < other[0] or other[1] < top for other in others)
        )
        lane = next(free, len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append(way.span)
        lanes[way] = lane + 1
    return lanes


@dataclass(frozen=True, slots=True)
class _Page:
    """Where things stand: boxes of one width around one centre, `end` is the last row."""

    centre: float
    width: float
    end: int

    def straight(self, way: _Way) -> Markup:
        top = _y(way.source) + (_BOX / 2 if way.source else _DOT)
        bottom = _y(way.target) - (_BOX / 2 if way.target < self.end else _DOT)
        path = f"M{self.centre:g} {top:g}V{bottom - 6:g}"
        head = _head(self.centre, bottom, 0, 1)
        return _arrow(way, path, head, self.centre + 8, (top + bottom) / 2 - 1, "start")

    def bend(self, way: _Way, lane: int) -> Markup:
        """An arrow around the states between; on the right if `lane` is positive."""
        side = 1 if lane > 0 else -1
        outside = self.centre + side * (self.width / 2) + lane * _LANE - side * 6
        # It leaves and enters a box on different heights, so that the two do not meet.
        begin, start = self._edge(way.source, side, side * 7)
        stop_x, stop = self._edge(way.target, side, -side * 7)
        turn = side * 9
        path = (
            f"M{begin:g} {start:g}H{outside - turn:g}"
            f"Q{outside:g} {start:g} {outside:g} {start + turn:g}V{stop - turn:g}"
            f"Q{outside:g} {stop:g} {outside - turn:g} {stop:g}H{stop_x + side * 6:g}"
        )
        head = _head(stop_x, stop, -side, 0)
        return _arrow(way, path, head, outside, (start + stop) / 2, "middle")

    def _edge(self, row: int, side: int, shift: float) -> tuple[float, float]:
        if row in (0, self.end):
            return self.centre + side * _DOT, _y(row)
        return self.centre + side * self.width / 2, _y(row) + shift

    def box(self, row: int, words: Mapping[str, str], entered: bool) -> list[Markup]:
        left, top = self.centre - self.width / 2, _y(row) - _BOX / 2
        parts = (element("tspan", f" {text}", class_=kind) for kind, text in words.items())
        return [
            element(
                "rect",
                x=f"{left:g}",
                y=f"{top:g}",
                width=f"{self.width:g}",
                height=_BOX,
                rx=7,
                class_="state" if entered else "state never",
            ),
            element(
                "text",
                *parts,
                x=f"{self.centre:g}",
                y=_y(row),
                dy="0.35em",
                text_anchor="middle",
            ),
        ]


def _words(state: State, itself: int) -> dict[str, str]:
    """What stands in a state's box, by kind."""
    words = {"name": one_line(state.name, 32)}
    if state.entered != 1 or itself or state.failed:
        words["times"] = f"{state.entered}\N{MULTIPLICATION SIGN}" if state.entered else "never"
    if itself:
        words["itself"] = f"↻{itself}"
    if state.failed:
        words["failures"] = f"{state.failed} failed"
    return words


def _length(words: Mapping[str, str]) -> int:
    return sum(1 + columns(text) for text in words.values())


def _arrow(way: _Way, path: str, head: Markup, x: float, y: float, anchor: str) -> Markup:
    transition = way.transition
    names = f"{transition.source or 'start'} → {transition.target or 'end'}"
    return element(
        "g",
        element("title", f"{names}: {transition.count}"),
        element("path", d=path),
        head,
        element(
            "text", f"{transition.count}", x=f"{x:g}", y=f"{y:g}", dy="0.35em", text_anchor=anchor
        ),
        class_="way swap" if transition.swaps else "way",
    )


def _head(x: float, y: float, right: int, down: int) -> Markup:
    """An arrow head whose point is at (x, y), in the direction given."""
    back_x, back_y = x - 8 * right, y - 8 * down
    one = f"{back_x - 4.5 * down:g},{back_y - 4.5 * right:g}"
    other = f"{back_x + 4.5 * down:g},{back_y + 4.5 * right:g}"
    return element("polygon", points=f"{x:g},{y:g} {one} {other}")


def _dot(x: float, y: int, kind: str, radius: int = _DOT) -> Markup:
    return element("circle", cx=f"{x:g}", cy=y, r=radius, class_=kind)


def _y(row: int) -> int:
    return _MARGIN + row * _ROW
