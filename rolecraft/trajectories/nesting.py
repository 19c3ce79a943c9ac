"""What happened within what, for tables and pictures; in every record.

`runs` says it of records that number the runs of actions. Those of schema version 1 and of other
tools have causes alone: in them an action of a role lasts until its next one, and a tool call until
its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rolecraft.trajectories.events import Event
from rolecraft.trajectories.runs import ends_run, places, starts_run

if TYPE_CHECKING:
    from rolecraft.trajectories.trajectory import Trajectory

STARTS = frozenset({"action", "tool_call"})
_GOES_ON = frozenset({"more_room", "use_model"})
"""What may be decided at a limit so that the turn goes on."""


def is_failure(event: Event) -> bool:
    """Whether an event says that something was raised: an error, or a limit that was kept."""
    if event.kind == "limit":
        return event.data.get("decision") not in _GOES_ON
    return event.kind == "error"


def may_end(event: Event) -> bool:
    """Whether an event ends the start that is its `cause`, if its cause is one.

    Beside what ends a run of an action these are results of tool calls that were only noted down,
    and failures in records that number no runs.
    """
    return ends_run(event) or event.kind == "tool_result" or is_failure(event)


def shows_runs(trajectory: Trajectory) -> bool:
    """Whether a record numbers the runs of actions, and so shows how each of them ended."""
    return any(starts_run(event) for event in trajectory.events)


def outermost(trajectory: Trajectory) -> dict[int, int | None]:
    """For each event by its `seq`: that of the outermost action or tool call it happened in.

    A start and its end are not within themselves.
    """
    return (_by_runs if shows_runs(trajectory) else _by_causes)(trajectory.events)


def _by_runs(events: Iterable[Event]) -> dict[int, int | None]:
    starts: dict[tuple[str, str], int] = {}
    within: dict[int, int | None] = {}
    for event, role, path in places(events):
        top, is_inner, _ = path.partition(".")
        if path and not is_inner and starts_run(event):
            starts[role, path] = event.seq
            within[event.seq] = None
        elif not is_inner and ends_run(event):
            within[event.seq] = None
        else:
            within[event.seq] = starts.get((role, top))
    return within


def _by_causes(events: Iterable[Event]) -> dict[int, int | None]:
    running: dict[str, set[int]] = {}
    within: dict[int, int | None] = {}
    for event in events:
        mine = running.setdefault(event.role, set())
        outer = within.get(event.cause) if event.cause is not None else None
        if event.cause in mine:
            if may_end(event):
                mine.discard(event.cause)
            elif outer is None:
                outer = event.cause
        if event.kind == "action":
            outer = None
            mine.clear()
        if event.kind in STARTS:
            mine.add(event.seq)
        within[event.seq] = outer
    return within
