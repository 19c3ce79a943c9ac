"""The write-ahead file beside a journal: what happened in a round that is not committed yet.

Roles that act at the same time are written to the journal when their round ends. Until then each
of their events is kept here the moment it happens, so that a killed process loses nothing that
was finished. The file is `<journal>.pending`, and empty while no round is under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rolecraft.errors import TraceError
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.codec import decode_event, encode_line, event_members, parse_line
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.runs import Placed

PENDING_SUFFIX = ".pending"


def pending_path(journal: Path) -> Path:
    return journal.with_name(journal.name + PENDING_SUFFIX)


class PendingFile:
    """A `Backlog` in a file. Each opening writes under a number of its own, `generation`."""

    def __init__(self, journal: Path, *, generation: int = 0, fsync: bool = False) -> None:
        self.path = pending_path(journal)
        self.generation = generation
        self.left_over = False
        """The file may hold what processes before this one have left."""
        self._fsync = fsync
        self._file: AppendFile | None = None

    def keep(self, event: Event, at: tuple[int, ...], *, role: str, run: str) -> None:
        self._append([self._line(Placed(event, role, run), at)])

    def keep_all(self, placed: Sequence[Placed]) -> None:
        """Keep events that were taken out of the journal, all with one write."""
        self._append([self._line(each, (number,)) for number, each in enumerate(placed)])

    def clear(self) -> None:
        """The round is committed: forget it, and what other processes knew of it."""
        if self._file is None and self.left_over:
            self._open()
        if self._file is not None and self._file.size:
            self._file.truncate(0)
        self.left_over = False

    def close(self) -> None:
        """Close the file until there is more to keep; an empty one is deleted."""
        if self._file is not None:
            if not self._file.closed and not self._file.size:
                self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _append(self, lines: Sequence[bytes]) -> None:
        (self._file or self._open()).append(b"".join(lines))

    def _open(self) -> AppendFile:
        self._file = AppendFile(self.path, fsync=self._fsync)
        text = self.path.read_bytes() if self._file.size else b""
        if not text.endswith(b"\n"):  # the line that a killed process was writing
            self._file.truncate(text.rfind(b"\n") + 1)
        return self._file

    def _line(self, placed: Placed, at: tuple[int, ...]) -> bytes:
        event, role, run = placed
        members = event_members(event)
        # Numbers may be handles here, which an event of a journal cannot have.
        members["seq"] = 0
        members.pop("cause", None)
        about = {"of": self.generation, "role": role, "run": run, "at": at}
        return encode_line({**about, "seq": event.seq, "cause": event.cause, "event": members})


def read_pending(journal: Path) -> list[list[Placed]]:
    """What is pending beside a journal: a list for each generation, each role's in its order.

    A line that was cut off by the end of the process is left out.
    """
    generations: dict[int, list[tuple[tuple[str, int, list[int]], Placed]]] = {}
    for of, at, placed in _kept(journal):
        place = (placed.role, placed.event.time, at)
        generations.setdefault(of, []).append((place, placed))
    return [
        [placed for _, placed in sorted(kept, key=lambda each: each[0])]
        for _, kept in sorted(generations.items())
    ]


def next_generation(journal: Path) -> int:
    """A number that no opening of the pending file has had."""
    return max((of for of, _, _ in _kept(journal)), default=-1) + 1


def _kept(journal: Path) -> Iterator[tuple[int, list[int], Placed]]:
    """Generation, place and event of each line."""
    path = pending_path(journal)
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, 1):
        try:
            record = parse_line(line)
            event = decode_event(record["event"])
            event.seq, event.cause = record["seq"], record["cause"]
            yield record["of"], record["at"], Placed(event, record["role"], record["run"])
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                return  # the process was killed while it wrote this
            raise TraceError(
                path,
                f"line {number} is broken: {error}. Without it, what was finished in the last "
                f"round might be done twice. Mend it, or delete the file if that does no harm.",
            ) from None
