"""The finished samples, one line each, and where each line is.

A sample is written before its ledger entry, and holds that entry: what a killed process had
finished and not yet entered is found behind the last sample that the ledger names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rolecraft.environments.row_files import read_json
from rolecraft.errors import TraceError
from rolecraft.rollouts.batch.conversations import Conversation
from rolecraft.rollouts.batch.ledger import Entry, encode, take_off_torn_line
from rolecraft.trajectories.append_file import AppendFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One finished item: what was said, and what was measured."""

    entry: Entry
    prompt: str
    conversations: Sequence[Conversation]
    model: str = ""
    signals: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "entry": self.entry.to_dict(),
            "prompt": self.prompt,
            "model": self.model,
            "signals": self.signals,
            "conversations": [talk.to_dict() for talk in self.conversations],
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Raises `TypeError`, `ValueError` or `KeyError` for what is none."""
        return cls(
            entry=Entry.from_dict(record["entry"]),
            prompt=record["prompt"],
            model=record["model"],
            signals=record["signals"],
            conversations=[Conversation.from_dict(talk) for talk in record["conversations"]],
        )


class Samples:
    """An open file of samples, locked for this process. Raises `JournalError`."""

    def __init__(self, path: str | Path, *, fsync: bool = False) -> None:
        self._file = AppendFile(Path(path), fsync=fsync)
        self.torn = take_off_torn_line(self._file)
        """Bytes of a last line that was not written to its end; they were taken off."""

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size(self) -> int:
        """Bytes."""
        return self._file.size

    def append(self, sample: Sample) -> Entry:
        """Write a sample; its entry, with its place."""
        line = encode(sample.to_dict())
        at = (self._file.size, len(line))
        self._file.append(line)
        return sample.entry.but(at=at)

    def behind(self, end: int, known: Collection[int] = ()) -> Iterator[Entry]:
        """The entries of whole samples from byte `end` on, with their places.

        Those that begin at a byte of `known` are passed over, unread.
        """
        with self.path.open("rb") as file:
            file.seek(end)
            at = end
            for line in file:
                if at in known:
                    at += len(line)
                    continue
                try:
                    entry = Entry.from_dict(json.loads(line)["entry"])
                except (ValueError, TypeError, KeyError):
                    pass  # what is no sample is run again
                else:
                    yield entry.but(at=(at, len(line)))
                at += len(line)

    def read(self, at: tuple[int, int]) -> Sample:
        """The sample at a place. Raises `TraceError` if there is none."""
        offset, length = at
        line = os.pread(self._file.fd, length, offset)
        try:
            return Sample.from_dict(read_json(line))
        except (ValueError, TypeError, KeyError) as error:
            raise TraceError(
                self.path, f"there is no sample at byte {offset}, where the ledger has one: {error}"
            ) from error

    def close(self) -> None:
        self._file.close()
