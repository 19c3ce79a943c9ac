"""A trajectory: the header and the events of one run, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.trajectories.events import Event, EventKind, Signal, Usage
from rolecraft.trajectories.recorder import header

if TYPE_CHECKING:
    from rolecraft.trajectories.costs import CostTable
    from rolecraft.trajectories.role_table import RoleTable
    from rolecraft.trajectories.timings import Timing


@dataclass(slots=True)
class Trajectory:
    """The events of one run. Also a `Sink`, so that a recorder can fill it."""

    id: str = "run"
    about: dict[str, Any] = field(default_factory=dict)
    """What was known before the run: `task`, `roles`, `seed`, …"""
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Lines of its file that could not be read: file, line number and reason of each."""
    timings: dict[int, Timing] = field(default_factory=dict, repr=False, compare=False)
    """Wall times of events by `seq`, where a `Stopwatch` took them; no part of the record."""
    reported: list[Signal] = field(default_factory=list)
    """Signals that came after the run, from people mostly: kept beside the journal, which never
    changes. See `rolecraft.trajectories.append_signals`."""

    @classmethod
    def load(cls, path: Path | str) -> Trajectory:
        """Read a journal or a saved trajectory. See `rolecraft.trajectories.load`."""
        from rolecraft.trajectories.jsonl import load

        return load(path)

    def save(self, path: Path | str, *, fsync: bool = False) -> Path:
        """Write to a file, or under a free name into a folder: `rolecraft.trajectories.save`."""
        from rolecraft.trajectories.jsonl import save

        return save(self, path, fsync=fsync)

    def sequence_diagram(self, *, width: int = 60) -> str:
        """Who told whom what, as a Mermaid diagram. See `rolecraft.trajectories.diagram`."""
        from rolecraft.trajectories.diagram import sequence_diagram

        return sequence_diagram(self, width=width)

    def state_diagram(self, role: str, *, width: int = 60) -> str:
        """A role's actions as a Mermaid state diagram. See `rolecraft.trajectories.states`."""
        from rolecraft.trajectories.states import state_diagram

        return state_diagram(self, role, width=width)

    def role_table(self) -> RoleTable:
        """Calls, tokens, cost, retries and time of each role; `str()` of it is a text table."""
        from rolecraft.trajectories.role_table import role_table

        return role_table(self)

    def costs(self) -> CostTable:
        """What each role spent on which model; `str()` of it is a text table."""
        from rolecraft.trajectories.costs import costs

        return costs(self)

    def write(self, events: Sequence[Event]) -> None:
        self.events.extend(events)

    def copy(self) -> Trajectory:
        """The events so far, which later ones are not added to."""
        events, problems = list(self.events), list(self.problems)
        return Trajectory(self.id, self.about, events, problems, self.timings, list(self.reported))

    def header(self) -> dict[str, Any]:
        return header(self.id, **self.about)

    def of(self, *kinds: EventKind) -> Iterator[Event]:
        """The events of these kinds, in order."""
        return (event for event in self.events if event.kind in kinds)

    @property
    def roles(self) -> list[str]:
        """Every role that did something, in order of first appearance."""
        return list(dict.fromkeys(event.role for event in self.events if event.role))

    @property
    def signals(self) -> list[Signal]:
        """What was measured, in order: first what the record has, then what was `reported`."""
        return [*map(signal_of, self.of("signal")), *self.reported]

    @property
    def usage(self) -> Usage:
        total = Usage(calls=0)
        for event in self.events:
            if event.usage is not None:
                total = total + event.usage
        return total

    @property
    def stop_reason(self) -> str | None:
        """Why the run ended; None for a run that was cut off."""
        for event in reversed(self.events):
            if event.kind == "stop":
                return stop_reason_of(event)
        return None


def signal_event(signal: Signal) -> Event:
    """The event that records a signal; its `cause` is the event that was measured."""
    data: dict[str, Any] = {"name": signal.name, "value": signal.value}
    if signal.unit:
        data["unit"] = signal.unit
    if signal.source != "environment":
        data["source"] = signal.source
    if signal.cost is not None:
        data["cost"] = signal.cost
    return Event("signal", role=signal.role, data=data, cause=signal.step)


def signal_of(event: Event) -> Signal:
    """The signal that an event of kind `signal` records."""
    return Signal(**event.data, role=event.role, time=event.time, step=event.cause)


def stop_reason_of(event: Event) -> str | None:
    """The reason of an event of kind `stop`; None if its file did not say."""
    reason = event.data.get("reason")
    return None if reason is None else str(reason)
