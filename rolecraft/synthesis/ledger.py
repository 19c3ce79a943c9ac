"""A file of lines that only grows, one dataclass a line, so that killed work goes on where it was.

    with Ledger(folder.verdicts, Verdict, key=lambda verdict: verdict.candidate) as verdicts:
        for candidate in candidates:
            if candidate.id not in verdicts:
                verdicts.append(await validate(candidate))

One process at a time writes. What a killed one was writing is taken off when it is opened again.
In memory there is a number for each line, not the line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from rolecraft.environments.row_files import read_json
from rolecraft.errors import JournalError
from rolecraft.rollouts.batch.ledger import encode, take_off_torn_line
from rolecraft.trajectories.append_file import AppendFile

Entry = TypeVar("Entry")


class _Lines(Generic[Entry]):
    """The entries of a file by name, read from it one at a time."""

    def __init__(self, kind: type[Entry], key: Callable[[Entry], str]) -> None:
        self._adapter, self._key = TypeAdapter(kind), key
        self._at: dict[str, tuple[int, int]] = {}
        """Of each name: where its line begins, and its length in bytes."""
        self._fd = -1

    def _look(self, path: Path, fd: int) -> None:
        self._fd = fd
        for entry, at in _entries(path, self._adapter):
            self._at[self._key(entry)] = at

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Entry]:
        """The entries that hold, in the order in which their names first came."""
        return (self[name] for name in list(self._at))

    def __getitem__(self, name: str) -> Entry:
        start, length = self._at[name]
        return _entry(os.pread(self._fd, length, start), self._adapter)

    def get(self, name: str) -> Entry | None:
        return self[name] if name in self._at else None


class Ledger(_Lines[Entry]):
    """An open ledger, locked for this process; a context manager.

    Entries are frozen dataclasses; `key` tells an entry's name. Of two with one name the last one
    holds. `new` forgets all entries, whatever they are. Raises `JournalError` if another process
    writes it, the disk refuses, or a line is none.
    """

    def __init__(
        self, path: Path, kind: type[Entry], *, key: Callable[[Entry], str], new: bool = False
    ) -> None:
        super().__init__(kind, key)
        self.path, self._file = path, AppendFile(path)
        try:
            if new:
                self._file.truncate(0)
            self.torn = take_off_torn_line(self._file)
            self._look(path, self._file.fd)
        except BaseException:
            self._file.close()
            raise

    def append(self, entry: Entry) -> None:
        """Write an entry; it survives this process once this returns."""
        line = encode(asdict(entry))  # type: ignore[call-overload]
        start = self._file.size
        self._file.append(line)
        self._at[self._key(entry)] = (start, len(line))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LedgerView(_Lines[Entry]):
    """A ledger that somebody else may be writing, by name, as it is when this is made.

    Nothing is in it if there is no such file. A context manager. Raises `JournalError` if a line is
    none; a last one that is being written is left out.
    """

    def __init__(self, path: Path, kind: type[Entry], *, key: Callable[[Entry], str]) -> None:
        super().__init__(kind, key)
        self._open = ExitStack()
        if path.exists():
            with ExitStack() as opening:
                self._look(path, opening.enter_context(path.open("rb")).fileno())
                self._open = opening.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()


def read_ledger(
    path: Path, kind: type[Entry], *, key: Callable[[Entry], str]
) -> Generator[Entry, None, None]:
    """The entries of a `LedgerView`, one after the other."""
    with LedgerView(path, kind, key=key) as view:
        yield from view


def _entries(path: Path, adapter: TypeAdapter[Any]) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Each line that is whole, and where it stands."""
    with path.open("rb") as lines:
        start = 0
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield _entry(line, adapter), (start, len(line))
            except (ValueError, RecursionError) as error:
                why = _why(error) if isinstance(error, ValidationError) else error
                raise JournalError(
                    path,
                    f"line {number} is none of its lines: {why}. Take that line out: the command "
                    f"that wrote it makes it again.",
                ) from error
            start += len(line)


def _why(error: ValidationError) -> str:
    """What is wrong first, and where in the line."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"`{where}`: {first['msg']}" if where else first["msg"]


def _entry(line: bytes, adapter: TypeAdapter[Entry]) -> Entry:
    """What a line says. Raises `ValueError` for one that says nothing of the kind."""
    try:
        return adapter.validate_json(line)
    except ValidationError:  # also of what it refuses in JSON only: halves of characters
        return adapter.validate_python(read_json(line))
