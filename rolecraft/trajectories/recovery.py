"""Making a journal ready to be gone on with.

Of a run that was cut off, the last round may be half written, in the order in which things
happened to end. It is taken back: its events move from the journal to the pending file, where
what is complete in them is found and not done again. So is the round in which a run failed, was
cancelled, or stopped for a limit or a permission. Invariant: whatever moment the process is
killed at, here too, every complete run of an action and every answer is in one of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.backlog import PendingFile, next_generation, read_pending
from rolecraft.trajectories.codec import (
    NewerVersion,
    decode_event,
    decode_header,
    encode_event,
    parse_line,
)
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.nesting import is_failure
from rolecraft.trajectories.runs import Placed, ends_run, places
from rolecraft.trajectories.trajectory import Trajectory, stop_reason_of

UNFINISHED = frozenset({"error", "limit", "cancelled", "approval", "observer"})
"""The stop reasons after which a round is taken back."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A record to go on with."""

    trajectory: str
    about: dict[str, Any]
    known: list[Event]
    """The committed events; of the unfinished round there is none."""
    pending: list[list[Placed]]
    """What is known of the unfinished round, a list for each attempt at it."""
    stopped: Event | None
    """Why the run had stopped, if it had not come to its end: taken back too."""
    failed: Event | None
    """The `error` or `limit` that stopped it."""
    taken: list[Event] = field(default_factory=list)
    """The events of the unfinished round as they stood in the record."""


def take_back(
    path: Path | str, check: Callable[[Kept], None] | None = None, *, fsync: bool = False
) -> Kept:
    """Take the unfinished round out of a journal. Locks the file meanwhile.

    `check` is called before anything is written, and may raise.

    Raises `TraceError` if it is no journal or has broken lines before its end, `JournalError` if
    another process writes it.
    """
    path = Path(path)
    if not path.is_file():
        raise TraceError(path, "there is no such journal to recover.")
    file = AppendFile(path, fsync=fsync)
    try:
        header, events, ends = _read(path)
        kept = split(header[0], header[1], events)
        if check is not None:
            check(kept)
        known = {(p.event.time, p.role) for p in places(kept.known) if p.event.time}
        pending = [
            _unfinished([each for each in kind if (each.event.time, each.role) not in known])
            for kind in read_pending(path)
        ]
        if (cut := len(kept.known)) < len(events):
            if kept.pending[0]:
                backlog = PendingFile(path, generation=next_generation(path), fsync=fsync)
                backlog.keep_all(kept.pending[0])
                backlog.close()
            file.truncate(ends[cut])
        elif file.size > ends[-1]:
            file.truncate(ends[-1])  # the line that was being written
        return Kept(
            kept.trajectory,
            kept.about,
            kept.known,
            [*kept.pending, *pending] if kept.pending[0] else pending,
            kept.stopped,
            kept.failed,
        )
    finally:
        file.close()


def kept_of(trajectory: Trajectory) -> Kept:
    """The same for a trajectory in memory, which stays as it is."""
    return split(trajectory.id, trajectory.about, as_filed(trajectory.events))


def as_filed(events: Sequence[Event]) -> list[Event]:
    """Copies of events as a file would have them, so that all records are followed alike."""
    return [decode_event(parse_line(encode_event(event))) for event in events]


def split(trajectory: str, about: dict[str, Any], events: Sequence[Event]) -> Kept:
    """Part the events into known and unfinished ones."""
    stop = events[-1] if events and events[-1].kind == "stop" else None
    unfinished = stop is None or stop_reason_of(stop) in UNFINISHED
    cut = len(events)
    if unfinished and events:
        last = events[-1].time
        if last and about.get("schedule") == "free":
            cut = _last_turn(events, about)
        elif last:
            cut = next(at for at, event in enumerate(events) if event.time == last)
        for at in range(len(events) - 2, cut - 1, -1):
            if events[at].kind in ("stop", "resume"):
                cut = len(events)  # the round is over, and what follows came from outside
                break
        if stop is not None:
            cut = min(cut, len(events) - 1)
            while cut and is_failure(events[cut - 1]) and not events[cut - 1].role:
                cut -= 1
    tail = [placed for placed in places(events) if placed.event.seq >= cut]
    failed = next((p.event for p in reversed(tail) if is_failure(p.event)), None)
    return Kept(
        trajectory,
        about,
        list(events[:cut]),
        [_unfinished(tail, stopped=stop is not None)],
        stop if unfinished else None,
        failed if unfinished and stop is not None else None,
        [placed.event for placed in tail],
    )


def _last_turn(events: Sequence[Event], about: dict[str, Any]) -> int:
    """Where the last turn begins, if roles act without rounds: turns are committed whole."""
    names = {role.get("name") for role in about.get("roles", ()) if isinstance(role, dict)}
    cut = len(events) - (events[-1].kind == "stop")
    while cut and _of_observer(events[cut - 1]):
        cut -= 1  # not all that was wanted after the turn may be there
    last = events[cut - 1].role if cut else ""
    if last not in names or events[cut - 1].kind in ("stop", "resume"):
        return len(events)  # what is last came from outside
    while cut and events[cut - 1].role in (last, "") and events[cut - 1].kind != "stop":
        cut -= 1
    return cut


def _of_observer(event: Event) -> bool:
    """Whether an event is what an observer wanted: a note, or a nudge."""
    metadata = event.data.get("metadata")
    nudge = isinstance(metadata, dict) and "nudge" in metadata
    return event.kind == "note" or (event.kind == "message" and nudge)


def _unfinished(tail: Sequence[Placed], *, stopped: bool = False) -> list[Placed]:
    """The events of the roles, without the failures that stopped the run.

    A failure that something around it has dealt with (a model was told that a tool failed, an
    action caught what another raised) is an outcome like any other. So is one after which the
    process was killed: the run would have failed with it.
    """
    kept: list[Placed] = []
    over: set[str] = set()
    failed: set[tuple[str, str]] = set()
    for placed in reversed(tail):
        event, role, path = placed
        graded = event.kind in ("signal", "verify") and not path
        if event.kind in ("stop", "resume") or graded or not role:
            continue
        if role not in over and _is_failure(event, path):
            around = path.rpartition(".")[0]
            dealt_with = around and (role, around) not in failed
            # Nobody knows whether what is cancelled last is role code's own doing: it is done anew.
            if event.data.get("cancelled") or (stopped and not dealt_with):
                failed.add((role, path))
                continue
        over.add(role)
        kept.append(placed)
    return kept[::-1]


def _is_failure(event: Event, path: str) -> bool:
    if is_failure(event):
        return not path or ends_run(event)
    if event.kind == "action_result":
        return "raised" in event.data or "cancelled" in event.data
    if event.kind == "approval":
        return event.data.get("granted") is None
    return event.kind == "tool_result" and event.data.get("ok") is False and ends_run(event)


def _read(path: Path) -> tuple[tuple[str, dict[str, Any]], list[Event], list[int]]:
    """Header, events, and where each line ends; a line that was cut off does not count."""
    events: list[Event] = []
    ends: list[int] = []
    header: tuple[str, dict[str, Any]] | None = None
    at = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            at += len(line)
            if not line.endswith(b"\n"):
                break
            try:
                record = parse_line(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
                if header is None:
                    header = decode_header(record)
                else:
                    events.append(decode_event(record))
            except NewerVersion as error:
                raise TraceError(path, f"{error}") from None
            except ValueError as error:
                raise TraceError(
                    path,
                    f"line {number}: {error}. A journal with a broken line cannot be gone on "
                    f"with: `rolecraft show` reads what is left of it.",
                ) from None
            ends.append(at)
    if header is None:
        raise TraceError(path, "it has no header: nothing happened yet, run the team anew.")
    for number, event in enumerate(events):
        if event.seq != number:
            raise TraceError(path, f"event {number} is missing: `seq` {event.seq} stands there.")
    return header, events, ends
