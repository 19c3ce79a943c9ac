"""State drawings: boxes in a column, and no arrow on top of another."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.trajectories.states import State, StateMachine, Transition
from rolecraft.viewer.states import MAX_STATES, state_figure


def machine(states: dict[str, int], *ways: tuple[str | None, str | None]) -> StateMachine:
    return StateMachine(
        "Ann",
        tuple(State(name, entered) for name, entered in states.items()),
        tuple(Transition(*way, 1) for way in ways),
    )


def test_a_state_has_its_counts_in_its_box(read_html) -> None:
    shown = StateMachine(
        "Ann",
        (State("Draft", 3, failed=1), State("Check", 0)),
        (
            Transition(None, "Draft", 1),
            Transition("Draft", "Draft", 2),
            Transition("Draft", None, 1),
        ),
    )
    text = read_html(state_figure(shown)).text
    assert "Draft 3\N{MULTIPLICATION SIGN} \N{CLOCKWISE OPEN CIRCLE ARROW}2 1 failed" in text
    assert "Check never" in text


def test_a_swap_is_told_below_in_words(read_html) -> None:
    shown = StateMachine(
        "Ann",
        (State("A", 1), State("B", 1)),
        (Transition(None, "A", 1), Transition("A", "B", 1, (("B", "B", "C"),))),
    )
    html = state_figure(shown)
    assert "A \u2192 B: new list: 2 B, C" in read_html(html).text
    assert html.count("way swap") == 1


def test_a_role_with_very_many_states_shows_the_most_used(read_html) -> None:
    states = {f"S{number:03}": number for number in range(200)}
    html = state_figure(machine(states, ("S199", "S198"), ("S000", "S001")))
    text = read_html(html).text
    assert "S199" in text
    assert "S000" not in text
    assert f"{200 - MAX_STATES} states that it entered less often" in text


NAMES = st.sampled_from(["A", "B", "C", "D", "E", "F"])
WAYS = st.sets(st.tuples(st.none() | NAMES, st.none() | NAMES), max_size=20)


@settings(max_examples=100, deadline=None)
@given(WAYS)
def test_no_two_arrows_share_a_lane_where_they_would_meet(ways) -> None:
    """Each bent arrow has a vertical line of its own over the rows that it passes."""
    drawn = machine(dict.fromkeys("ABCDEF", 1), *sorted(ways, key=str))
    pattern = r'd="M[-\d.]+ ([-\d.]+)H[-\d.]+Q([-\d.]+) .*?V([-\d.]+)Q'
    figure = str(state_figure(drawn))
    found = [tuple(map(float, arrow)) for arrow in re.findall(pattern, figure)]
    assert len(found) == len(re.findall(r'd="M[^"]*H', figure)), "every bent arrow is looked at"
    lines = [(x, min(y1, y2), max(y1, y2)) for y1, x, y2 in found]
    for index, (x, top, bottom) in enumerate(lines):
        for other_x, other_top, other_bottom in lines[index + 1 :]:
            assert x != other_x or bottom < other_top or other_bottom < top


def test_a_role_that_has_not_come_to_its_end_has_no_dot_there() -> None:
    """It was cut off, or waits for a permission."""
    over = state_figure(machine({"A": 1}, (None, "A"), ("A", None)))
    waits = state_figure(machine({"A": 1}, (None, "A")))
    assert over.count("<circle") == 3
    assert waits.count("<circle") == 1
