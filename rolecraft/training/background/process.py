"""A process that is told from every other one, so that a signal never reaches a stranger.

Systems use the numbers of processes again. One is known here by its number, when it began, and
in which boot of the machine; a signal goes to exactly that one or to nobody.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rolecraft.training.background._supervisor import MARK, identify

_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process of a machine, for ever."""

    pid: int
    started: str
    """The system's own mark of when it began; on Linux clock ticks since boot."""
    boot: str
    """Id of that boot of the machine; empty where the system has none."""
    host: str = ""

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process with this number now; None if there is none, or it has ended."""
        found = identify(pid)
        return None if found is None else cls(**found)

    @classmethod
    def this(cls) -> Self:
        """The process that asks."""
        found = cls.of(os.getpid())
        assert found is not None
        return found

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """From a run's record. Raises `KeyError`, `TypeError` or `ValueError` for another thing."""
        started, boot, host = (str(record.get(key, "")) for key in ("started", "boot", "host"))
        return cls(int(record["pid"]), started, boot, host)

    @property
    def alive(self) -> bool:
        """Whether it is still there: not another process that has its number now."""
        found = ProcessId.of(self.pid)
        return found is not None and (found.started, found.boot) == (self.started, self.boot)

    @property
    def elsewhere(self) -> bool:
        """Whether it belongs to another machine, of whose processes nothing is seen here."""
        here = ProcessId.this()
        return bool(self.host) and self.host != here.host and self.boot != here.boot

    def send(self, number: int) -> bool:
        """Send it a signal. False if it has ended. Raises `PermissionError`."""
        if not hasattr(os, "pidfd_open"):
            if not self.alive:
                return False
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            return True
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The handle stays with its process: looked at after it was opened, it is the right one.
            if not self.alive:
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for its end, so long at most. Whether it has ended."""
        until = time.monotonic() + seconds
        while self.alive:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_LOOK_EVERY, left))
        return True


def left_behind(mark: str, *, session: ProcessId | None) -> list[ProcessId]:
    """Processes that a run in the background started and that are still there.

    They are known by its `mark` in their environment, which everything inherits, or because they
    are in the session that its supervisor began, if they wrote over their environment. None where
    there is no /proc, and none of other users.
    """
    if session is not None and session.boot != ProcessId.this().boot:
        return []  # nothing outlives a boot
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid == os.getpid() or (session is not None and pid == session.pid):
            continue
        try:
            theirs = wanted in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            theirs = False
        if not theirs and not _has_session(pid, session):
            continue  # as almost all: who they are takes much longer to tell
        process = ProcessId.of(pid)
        if process is not None and (theirs or _in_session(process, session)):
            found.append(process)
    return sorted(found, key=lambda process: process.pid)


def _has_session(pid: int, leader: ProcessId | None) -> bool:
    try:
        return leader is not None and os.getsid(pid) == leader.pid
    except OSError:
        return False


def _in_session(process: ProcessId, leader: ProcessId | None) -> bool:
    if leader is None or process.boot != leader.boot or not _has_session(process.pid, leader):
        return False
    # Once the whole session has ended its number may be that of a stranger's.
    now = ProcessId.of(leader.pid)
    return (now is None or now == leader) and int(process.started) >= int(leader.started)


def command_of(pid: int) -> str:
    """The command line of a process, for people; empty where it cannot be seen."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode("utf-8", "replace") for word in words if word)
