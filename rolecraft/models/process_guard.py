"""Processes that end with the one that started them, however that one ends.

A child may notice when its parent exits; when its parent is killed it mostly does not. vLLM's would
stay then, with all the memory of the accelerator, and so would the workers of a distributed run. A
guard is a tiny process that holds the other end of a pipe: when the pipe closes, for whatever
reason, it kills those that it was given.

This file is also the guard's program, so it imports nothing of Rolecraft.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


class Guard:
    """Kills the processes `pids` when this process ends or calls `close`.

    One that leads a process group is killed with its group. A number that came to name another
    process since is not killed, where the system has handles of processes (Linux).
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *map(str, pids)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it
        )

    def close(self) -> None:
        """Kill now what is still there. Waits for a moment only; harmless when called twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def children(prefix: str) -> list[int]:
    """Child processes of this one whose title begins with `prefix`; none without a /proc."""
    found = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found += [
                int(pid)
                for pid in tasks.read_text().split()
                if Path("/proc", pid, "cmdline").read_bytes().startswith(prefix.encode())
            ]
    return found


def main(pids: list[int]) -> None:
    # A handle stays with its process: a number may come to name another one.
    handles = {}
    if hasattr(os, "pidfd_open"):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles[pid] = os.pidfd_open(pid)
    groups = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == pid:
                groups.append(pid)
    sys.stdin.buffer.read()  # until the pipe closes
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if pid in groups:
                os.killpg(pid, signal.SIGKILL)  # also what a dead leader left behind
            elif pid in handles:
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
            elif not hasattr(os, "pidfd_open"):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main([int(pid) for pid in sys.argv[1:]])
