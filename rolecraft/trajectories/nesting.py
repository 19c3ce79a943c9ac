"""What happened within what: actions within actions, tool calls and model calls within either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.trajectories.trajectory import Trajectory

STARTS = frozenset({"action", "tool_call"})
_ENDS = frozenset({"action_result", "tool_result", "error", "limit"})
_GOES_ON = frozenset({"more_room", "use_model"})
"""What may be decided at a limit so that the turn goes on."""


def is_failure(event: Event) -> bool:
    """Whether an event says that something was raised: an error, or a limit that was kept."""
    if event.kind == "limit":
        return event.data.get("decision") not in _GOES_ON
    return event.kind == "error"


def may_end(event: Event) -> bool:
    """Whether an event ends the start that is its `cause`, if its cause is one.

    What an action says last ends it (`ends`); there is an `action_result` if it says nothing.
    """
    if event.kind == "limit":
        return is_failure(event)
    return event.kind in _ENDS or (event.kind == "message" and "ends" in event.data)


def shows_ends(trajectory: Trajectory) -> bool:
    """Whether a record shows how actions end: not one of schema version 1."""
    return any(
        event.kind == "action_result" or (event.kind == "action" and "run" in event.data)
        for event in trajectory.events
    )


def outermost(trajectory: Trajectory) -> dict[int, int | None]:
    """For each event by its `seq`: that of the outermost action or tool call it happened in.

    A start and its end are not within themselves. A record without ends of actions (schema
    version 1) shows tools within actions, and no actions within actions.
    """
    ends_shown = shows_ends(trajectory)
    roles: dict[str, _Nesting] = {}
    within: dict[int, int | None] = {}
    for event in trajectory.events:
        if event.role not in roles:
            roles[event.role] = _Nesting(shows_ends=ends_shown)
        within[event.seq] = roles[event.role].add(event)
    return within


class _Nesting:
    """One role's starts that have not ended; an event is in the one that its causes lead to."""

    def __init__(self, *, shows_ends: bool) -> None:
        self._shows_ends = shows_ends
        self._running: set[int] = set()
        self._within: dict[int, int] = {}

    def add(self, event: Event) -> int | None:
        cause = event.cause
        outer: int | None = None
        if cause is not None:
            outer = self._within.get(cause)
            if cause in self._running:
                if may_end(event):
                    self._running.discard(cause)
                elif outer is None:
                    outer = cause
        if event.kind == "action" and not self._shows_ends:
            # Here the one before, which never ended, is over; it only may have said nothing.
            outer = None
            self._running.clear()
        if event.kind in STARTS:
            self._running.add(event.seq)
        if outer is not None:
            self._within[event.seq] = outer
        return outer
