"""The traces that are to be labelled.

Invariant: a trace is known by a digest of what its events say, so labels find their trace again
under another path, and never stick to a trace whose events have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.evidence import quotable, verified
from rolecraft.failure_taxonomy.formats import read_all, trace_files
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories import Event, FailureFinding, Trajectory
from rolecraft.viewer.reading import Step, described_roles, steps, task_of

SHOWN = 6_000
"""Characters of an event's text that are shown at first; the rest comes when it is asked for."""


@dataclass
class OpenTrace:
    """One trace, with what a page shows of it. Positions are indices into its events."""

    key: str
    name: str
    trajectory: Trajectory

    @cached_property
    def by_seq(self) -> Mapping[int, Event]:
        return {event.seq: event for event in self.trajectory.events}

    @cached_property
    def steps(self) -> list[Step]:
        return steps(self.trajectory)

    @cached_property
    def roles(self) -> list[str]:
        """Everyone who did something or is described, in order of first appearance."""
        described = [
            str(role["name"]) for role in described_roles(self.trajectory) if "name" in role
        ]
        return list(dict.fromkeys([*self.trajectory.roles, *described]))

    @cached_property
    def silent(self) -> frozenset[str]:
        """Roles that said and did nothing."""
        return TraceView(self.trajectory).silent

    def about(self) -> dict[str, Any]:
        """What stands above the events; never the labels that the trace's file came with."""
        return {
            "key": self.key,
            "name": self.name,
            "format": str(self.trajectory.about.get("format") or ""),
            "task": task_of(self.trajectory),
            "roles": [
                {
                    "name": str(role.get("name") or ""),
                    "text": "\n".join(
                        str(role[field])
                        for field in ("profile", "goal", "constraints", "system")
                        if role.get(field)
                    ),
                }
                for role in described_roles(self.trajectory)
            ],
            "problems": self.trajectory.problems[:50],
        }

    def index(self) -> dict[str, Any]:
        """Of every event its number, role and kind: columns, since there may be many."""
        events = self.trajectory.events
        kinds = list(dict.fromkeys(event.kind for event in events))
        roles = list(dict.fromkeys(event.role for event in events))
        kind_at = {kind: at for at, kind in enumerate(kinds)}
        role_at = {role: at for at, role in enumerate(roles)}
        return {
            "kinds": kinds,
            "roles": roles,
            "names": self.roles,
            "seq": [event.seq for event in events],
            "kind": [kind_at[event.kind] for event in events],
            "role": [role_at[event.role] for event in events],
        }

    def rows(self, start: int, count: int) -> list[dict[str, Any]]:
        """The events from position `start` on, long ones cut to their first `SHOWN` characters."""
        stop = min(start + count, len(self.trajectory.events))
        return [self._row(at) for at in range(max(start, 0), stop)]

    def _row(self, at: int) -> dict[str, Any]:
        event, step = self.trajectory.events[at], self.steps[at]
        text = quotable(event)
        row: dict[str, Any] = {
            "at": at,
            "seq": event.seq,
            "role": event.role,
            "kind": event.kind,
            # Who listens is known in our own runs only.
            "label": "says" if step.label.startswith("says (") else step.label[:200],
            "text": text[:SHOWN],
            "length": len(text),
        }
        if step.receivers:
            row["to"] = list(step.receivers)
        if event.cause is not None:
            row["cause"] = event.cause
        if not text and step.text:
            row["aside"] = step.text[:SHOWN]
        return row

    def text(self, at: int) -> str:
        """The whole text of the event at a position. Raises `IndexError` if there is none."""
        if at < 0:
            raise IndexError(at)
        return quotable(self.trajectory.events[at])

    def search(self, words: str) -> list[int]:
        """Positions of the events whose text or role has these words, capitals apart."""
        wanted = words.casefold()
        return [
            at
            for at, event in enumerate(self.trajectory.events)
            if wanted in quotable(event).casefold() or wanted in event.role.casefold()
        ]

    def check(self, finding: FailureFinding) -> FailureFinding | str:
        """The finding with its quote in the event's wording, or why its evidence does not hold."""
        return verified(finding, self.by_seq, silent=self.silent)


def open_traces(
    paths: Iterable[Path | str],
    *,
    on_error: Callable[[TraceError], None] | None = None,
    format: str | None = None,  # noqa: A002 - the word that users know
    leave_out: Path | None = None,
) -> list[OpenTrace]:
    """The traces in files and in folders, in order.

    `on_error` gets what is wrong with a file that cannot be read; without it the first one is
    raised. A trace that is given twice is opened once. Files below the folder `leave_out` are none:
    labels that are kept among the traces.
    """
    opened: dict[str, OpenTrace] = {}
    for path in paths:
        try:
            files = trace_files(path)
        except TraceError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        for file in files:
            if leave_out is not None and leave_out.resolve() in file.resolve().parents:
                continue
            try:
                for imported in read_all(file, format=format):
                    _add(opened, imported.name, imported.trajectory)
            except TraceError as error:
                if on_error is None:
                    raise
                on_error(error)
    return list(opened.values())


def _add(opened: dict[str, OpenTrace], name: str, trajectory: Trajectory) -> None:
    digest = key = _digest(trajectory)
    number = 1
    while key in opened:
        if opened[key].name == name:
            return
        number += 1
        key = f"{digest}-{number}"  # another file with the same events
    opened[key] = OpenTrace(key, name, trajectory)


def _digest(trajectory: Trajectory) -> str:
    said = blake2b(digest_size=8)
    for event in trajectory.events:
        for part in (str(event.seq), event.kind, event.role, quotable(event)):
            said.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return said.hexdigest()
