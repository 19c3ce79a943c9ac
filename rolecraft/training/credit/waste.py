"""Turns that were wasted: what they said was taken up by nobody, or they did again what was done.

Only what the record shows counts. A message is taken up if something later happened because of it,
or if a role that it reached acted later. One after which nobody else acted had no chance to be: it
is no waste. What counts as done again is what the failure taxonomy calls a repetition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.detectors.repetition import repeated_runs
from rolecraft.failure_taxonomy.view import OUTSIDE, TraceView
from rolecraft.messages import ALL, NOBODY, SELF, USER
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Communication:
    """What talking costs: `turn` off the reward for each wasted turn, at most `most` an attempt.

    `most` is to be less than what success pays: else silence would pay better.
    """

    turn: float = 0.02
    most: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.turn <= self.most < math.inf:
            raise UsageError(
                f"`Communication` wants 0 < turn <= most, got turn {self.turn!r} and most "
                f"{self.most!r}."
            )


class Wasted(NamedTuple):
    """A deed that need not have been."""

    event: int
    """Sequence number of the message, or of the step that was done again."""
    role: str
    why: Literal["ignored", "repeated"]


def wasted(trajectory: Trajectory) -> list[Wasted]:
    """The wasted deeds of a run, in order."""
    view = TraceView(trajectory)
    found = [
        Wasted(view.events[step.start].seq, step.role, "repeated")
        for run in repeated_runs(view)
        for step in run[1:]
    ]
    known = {deed.event for deed in found}
    found += [deed for deed in _ignored(view) if deed.event not in known]
    return sorted(found)


def _ignored(view: TraceView) -> Iterator[Wasted]:
    causes = {
        event.cause
        for event in view.events
        if event.cause is not None and event.kind not in ("signal", "verify", "stop")
    }
    last: dict[str, int] = {}
    for at, event in enumerate(view.events):
        if event.role not in OUTSIDE and event.kind in ("action", "model_call"):
            last[event.role] = at
    watching = {
        str(role["name"]): frozenset(map(str, role["watch"]))
        for role in view.described
        if role.get("name") and isinstance(role.get("watch"), (list, tuple))
    }
    for at, event in enumerate(view.events):
        if event.kind != "message" or event.role in OUTSIDE or event.seq in causes:
            continue
        if event.to and set(event.to) <= {USER, NOBODY, SELF}:
            continue  # said to nobody of the team
        later = {role for role, acted in last.items() if acted > at and role != event.role}
        if later and not later & _reached(view, event, watching):
            yield Wasted(event.seq, event.role, "ignored")


def _reached(view: TraceView, message: Event, watching: dict[str, frozenset[str]]) -> set[str]:
    """The roles that hear a message: those it is addressed to, and for all, who watches its cause.

    Where the record does not say what a role watches, it is taken to hear everything.
    """
    named = view.receivers(message)
    if named is not None:
        return set(named)
    cause = str(message.data.get("cause_by", ""))
    if not cause or set(message.to) - {ALL}:
        return set(view.team)
    return {role for role in view.team if role not in watching or cause in watching[role]}
