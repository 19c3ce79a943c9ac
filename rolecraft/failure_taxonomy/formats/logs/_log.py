"""A text log on its way to a trajectory: events with the lines that they stand on.

Invariant: the events come in the order of their lines, every line is accounted for, and what no
segmenter took is kept as an event without a role and named in `problems`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.failure_taxonomy.formats.chat import says_farewell
from rolecraft.failure_taxonomy.formats.lines import Lines, Part
from rolecraft.failure_taxonomy.formats.logs._dump import take_fields
from rolecraft.failure_taxonomy.view import OUTSIDE
from rolecraft.messages import ALL
from rolecraft.trajectories.events import Event, EventKind
from rolecraft.trajectories.trajectory import Trajectory

MOST_SHOWN = 10
"""So many stretches that were not segmented are named one by one."""


@dataclass(slots=True)
class Log:
    """Collects what a segmenter finds in a text. Lines are 0-based, ends not included."""

    text: str
    records: set[EventKind] = field(default_factory=set)
    """The kinds of event that this kind of log shows, whether or not they occur."""
    task: str = ""
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the log says about roles, by name, in order of first mention."""
    labels: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    """Further fields of the header."""
    warnings: list[str] = field(default_factory=list)
    lines: Lines = field(init=False)
    first: int = field(init=False)
    end: int = field(init=False)
    """The log proper: fields that stand around it, as in MAST traces, are taken out."""
    events: list[Event] = field(init=False, default_factory=list)
    """The events so far; their `seq` is provisional, and `cause` goes by it."""

    def __post_init__(self) -> None:
        self.lines = Lines(self.text)
        self.first, self.end = take_fields(self)

    def add(
        self,
        kind: EventKind,
        role: str,
        first: int,
        end: int,
        content: str | None = None,
        *,
        to: Sequence[str] = (ALL,),
        data: Mapping[str, Any] | None = None,
        cause: Event | None = None,
    ) -> Event:
        """An event that stands on these lines; its content is their text if none is given."""
        body = self.lines.text(first, end) if content is None else content
        event = Event(kind, role=role, content=body.strip("\n"), data=dict(data or {}))
        if kind == "message":
            event.to = tuple(to)
            if says_farewell(event.content):
                event.data["farewell"] = True
        if cause is not None:
            event.cause = cause.seq
        return self.place(event, first, end)

    def place(self, event: Event, first: int, end: int) -> Event:
        """Put an event on its lines."""
        event.seq = len(self.events)
        event.data["lines"] = [first + 1, max(end, first + 1)]
        self.lines.take("events", first, end)
        self.events.append(event)
        return event

    def skip(self, part: Part, first: int, end: int) -> str:
        """Account for lines that are in no event; their text."""
        self.lines.take(part, first, end)
        return self.lines.text(first, end)

    def skip_before(self, end: int) -> None:
        """What stands before the log's own first entry belongs to the header."""
        for first, stop in list(self.lines.free()):
            if first < end:
                self.lines.take("header", first, min(stop, end))

    def describe(self, role: str, **fields: Any) -> None:
        """Note what the log says about a role; what is known already stays."""
        known = self.roles.setdefault(role, {"name": role})
        for key, value in fields.items():
            if value:
                known.setdefault(key, value)

    def trajectory(self, name: str, *, where: str) -> Trajectory:
        """The trajectory. `where` names the file, for problems."""
        problems = self._keep_the_rest(where)
        self.events.sort(key=lambda event: event.data["lines"][0])  # parts of a line stay in order
        final = {event.seq: seq for seq, event in enumerate(self.events)}
        for seq, event in enumerate(self.events):
            event.seq = event.time = seq
            if event.cause is not None:
                event.cause = final[event.cause]
        seen = {event.role for event in self.events} - OUTSIDE
        for role in dict.fromkeys(event.role for event in self.events if event.role in seen):
            self.describe(role)
        about: dict[str, Any] = {
            "records": sorted(self.records | {event.kind for event in self.events}),
            "task": self.task,
            "roles": [row for role, row in self.roles.items() if role in seen or len(row) > 1],
            "labels": self.labels,
            **self.about,
            "accounting": self.lines.account(),
        }
        if self.warnings:
            about["warnings"] = list(self.warnings)
        return Trajectory(name, about, self.events, problems)

    def _keep_the_rest(self, where: str) -> list[str]:
        """Make events without a role of the lines that nobody took, and say so."""
        rest = list(self.lines.free())
        for first, end in rest:
            event = Event("message", content=self.lines.text(first, end), to=(ALL,))
            event.data |= {"lines": [first + 1, end], "unsegmented": True}
            event.seq = len(self.events)
            self.events.append(event)
        said = [f"{where}: {_span(*span)} could not be segmented" for span in rest[:MOST_SHOWN]]
        if len(rest) > MOST_SHOWN:
            more = sum(end - first for first, end in rest[MOST_SHOWN:])
            said.append(
                f"{where}: {more} further lines in {len(rest) - MOST_SHOWN} places could not be "
                "segmented"
            )
        return said


def _span(first: int, end: int) -> str:
    return f"line {end}" if end - first == 1 else f"lines {first + 1} to {end}"


def blocks(log: Log, head: re.Pattern[str]) -> list[tuple[int, int, re.Match[str]]]:
    """From each line that matches `head` up to the next one: first, end, match."""
    lines = log.lines.lines
    found = [
        (at, match)
        for at in range(log.first, log.end)
        if (match := head.fullmatch(lines[at].rstrip("\r")))
    ]
    ends = [*(at for at, _ in found), log.end][1:]
    return [(at, end, match) for (at, match), end in zip(found, ends, strict=True)]
