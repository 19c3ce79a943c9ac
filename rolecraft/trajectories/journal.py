"""The journal: one run's record on disk, written as it happens. It is the truth.

The first line is the header, every further line one event. When the process is killed, at most
what is being written at that moment is lost; the complete lines of it count. With `fsync=True`
the same holds when the power fails.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rolecraft.errors import JournalError, TraceError, UsageError
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.codec import (
    decode_event,
    decode_header,
    encode_event,
    encode_line,
    parse_line,
)
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.recorder import header as make_header


class Journal:
    """A `Sink` that appends events to a file; a context manager.

    An existing journal is continued: a cut-off last line is repaired (`repaired` says so) and
    `next_seq` is where the recorder goes on, `Recorder(journal, first=journal.next_seq)`.

    `header` is what `rolecraft.trajectories.header(...)` returns; without it the trajectory is
    named after the file. A file that exists keeps its own, and must be of the same trajectory.

    Raises `JournalError` if another process writes the file or the disk refuses, `TraceError` if
    the file is no journal or a newer Rolecraft's, `UsageError` for events out of sequence.
    """

    def __init__(
        self, path: Path | str, header: dict[str, Any] | None = None, *, fsync: bool = False
    ) -> None:
        self.path = Path(path)
        self.header = header if header is not None else make_header(self.path.stem)
        """The header as it stands in the file."""
        self.next_seq = 0
        """Sequence number of the next event."""
        self.repaired = ""
        """What was repaired on opening; empty if nothing was."""
        try:
            decode_header(self.header)
        except ValueError as error:
            raise UsageError(f"`Journal(header={header!r})`: {error}") from None
        self._file = AppendFile(self.path, fsync=fsync)
        try:
            self._continue(named=header is not None)
        except BaseException:
            self._file.close()
            raise

    def write(self, events: Sequence[Event]) -> None:
        """Append events, all with one write."""
        if self._file.closed:
            raise JournalError(self.path, "the journal is closed; open it again to go on.")
        expected = self.next_seq
        lines = []
        for event in events:
            if event.seq != expected:
                raise UsageError(
                    f"`{self.path}` continues at seq {expected}, got an event with seq "
                    f"{event.seq}. Record with `Recorder(journal, first=journal.next_seq)`."
                )
            expected += 1
            lines.append(encode_event(event))
        self._file.append(lines[0] if len(lines) == 1 else b"".join(lines))
        self.next_seq = expected

    def close(self) -> None:
        """Close the file and let others write it. Harmless when called twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _continue(self, *, named: bool) -> None:
        """Take over what the file holds; write the header into a new one."""
        line = encode_line(self.header)
        if self._file.size:
            with mmap.mmap(self._file.fd, 0, access=mmap.ACCESS_READ) as text:
                keep, end = self._examine(text, named=named)
            if end is not None:
                self._file.truncate(keep)
                self._file.append(end)
        if not self._file.size:
            self._file.append(line)

    def _examine(self, text: mmap.mmap, *, named: bool) -> tuple[int, bytes | None]:
        """Read header and last event; how many bytes to keep and what to append (None: repair
        nothing)."""
        first_end = text.find(b"\n")
        first = text[: first_end if first_end >= 0 else len(text)]
        try:
            record = parse_line(first.removeprefix(b"\xef\xbb\xbf"))
            trajectory, _ = decode_header(record)
        except ValueError as error:
            start = b'{"schema_version":'
            if first_end < 0 and start.startswith(first[: len(start)]):
                self._repaired(len(first))  # killed while it wrote the header
                return 0, b""
            raise TraceError(self.path, f"cannot be continued as a journal: {error}") from None
        if named and trajectory != self.header["trajectory"]:
            raise JournalError(
                self.path,
                f"it holds trajectory {trajectory!r}, not {self.header['trajectory']!r}. "
                f"Record to another file, or delete this one.",
            )
        self.header = record
        if first_end < 0:  # the header is whole, its line end is missing
            return len(text), b"\n"
        whole = text.rfind(b"\n") + 1
        tail = text[whole:]
        if tail and (event := _event(tail)) is not None:  # only its line end is missing
            self.next_seq = event.seq + 1
            return len(text), b"\n"
        end = whole - 1
        while end > first_end:
            start_of_line = text.rfind(b"\n", 0, end) + 1
            if (event := _event(text[start_of_line:end])) is not None:
                self.next_seq = event.seq + 1
                break
            end = start_of_line - 1
        if not tail:
            return whole, None
        self._repaired(len(tail))
        return whole, b""

    def _repaired(self, dropped: int) -> None:
        self.repaired = (
            f"`{self.path}`: the last line was cut off; its {dropped} bytes were removed"
        )


def _event(line: bytes) -> Event | None:
    try:
        return decode_event(parse_line(line))
    except ValueError:
        return None
