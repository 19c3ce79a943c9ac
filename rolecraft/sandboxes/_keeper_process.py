"""One command in a sandbox: an init of its own, and the program.

The init is process 1 of a process namespace that only this command has. When the program ends, the
init does, and with it, by the kernel's own rule, everything that the program started: sessions of
its own, double forks and fork bombs alike. No process inside can kill or trace the init.

Runs in the keeper, between its `fork` and the program's `exec`: standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rolecraft.sandboxes import _keeper_calls as calls
from rolecraft.sandboxes import _unpack  # noqa: F401  # inside, it could not be found any more
from rolecraft.sandboxes._transfer import PIECE, pack, unpack

FORWARDED = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGTSTP),
)
"""What the init passes on to the program's process group."""
NO_FOLDER = "cwd: "
"""What begins the report that a command cannot be run where it was to be."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Open files that stand for a sandbox's namespaces. `user` has no rights over the others."""

    mount: int
    ipc: int
    host_name: int
    user: int
    network: int | None = None
    """None for the keeper's own, which is the host's."""

    def enter(self) -> None:
        """All but the user namespace, so that the keeper's rights stay."""
        if self.network is not None:
            calls.setns(self.network)
        for fd in (self.ipc, self.host_name, self.mount):
            calls.setns(fd)

    def close(self) -> None:
        """Let go of them."""
        for fd in (self.mount, self.ipc, self.host_name, self.user, self.network):
            if fd is not None:
                os.close(fd)


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `limits` are pairs of a resource's number and its highest value.

    A `transfer` is no program: `argv` is `pack` or `unpack` and a path, and the archive goes
    through the standard streams. What it does is done with the rights of a command.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    limits: list[tuple[int, int]]
    seccomp: bytes = b""
    transfer: bool = False


def start(
    command: Command, inside: Namespaces, streams: list[int], cgroups: list[int], home: int
) -> tuple[int, int]:
    """Start a command; the id of its init, and a pipe that says what failed before the program.

    `home` is this process's own process namespace: the new one is for the next child only.
    """
    report, reporter = os.pipe()
    try:
        calls.unshare(calls.NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                _init(command, inside, streams, cgroups, reporter)
        finally:
            calls.setns(home)
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(reporter)
    return pid, report


def prune(init: int, seconds: float) -> None:
    """Kill what a command has started in the last `seconds`: all but its init and its program."""
    with open("/proc/uptime") as file:
        since = (float(file.read().split()[0]) - seconds) * os.sysconf("SC_CLK_TCK") - 1
    program: tuple[int, int] | None = None
    found: list[tuple[int, int]] = []
    left = [init]
    while left:
        pid = left.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            children: list[int] = []
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children += map(int, file.read().split())
            for child in children:
                with open(f"/proc/{child}/stat") as file:
                    started = int(file.read().rpartition(")")[2].split()[19])
                found.append((started, child))
                if pid == init:  # its first child is the program; the others were orphaned
                    program = min(program or (started, child), (started, child))
            left += children
    for started, pid in found:
        if (started, pid) != program and started >= since:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _init(
    command: Command, inside: Namespaces, streams: list[int], cgroups: list[int], reporter: int
) -> NoReturn:
    """Process 1: start the program, bury what ends, end with the program."""
    try:
        calls.set_dumpable(False)  # its memory and files are the keeper's
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in cgroups:
            os.write(fd, b"0")
        inside.enter()
        calls.unshare(calls.NEWNS)
        calls.mount("proc", "/proc", "proc", calls.MS_NOSUID | calls.MS_NODEV | calls.MS_NOEXEC)
        program = os.fork()
        if program == 0:
            run_program(command, lambda: calls.setns(inside.user), streams, reporter)

        def forward(number: int, frame: object) -> None:
            try:
                os.killpg(program, number)
            except ProcessLookupError:  # it has no group of its own yet
                with contextlib.suppress(ProcessLookupError):
                    os.kill(program, number)

        for number in FORWARDED:
            signal.signal(number, forward)
        calls.close_from(0)
        while True:
            pid, status = os.wait()
            if pid == program:
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 128 - code)
    except BaseException as error:
        fail(reporter, error)


def run_program(
    command: Command, enter: Callable[[], None], streams: list[int], reporter: int
) -> NoReturn:
    """The program's process, from `fork` to `exec`: without rights, within limits.

    `enter` takes it behind the sandbox's walls.
    """
    try:
        os.setsid()
        for number in (*FORWARDED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        enter()
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        for kind, highest in command.limits:
            soft = highest
            hard = highest + 1 if kind == resource.RLIMIT_CPU else highest  # SIGXCPU, then SIGKILL
            most = resource.getrlimit(kind)[1]
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            resource.setrlimit(kind, (soft, hard))
        os.umask(0o022)
        calls.drop_rights()
        try:
            os.chdir(command.cwd)
        except OSError as error:
            fail(reporter, NO_FOLDER + (error.strerror or str(error)).lower())
        os.dup2(reporter, 3)
        reporter = 3
        calls.close_from(4)
        os.set_inheritable(reporter, False)
        if command.seccomp:
            calls.filter_calls(command.seccomp)
        if command.transfer:
            _transfer(*command.argv)
        _execute(command)
    except BaseException as error:
        fail(reporter, error)


def _execute(command: Command) -> NoReturn:
    name = command.argv[0]
    try:
        os.execvpe(name, command.argv, command.env)
    except OSError as error:
        reason = "not found" if error.errno == errno.ENOENT else os.strerror(error.errno or 0)
        os.write(2, os.fsencode(f"{name}: {reason}\n"))
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)


def _transfer(direction: str, path: str) -> NoReturn:
    try:
        if direction == "pack":
            for piece in pack(Path(path)):
                left = memoryview(piece)
                while left:
                    left = left[os.write(1, left) :]
        else:
            unpack(_pieces(), Path(path), links_out=True)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else None
        os.write(2, os.fsencode(reason or f"{type(error).__name__}: {error}"))
        os._exit(1)
    os._exit(0)


def _pieces() -> Iterator[bytes]:
    while piece := os.read(0, PIECE):
        yield piece


def fail(reporter: int, error: BaseException | str) -> NoReturn:
    """Say what went wrong before the program, and end."""
    said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        os.write(reporter, os.fsencode(said)[:4000])
    os._exit(125)
