"""The ledger of a run: a line for each item that is over, and for each attempt that failed.

Invariants: a line is appended in constant time, whatever was before, and is never changed. The last
line of an item says what became of it. What a killed process was writing is taken off when the
ledger is opened again, so that nothing is glued to it. One process at a time writes.

    ok                 a sample that may be used
    discarded:REASON   it will be the same next time: a row without a prompt, no reasoning, …
    failed:retryable   another attempt may succeed: tried again when the run goes on
    failed:permanent   another attempt would fail too
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from pydantic_core import to_json

from rolecraft.environments.row_files import read_json
from rolecraft.errors import JournalError
from rolecraft.rollouts.batch.identity import DIGEST_BYTES, ItemId, key_of
from rolecraft.trajectories.append_file import AppendFile

OK = "ok"
DISCARDED = "discarded:"
RETRYABLE = "failed:retryable"
PERMANENT = "failed:permanent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount:
    """How often a tool was called, and what came of it."""

    tool: str
    count: int = 0
    success: int = 0
    error: int = 0


@dataclass(slots=True, kw_only=True)
class Entry:
    """What became of an item, or of one attempt; with what statistics need to know of it.

    A value, never changed once it is made (and not frozen, because a hundred thousand are made at
    once when a run goes on, in a third of the time).
    """

    row: str
    occurrence: int = 0
    sample: int = 0
    number: int = 0
    """Where the row stood, from 0, when it was run."""
    status: str = OK
    attempts: int = 1
    """So many in the call that wrote the line."""
    ended: str = ""
    """Why the play ended, or what it failed with."""
    error: str = ""
    turns: int = 0
    """Answers of models."""
    reasoned: int = 0
    """Those that have reasoning."""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = None
    """Of the calls whose price is known; None if that is none."""
    unpriced: int = 0
    """Calls whose price is not."""
    timeouts: int = 0
    """Attempts at the item that were paid for and ran into their deadline, in all calls."""
    reward: float | None = None
    """None where nothing was scored, and where scoring failed."""
    tools: tuple[ToolCount, ...] = ()
    """Those that were called."""
    invented: tuple[str, ...] = ()
    """Names that were called and that no tool has."""
    toolsets: tuple[str, ...] = ()
    at: tuple[int, int] | None = None
    """Where the sample is in `samples.jsonl`: offset and length in bytes."""

    @property
    def item(self) -> ItemId:
        return ItemId(self.row, self.occurrence, self.sample)

    def but(self, **changes: Any) -> Entry:
        """The same with some fields changed: `dataclasses.replace` in a fraction of its time."""
        return Entry(**{**dict(zip(_NAMES, _values(self), strict=True)), **changes})

    def to_dict(self) -> dict[str, Any]:
        """As a line has it: what is at its default is left out."""
        line = {
            name: value
            for name, value, default in zip(_NAMES, _values(self), _DEFAULTS, strict=True)
            if value != default
        }
        if self.tools:
            line["tools"] = [[t.tool, t.count, t.success, t.error] for t in self.tools]
        return line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Self:
        """Raises `TypeError`, `ValueError` or `KeyError` for what is none."""
        line = dict(line)
        for name in _TUPLES:
            if name in line:
                line[name] = tuple(line[name])
        if len(line.get("at", (0, 0))) != 2:
            raise ValueError(f"`at` is {line['at']!r}, expected an offset and a length")
        if "tools" in line:
            line["tools"] = tuple(
                ToolCount(tool=tool, count=count, success=success, error=error)
                for tool, count, success, error in line["tools"]
            )
        return cls(**line)


_TUPLES = ("at", "invented", "toolsets")
_NAMES = tuple(each.name for each in fields(Entry))
_values = attrgetter(*_NAMES)
_DEFAULTS = tuple(each.default for each in fields(Entry))


@dataclass(slots=True)
class Repairs:
    """What was not as it should be when the ledger was opened."""

    torn: int = 0
    """Bytes of a last line that was not written to its end; they were taken off."""
    broken: list[int] = field(default_factory=list)
    """Numbers, from 1, of lines that cannot be read; their items are run again."""
    found_again: int = 0
    """Finished samples that the ledger did not name, because the process was killed in between."""

    def __bool__(self) -> bool:
        return bool(self.torn or self.broken or self.found_again)


class Ledger:
    """An open ledger, locked for this process; a context manager.

    `on_entry` hears of every entry that is there, in order, and of each that is appended. With
    `fsync` an entry survives a power cut. Raises `JournalError` if another process writes the file
    or the disk refuses.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        fsync: bool = False,
        on_entry: Callable[[Entry, str], None] | None = None,
    ) -> None:
        """`on_entry` also hears what the item's status was before; empty for a new one."""
        self.path = Path(path)
        self.repairs = Repairs()
        self.configs: list[dict[str, Any]] = []
        """Settings under which entries were made, oldest first."""
        self._on_entry = on_entry
        self._place: dict[bytes, int] = {}
        self._statuses: list[str] = []
        self._offsets, self._lengths = array("q"), array("q")
        """Of the items' samples; a length of 0 for none."""
        self._timeouts: dict[bytes, int] = {}
        """Of the few items that have any."""
        self._known: dict[str, str] = {}
        """Each status once, so that a hundred thousand entries share it."""
        self._file = AppendFile(self.path, fsync=fsync)
        try:
            self.repairs.torn = take_off_torn_line(self._file)
            for entry, key in self._read():
                self._take(entry, key)
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        """How many items it knows of."""
        return len(self._statuses)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._file.size

    def status(self, item: ItemId) -> str:
        """What became of an item; empty if nothing did yet."""
        place = self._place.get(item.key)
        return "" if place is None else self._statuses[place]

    def is_over(self, item: ItemId, *, retry_failed: bool = False) -> bool:
        """Whether the item need not be run any more; one that failed for good, unless asked."""
        return self.key_is_over(item.key, retry_failed=retry_failed)

    def key_is_over(self, key: bytes, *, retry_failed: bool = False) -> bool:
        """The same for the key of an item."""
        place = self._place.get(key)
        if place is None:
            return False
        status = self._statuses[place]
        return status != RETRYABLE and not (retry_failed and status == PERMANENT)

    def at(self, item: ItemId) -> tuple[int, int] | None:
        """Where the item's sample is, offset and length in bytes; None if it has none."""
        place = self._place.get(item.key)
        if place is None or not self._lengths[place]:
            return None
        return self._offsets[place], self._lengths[place]

    def timeouts(self, item: ItemId) -> int:
        """How many attempts at the item were paid for and ran into their deadline."""
        return self._timeouts.get(item.key, 0)

    def rows(self) -> set[bytes]:
        """The first half of the digest of every row that it knows of."""
        return {key[:DIGEST_BYTES] for key in self._place}

    def places(self) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """The key of every item that has a sample, and where it is; in order of the first entry."""
        for key, place in self._place.items():
            if self._lengths[place]:
                yield key, (self._offsets[place], self._lengths[place])

    def append(self, entry: Entry) -> None:
        """Write an entry; it is on disk, as far as the process is concerned, when this returns."""
        self._file.append(encode(entry.to_dict()))
        self._take(entry, key_of(entry.row, entry.occurrence, entry.sample))

    def add_config(self, config: Mapping[str, Any]) -> None:
        """Note the settings under which the entries that follow are made."""
        self._file.append(encode({"config": dict(config)}))
        self.configs.append(dict(config))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, entry: Entry, key: bytes) -> None:
        place, before = self._place.get(key), ""
        status = self._known.setdefault(entry.status, entry.status)
        if place is None:
            self._place[key] = len(self._statuses)
            self._statuses.append(status)
            offset, length = entry.at or (0, 0)
            self._offsets.append(offset)
            self._lengths.append(length)
        else:
            before, self._statuses[place] = self._statuses[place], status
            if entry.at is not None:
                self._offsets[place], self._lengths[place] = entry.at
        if entry.timeouts:
            self._timeouts[key] = entry.timeouts
        if self._on_entry is not None:
            self._on_entry(entry, before)

    def _read(self) -> Iterator[tuple[Entry, bytes]]:
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = read_json(line)
                    if "config" in record:
                        self.configs.append(dict(record["config"]))
                        continue
                    entry = Entry.from_dict(record)
                    key = key_of(entry.row, entry.occurrence, entry.sample)
                except (ValueError, TypeError, KeyError, OverflowError):
                    self.repairs.broken.append(number)
                else:
                    yield entry, key


def entries(path: str | Path) -> Iterator[Entry]:
    """The entries of a ledger that somebody else may be writing; broken lines are passed over."""
    with Path(path).open("rb") as lines:
        for line in lines:
            try:
                record = json.loads(line)
                if "config" not in record:
                    yield Entry.from_dict(record)
            except (ValueError, TypeError, KeyError):
                continue


def encode(record: Mapping[str, Any]) -> bytes:
    """One line. Lone surrogates are written as JSON's escapes."""
    line = fast_json(record)
    return (as_json(record).encode("utf-8", "backslashreplace") if line is None else line) + b"\n"


def fast_json(record: Mapping[str, Any]) -> bytes | None:
    """What `as_json` writes, in a quarter of its time; None where a text is no UTF-8."""
    try:
        return to_json(record, inf_nan_mode="constants", fallback=str)
    except ValueError:  # of Pydantic, or of a lone surrogate
        return None


as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def take_off_torn_line(file: AppendFile) -> int:
    """Shorten a file of lines to its last whole one; how many bytes that took off."""
    end = file.size
    while end > 0:
        start = max(0, end - 65536)
        block = os.pread(file.fd, end - start, start)
        if not block:
            raise JournalError(file.path, "it became shorter while it was read.")
        last = block.rfind(b"\n")
        if last >= 0:
            end = start + last + 1
            break
        end = start
    if torn := file.size - end:
        file.truncate(end)
    return torn
