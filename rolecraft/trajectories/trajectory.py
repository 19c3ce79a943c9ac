"""A trajectory: the header and the events of one run, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.trajectories.events import Event, EventKind, Signal, Usage
from rolecraft.trajectories.recorder import header


@dataclass(slots=True)
class Trajectory:
    """The events of one run. Also a `Sink`, so that a recorder can fill it."""

    id: str = "run"
    about: dict[str, Any] = field(default_factory=dict)
    """What was known before the run: `task`, `roles`, `seed`, …"""
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Lines of its file that could not be read: file, line number and reason of each."""

    def write(self, events: Sequence[Event]) -> None:
        self.events.extend(events)

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
        return [
            Signal(**event.data, role=event.role, time=event.time, step=event.cause)
            for event in self.of("signal")
        ]

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
        return next((event.data["reason"] for event in reversed(self.events) if event.kind == "stop"), None)


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
