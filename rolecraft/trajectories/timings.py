"""Wall time beside the journal: `run.jsonl` has its times in `run.timings.jsonl`.

A journal has logical time only, so that the same inputs give the same bytes. How long things
really took is kept in a file next to it, which nothing but tables and pictures reads: delete it,
and only the times are gone.

Its lines are JSON objects: `{"began": "2026-01-31T12:00:00Z"}` for each process that recorded, and
`{"seq": 4, "at": 1.25, "took": 0.8}` for each event, in seconds. `at` counts from the `began`
before it; `took` stands at the end of an action or tool call, and at a model call.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Self, TypeGuard

from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.codec import encode_line, parse_line
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.nesting import STARTS, may_end

TIMINGS_SUFFIX = ".timings.jsonl"


@dataclass(frozen=True, slots=True)
class Timing:
    """When an event happened, and how long what ended with it took; in seconds.

    `at` counts from when its process began to record. `took` is None for what has no duration.
    """

    at: float
    took: float | None = None


def timings_path(journal: Path | str) -> Path:
    """Where the wall times of a journal are kept."""
    journal = Path(journal)
    return journal.with_name(journal.name.removesuffix(".jsonl") + TIMINGS_SUFFIX)


class Stopwatch:
    """An `Observer` that takes the time of events: `Team(roles, observers=[Stopwatch(path)])`.

    Given a journal's path, it writes beside it; without one the times are in `timings` only. They
    are written after the events are, so that a killed process may lose those of its last round.

    An action or tool call took from its start to its end. A model call took from the last thing
    that its role did, or heard, before the answer: of calls that one role makes at the same time
    each counts what it added, so that their sum is the time that the role waited.

    A context manager. Raises `JournalError` if the disk refuses, or somebody else writes the file.
    """

    def __init__(self, journal: Path | str | None = None) -> None:
        self._began = perf_counter()
        self._timings: dict[int, Timing] = {}
        self._pending: deque[tuple[Event, Timing]] = deque()
        self._started: dict[int, float] = {}
        self._last: dict[str, float] = {}
        self._file: AppendFile | None = None
        if journal is not None:
            self._file = _opened(timings_path(journal))
            began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._file.append(encode_line({"began": began}))

    @property
    def timings(self) -> dict[int, Timing]:
        """The times of all events that have their `seq`, by it."""
        self._settle(everything=True)
        return self._timings

    def on_event(self, event: Event) -> None:
        """`event` happens now; its `seq` comes when it is committed."""
        at = perf_counter() - self._began
        self._settle()
        took = None
        if event.kind == "model_call":
            cause = self._timings.get(event.cause) if event.cause is not None else None
            took = at - max(self._last.get(event.role, 0.0), cause.at if cause else 0.0)
        self._last[event.role] = at
        self._pending.append((event, Timing(at, took)))

    def _settle(self, *, everything: bool = False) -> None:
        """Take note of the events that are committed by now.

        They are committed by rounds, so that it mostly is enough to look at the first.
        """
        lines = []
        waiting = []
        while self._pending and (everything or self._pending[0][0].seq >= 0):
            event, timing = self._pending.popleft()
            if event.seq < 0:
                waiting.append((event, timing))
                continue
            if event.kind in STARTS:
                self._started[event.seq] = timing.at
            elif may_end(event) and event.cause in self._started:
                timing = Timing(timing.at, timing.at - self._started.pop(event.cause))
            self._timings[event.seq] = timing
            line: dict[str, Any] = {"seq": event.seq, "at": round(timing.at, 6)}
            if timing.took is not None:
                line["took"] = round(timing.took, 6)
            lines.append(encode_line(line))
        self._pending.extendleft(reversed(waiting))
        if self._file is not None and lines:
            self._file.append(b"".join(lines))

    def close(self) -> None:
        """Write what is left and close the file. Harmless when called twice."""
        if self._file is not None and not self._file.closed:
            self._settle(everything=True)
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def load_timings(journal: Path | str, *, problems: list[str] | None = None) -> dict[int, Timing]:
    """The wall times of a journal's events by `seq`; empty if none were taken.

    Lines that cannot be read are added to `problems`: file, line number, reason.
    """
    path = timings_path(journal)
    if not path.exists():
        return {}
    timings = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse_line(line)
            if "began" not in record:
                seq, timing = _timing(record)
                timings[seq] = timing
        except ValueError as error:
            if problems is not None:
                problems.append(f"{path}:{number}: {error}")
    return timings


def _timing(record: dict[str, Any]) -> tuple[int, Timing]:
    seq, at, took = record.get("seq"), record.get("at"), record.get("took")
    if type(seq) is not int or not _is_seconds(at) or not (took is None or _is_seconds(took)):
        raise ValueError(f"{record!r}: expected `seq`, and `at` and `took` in seconds")
    return seq, Timing(at, took)


def _is_seconds(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and value >= 0


def _opened(path: Path) -> AppendFile:
    file = AppendFile(path)
    if file.size:
        whole = path.read_bytes().rfind(b"\n") + 1
        if whole < file.size:  # a writer was killed within its last line
            file.truncate(whole)
    return file
