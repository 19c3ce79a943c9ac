"""Planted violations of watched constraints, and verifications that are none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rolecraft.failure_taxonomy import annotate
from rolecraft.failure_taxonomy.detectors import Constraints
from rolecraft.failure_taxonomy.planting import Check, Score, Script, Turn, Watched
from rolecraft.trajectories import Event, Trajectory


def _talk(draw: Any) -> list[Turn]:
    one, two = draw.role(), draw.role()
    return [Turn(draw.one_of(one, two), "Talk", says=draw.say()) for _ in range(draw.number(2, 5))]


def _kept(draw: Any, turns: list[Turn]) -> list[Watched]:
    """Some observances besides."""
    return [
        Watched(draw.number(0, len(turns) - 1), {"constraint": f"rule_{n}", "passed": True})
        for n in range(draw.number(0, 3))
    ]


# --- a constraint is violated ---------------------------------------------------------------------


def stated_in_the_event(draw: Any) -> Script:
    turns = _talk(draw)
    data = {"target": "read", "passed": False, "constraint": "asked", "mode": "task_spec"}
    return Script(turns, watched=[*_kept(draw, turns), Watched(0, data)])


def named_only(draw: Any) -> Script:
    """A constraint that says no more counts as one of the task."""
    turns = _talk(draw)
    data = {"passed": False, "constraint": "at_most_ten_words"}
    return Script(turns, watched=[Watched(len(turns) - 1, data), *_kept(draw, turns)])


def mode_from_the_header(draw: Any) -> Script:
    turns = _talk(draw)
    listed = [{"name": "no_tools", "text": "Use no tools.", "mode": "task_spec"}]
    data = {"passed": False, "constraint": "no_tools"}
    return Script(turns, constraints=listed, watched=[Watched(0, data)])


def measured_by_a_signal(draw: Any) -> Script:
    turns = _talk(draw)
    listed = [{"name": "short", "text": "Ten words.", "signal": "words", "at_most": 10}]
    value = {"name": "words", "value": float(draw.number(11, 99))}
    watched = Watched(0, value, kind="signal", role=turns[0].role)
    return Script(turns, constraints=listed, watched=[watched])


def one_kept_and_one_broken(draw: Any) -> Script:
    turns = _talk(draw)
    watched = [
        Watched(0, {"constraint": "asked", "passed": True}),
        Watched(1, {"constraint": "asked", "passed": False}),
    ]
    return Script(turns, watched=watched)


# --- none is --------------------------------------------------------------------------------------


def nothing_is_watched(draw: Any) -> Script:
    return Script(_talk(draw))


def all_are_kept(draw: Any) -> Script:
    turns = _talk(draw)
    return Script(turns, watched=[Watched(0, {"constraint": "asked", "passed": True})])


def a_failed_test_is_no_constraint(draw: Any) -> Script:
    role = draw.role()
    check = Check("tests", False)
    return Script([*_talk(draw), Turn(role, "RunTests", does=[check], says=draw.say())])


def a_bad_grade_is_no_constraint(draw: Any) -> Script:
    """A wrong answer alone breaks no rule of the task."""
    data = {"target": "answer", "passed": False}
    return Script(_talk(draw), watched=[Watched(0, data)])


def a_signal_within_bounds(draw: Any) -> Script:
    listed = [{"name": "short", "signal": "words", "at_most": 10, "at_least": 1}]
    value = {"name": "words", "value": float(draw.number(1, 10))}
    return Script(_talk(draw), constraints=listed, watched=[Watched(0, value, kind="signal")])


def a_signal_nobody_bounds(draw: Any) -> Script:
    value = {"name": "words", "value": 99.0}
    return Script(_talk(draw), watched=[Watched(0, value, kind="signal")])


def could_not_be_told(draw: Any) -> Script:
    return Script(_talk(draw), watched=[Watched(0, {"constraint": "asked", "passed": None})])


def of_another_mode(draw: Any) -> Script:
    """A rule of a role is broken; no rule of the task is."""
    data = {"constraint": "own_tools", "passed": False, "mode": "role_spec"}
    return Script(_talk(draw), watched=[Watched(0, data)])


POSITIVE = [
    stated_in_the_event,
    named_only,
    mode_from_the_header,
    measured_by_a_signal,
    one_kept_and_one_broken,
]
NEGATIVE = [
    nothing_is_watched,
    all_are_kept,
    a_failed_test_is_no_constraint,
    a_bad_grade_is_no_constraint,
    a_signal_within_bounds,
    a_signal_nobody_bounds,
    could_not_be_told,
    of_another_mode,
]


async def test_violations_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(Constraints(), "task_spec", positive=POSITIVE, negative=NEGATIVE))


async def test_a_measured_violation_of_which_nothing_can_be_quoted_is_a_finding_all_the_same() -> (
    None
):
    listed = [{"name": "short", "signal": "length", "at_most": 10}]
    signal = Event("signal", role="ada", data={"name": "length", "value": 12.0}, seq=0)
    report = await annotate(Trajectory("t", {"constraints": listed}, [signal]))
    (finding,) = report.present
    assert (finding.role, finding.events, finding.quote) == ("ada", (0,), "")
    assert finding.source == "environment"
