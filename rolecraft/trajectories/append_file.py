"""A file that one process at a time appends whole lines to."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rolecraft.errors import JournalError
from rolecraft.trajectories.codec import parse_line

if sys.platform != "win32":
    import fcntl

Thing = TypeVar("Thing")

_forks = 0
"""How many forks lie between the first process and this one: cheaper than to ask for its id."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)

_WAY_OUT = {
    errno.ENOSPC: "Make room, or record to another disk.",
    errno.EDQUOT: "Make room, or record to another disk.",
    errno.EACCES: "Record to a folder that this user may write to.",
    errno.EPERM: "Record to a folder that this user may write to.",
    errno.EROFS: "Record to a folder that can be written to.",
}


class AppendFile:
    """An open, locked file. Every method raises `JournalError` that names the file.

    Unbuffered: what `append` wrote survives the process. `fsync` makes it survive a power cut.
    On Windows a second process is not refused.
    """

    def __init__(self, path: Path, *, fsync: bool = False, wait: bool = False) -> None:
        """`wait` waits for the lock of another process instead of raising."""
        self.path = path
        self.fsync = fsync
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.fd = os.open(path, flags, 0o666)
        except OSError as error:
            raise self._error("cannot be opened", error) from error
        # Also closes, and with it unlocks, when the object is thrown away.
        self._close = weakref.finalize(self, os.close, self.fd)
        self._forks = _forks
        self.closed = False
        try:
            lock(self.fd, wait=wait)
            self.size = os.fstat(self.fd).st_size
            if fsync and not self.size:
                sync_folder(path.parent)
        except BlockingIOError:
            who = other_process(self.fd)
            self.close()
            raise JournalError(
                path,
                f"{who}, or another part of this one, is writing it. "
                "Close that one first, or record to another file.",
            ) from None
        except OSError as error:
            self.close()
            raise self._error("cannot be locked", error) from error

    def close(self) -> None:
        """Release the file and its lock. Harmless when called twice."""
        self.closed = True
        try:
            self._close()
        except OSError as error:  # a network's disk may say only now that it is full
            raise self._error("cannot be closed", error) from error

    def append(self, data: bytes) -> None:
        """Write all of `data`, or nothing of it; after an error the file is closed."""
        if self.closed or _forks != self._forks:
            self._check_open()
        try:
            # One call in all but a few cases, such as a disk that is almost full.
            written = os.write(self.fd, data)
            while written < len(data):
                written += os.write(self.fd, memoryview(data)[written:])
            if self.fsync:
                os.fsync(self.fd)
        except OSError as error:
            try:
                os.ftruncate(self.fd, self.size)
                then = "Everything before is safe"
            except OSError:
                then = "Everything before is safe, a broken last line may follow"
            with contextlib.suppress(JournalError):  # the first error is the one to see
                self.close()
            raise self._error(
                f"{len(data)} bytes could not be written", error, f"{then}; the file is closed."
            ) from error
        self.size += len(data)

    def truncate(self, size: int) -> None:
        self._check_open()
        try:
            os.ftruncate(self.fd, size)
        except OSError as error:
            self.close()
            raise self._error("cannot be shortened", error) from error
        self.size = size

    def _check_open(self) -> None:
        if self.closed:  # its number may be that of another file by now
            raise JournalError(self.path, "the file is closed; open it again to go on.")
        if _forks != self._forks:
            raise JournalError(
                self.path,
                "it was opened by the process that this one was forked from, and two cannot write "
                "it. Record to another file here.",
            )

    def _error(self, what: str, error: OSError, then: str = "") -> JournalError:
        parts = [f"{what}: {error.strerror or error}.", then, _WAY_OUT.get(error.errno or 0, "")]
        return JournalError(self.path, " ".join(filter(None, parts)))


def append_lines(path: Path, lines: bytes) -> None:
    """Add whole lines to a file, which is made if need be; a line that was cut off goes first.

    Waits while another process does the same. Raises `JournalError` if the disk refuses.
    """
    file = AppendFile(path, wait=True)
    try:
        if lines:
            text = path.read_bytes()
            whole = text.rfind(b"\n") + 1
            if whole < len(text):  # a writer was killed within its last line
                file.truncate(whole)
            file.append(lines)
    finally:
        file.close()


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, with their numbers from 1; none if there is no such file."""
    if path.exists():
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if line.strip():
                yield number, line


def decoded_lines(
    path: Path, decode: Callable[[dict[str, Any]], Thing], problems: list[str] | None
) -> list[Thing]:
    """What the lines of a file say, one JSON object each; none if there is no such file.

    Lines that are none, or for which `decode` raises `ValueError`, are added to `problems`: file,
    line number, reason.
    """
    found = []
    for number, line in numbered_lines(path):
        try:
            found.append(decode(parse_line(line)))
        except ValueError as error:
            if problems is not None:
                problems.append(f"{path}:{number}: {error}")
    return found


def lock(fd: int, *, wait: bool = False) -> None:
    """Lock an open file for writing. Raises BlockingIOError if someone else has it."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def other_process(fd: int) -> str:
    """Who has locked an open file: `another process`, with its number where the kernel tells it."""
    seen = os.fstat(fd)
    device = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as lines:
        for words in map(str.split, lines):
            if words[1] == "FLOCK" and words[5] == device and words[4] != str(os.getpid()):
                return f"another process ({words[4]})"
    return "another process"


def sync_folder(folder: Path) -> None:
    """Make a new or renamed file's name survive a power cut."""
    if sys.platform != "win32":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
