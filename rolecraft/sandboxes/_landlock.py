"""Landlock: a process restricts what files it, and all that it starts, can open; for good.

Standard library only, as the keeper that starts commands imports this. The kernel tells what it
knows by a version (its ABI, https://docs.kernel.org/userspace-api/landlock.html): 1 files, 2 moves
between folders, 3 truncation, 4 TCP, 5 device controls, 6 signals and abstract UNIX sockets.

What it does not see, in version 7 too: whether a path exists, its size, owner and times; changes of
mode, owner and times by whoever owns a file; UNIX sockets that have a path; UDP.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rolecraft.sandboxes import _keeper_calls as calls

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15
_DEVICES: Final = 1 << 6 | 1 << 11  # making them
_FILE: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""What a rule for a single file can allow."""

READ: Final = EXECUTE | READ_FILE | READ_DIR
TCP: Final = 0b11  # bind and connect
SCOPED: Final = 0b11  # abstract UNIX sockets and signals


def version() -> int:
    """The kernel's version of Landlock; 0 where there is none, or it is switched off."""
    try:
        return calls.syscall("landlock_create_ruleset", _CREATE_RULESET, 0, 0, _ASK_VERSION)
    except OSError:
        return 0


def _handled(version: int) -> int:
    """All rights on files that this version knows."""
    bits = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    return (1 << bits) - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """What stays allowed. Paths that do not exist are passed over."""

    read: Sequence[str] = ()
    """Files and folders, with all below them, that can be read and executed."""
    write: Sequence[str] = ()
    """Folders in which everything can be done but making devices."""
    devices: Sequence[str] = ()
    """Files that can be read and written, not removed."""
    tcp: bool = False
    version: int = 99
    """Use no more than this version has, whatever the kernel knows."""

    def hold_signals(self) -> bool:
        """Whether, under these rules, signals go to nothing but what the process has started."""
        return min(self.version, version()) >= 6

    def apply(self) -> None:
        """Restrict this thread, and what it starts. Raises `OSError` if the kernel refuses."""
        known = min(self.version, version())
        with self._ruleset(known) as ruleset:
            for paths, allowed in (
                (self.read, READ),
                (self.write, _handled(known) & ~_DEVICES),
                (self.devices, READ_FILE | WRITE_FILE),
            ):
                for path in paths:
                    _allow(ruleset, path, allowed & _handled(known))
            calls.gain_no_rights()
            calls.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)

    @contextlib.contextmanager
    def _ruleset(self, known: int) -> Iterator[int]:
        words = [_handled(known)]
        if known >= 4:
            words.append(0 if self.tcp else TCP)
        if known >= 6:
            words.append(SCOPED)
        attributes = struct.pack(f"={len(words)}Q", *words)
        size = len(attributes)
        fd = calls.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
        try:
            yield fd
        finally:
            os.close(fd)


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            allowed &= _FILE
        rule = struct.pack("=Qi", allowed, fd)
        calls.syscall(f"landlock_add_rule {path}", _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
