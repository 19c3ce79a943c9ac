"""Reading a journal line by line, from any place in it, whatever state it is in.

Invariant: one broken line costs that line alone. Each is a problem with file, line and reason;
only a file that is missing, empty, of a newer version or without one good line is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rolecraft.errors import TraceError
from rolecraft.trajectories.codec import (
    EVENT_KEYS,
    NewerVersion,
    decode_event,
    decode_header,
    parse_line,
)
from rolecraft.trajectories.events import Event


@dataclass(slots=True)
class Place:
    """How far a journal has been read; reading can go on from here in another process."""

    offset: int = 0
    """Bytes read."""
    lines: int = 0
    """Line ends read."""
    high: int = -1
    """Greatest `seq` so far."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of `seq` below `high` that have not been seen: first, last + 1."""
    broken: int = 0
    """Lines that could not be read since the last event."""

    def take(self, seq: int) -> str | None:
        """Count an event in. Returns what is wrong with its number; raises ValueError if known."""
        if seq > self.high:
            before, self.high = self.high, seq
            missing = seq - before - 1
            if missing:
                self.gaps.append((before + 1, seq))
            unexplained, self.broken = missing > self.broken, 0
            if unexplained:
                return f"`seq` is {seq} after {before}: {missing} missing"
            return None
        for index, (first, end) in enumerate(self.gaps):
            if first <= seq < end:
                self.gaps[index : index + 1] = [
                    part for part in ((first, seq), (seq + 1, end)) if part[0] < part[1]
                ]
                return f"`seq` {seq} comes after {self.high}: out of order"
        raise ValueError(f"`seq` {seq} was there before: the first one counts")


class Reader:
    """Reads the events of one journal. `problems` grows while reading."""

    def __init__(
        self, path: Path | str, *, place: Place | None = None, header: dict[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        self.place = place or Place()
        self.header = header
        """The header as it stands in the file; None before it was read."""
        self.problems: list[str] = []
        self.torn: str = ""
        """What is wrong with a last line that was cut off, or that is still being written."""

    def events(self) -> Iterator[Event]:
        """The events after `place`, in the order of the file.

        Raises `TraceError` if the file cannot be opened or is of a newer version.
        """
        try:
            with open_trace(self.path) as file:
                file.seek(self.place.offset)
                for line in file:
                    event = self._take(line)
                    if event is not None:
                        yield event
        except NewerVersion as error:
            raise TraceError(self.path, f"{error}") from None

    def check_readable(self) -> None:
        """After reading: raise `TraceError` if there was not one good line."""
        if self.header is None and self.place.high < 0:
            problems = [*self.problems, *([self.torn] if self.torn else [])]
            if not problems:
                raise TraceError(self.path, "it is empty; a journal starts with a header line")
            first = problems[0].removeprefix(f"{self.path}:")
            raise TraceError(
                self.path,
                f"not one of its {len(problems)} lines can be read; the first is line {first}",
            )

    def _take(self, line: bytes) -> Event | None:
        place = self.place
        number = place.lines + 1
        whole = line.endswith(b"\n")
        text = line.strip()
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")  # some editors put this mark in front
        event: Event | None = None
        try:
            record = parse_line(text) if text else None
        except ValueError as error:
            if not whole:
                self.torn = f"{self.path}:{number}: cut off after {len(line)} bytes"
                return None
            self._problem(number, str(error), broken=True)
        else:
            if record is not None:
                event = self._decode(number, record)
        place.offset += len(line)
        place.lines += whole
        return event

    def _decode(self, number: int, record: dict[str, Any]) -> Event | None:
        try:
            if "schema_version" in record:
                self._take_header(record)
                return None
            unknown = sorted(record.keys() - EVENT_KEYS)
            event = decode_event({key: record[key] for key in record if key in EVENT_KEYS})
            first = self.header is None and self.place.high < 0 and not self.place.broken
            odd = self.place.take(event.seq)
        except NewerVersion:
            raise
        except ValueError as error:
            self._problem(number, str(error), broken=True)
            return None
        if unknown:
            self._problem(number, f"unknown keys {unknown} were left out")
        if first:
            self._problem(number, "no header line comes before the first event")
        if odd:
            self._problem(number, odd)
        return event

    def _take_header(self, record: dict[str, Any]) -> None:
        if self.header is not None:
            raise ValueError("a second header line; one file holds one trajectory")
        decode_header(record)
        self.header = record

    def _problem(self, number: int, reason: str, *, broken: bool = False) -> None:
        self.problems.append(f"{self.path}:{number}: {reason}")
        self.place.broken += broken


def open_trace(path: Path) -> BinaryIO:
    """Open for reading, or raise `TraceError`."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise TraceError(path, "there is no such file") from None
    except IsADirectoryError:
        raise TraceError(path, "is a folder; `trace_files` lists the journals in it") from None
    except OSError as error:
        raise TraceError(path, f"cannot be opened: {os.strerror(error.errno or 0)}") from error
