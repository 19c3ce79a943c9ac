"""Processes of this machine as `Started`, and finding those that have got away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._shell import resolve
from rolecraft.sandboxes._watched import kernel_limits
from rolecraft.sandboxes.base import SandboxLimits


def limited(limits: SandboxLimits, *, cpu: bool) -> list[str]:
    """What stands in front of a command to hold it to the limits that the kernel holds."""
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        return []
    words = kernel_limits(prlimit, limits)
    return [*(word for word in words if cpu or not word.startswith("--cpu=")), "--"]


class LocalStarted:
    """See `Started`: a process with a session of its own."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            for fd in ours:
                os.close(fd)
            raise SandboxError(f"`{error.filename}` cannot be run: {error.strerror}.") from error
        finally:
            for fd in theirs:
                os.close(fd)
        for fd in ours:
            os.set_blocking(fd, False)
        self.stdin, self.stdout, self.stderr = ours

    async def wait(self) -> int:
        """See `Started.wait`."""
        if self._process.poll() is None:
            await _exited(self._process.pid)
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """See `Started.signal`."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """See `Started.kill`. What has left its session is found as long as its parents live."""
        for pid in descendants(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def _exited(pid: int) -> None:
    """Wait for the end of a child that nobody has waited for yet."""
    if not hasattr(os, "pidfd_open"):
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return
    loop, fd = asyncio.get_running_loop(), os.pidfd_open(pid)
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, resolve, ended)
    try:
        await ended
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def descendants(pid: int) -> list[int]:
    """A process's children and theirs; none where there is no /proc."""
    found, left = [], [pid]
    while left:
        children: list[int] = []
        with contextlib.suppress(OSError, ValueError):
            for task in Path("/proc", str(left.pop()), "task").iterdir():
                children += map(int, (task / "children").read_text().split())
        found += children
        left += children
    return found


def kill_all_of(outer: Path) -> None:
    """Kill every process that has the folder's name in its environment, or works in it.

    One that has left its session, its parents, its environment and the folder is not found.
    """
    mark = os.fsencode(f"{outer}/")
    for _ in range(100):
        found = False
        for entry in os.scandir("/proc") if os.path.isdir("/proc/self") else ():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry.name}/environ", "rb") as file:
                    marked = mark in file.read()
                inside = os.readlink(f"/proc/{entry.name}/cwd").startswith(f"{outer}/")
                if marked or inside:
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
            except OSError:
                continue  # it has ended meanwhile, or is another user's
        if not found:
            return
