"""One command under Landlock: a guard, and the program.

The guard puts itself under the rules, and the program once more. Signals only go down, so that the
program reaches nothing but what it started, and the guard reaches all of that at once:
`kill(-1)` is one step for the kernel, and no fork bomb outruns it. Orphans become children of the
guard, so that it knows when the last one is gone.

Before version 6 Landlock does not hold signals. Then the guard looks for the program's children in
/proc, which a program that forks fast enough can outrun.

Runs in the keeper, between its `fork` and the program's `exec`: standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Final, NoReturn

from rolecraft.sandboxes import _cgroups
from rolecraft.sandboxes import _keeper_calls as calls
from rolecraft.sandboxes._keeper_process import FORWARDED, Command, fail, run_program
from rolecraft.sandboxes._landlock import Rules

END: Final = signal.SIGRTMIN
"""Has the guard end everything."""
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Walls:
    """What holds the commands of one sandbox. `doors` are of its control group, if it has one."""

    rules: Rules
    doors: list[int]

    def enter(self) -> None:
        """Go behind them, for good."""
        self.rules.apply()
        _cgroups.enter(self.doors)


def start(command: Command, walls: Walls, streams: list[int], life: int) -> tuple[int, int]:
    """Start a command; the id of its guard, and a pipe that says what failed before the program.

    `life` is a pipe at whose end the guard ends everything.
    """
    report, reporter = os.pipe()
    keeper = os.getpid()
    own = {END, *FORWARDED}
    signal.pthread_sigmask(signal.SIG_BLOCK, own)  # until there is somebody to take them
    try:
        pid = os.fork()
        if pid == 0:
            _guard(command, walls, streams, (life, keeper), reporter)
    except BaseException:
        os.close(report)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, own)
        os.close(reporter)
    return pid, report


def _guard(
    command: Command, walls: Walls, streams: list[int], above: tuple[int, int], reporter: int
) -> NoReturn:
    """Start the program, bury what ends, end everything with the program."""
    try:
        life, keeper = above
        signal.set_wakeup_fd(-1)
        calls.set_dumpable(False)
        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError("no subreaper")
        held = walls.rules.hold_signals()
        if held:  # else it needs /proc
            walls.rules.apply()
            held = _signals_are_held(keeper)
        program = os.fork()
        if program == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            run_program(command, walls.enter, streams, reporter)
        _keep_only(life)
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        over = False

        def forward(number: int, frame: object) -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program, number)

        def end(number: int, frame: object) -> None:
            nonlocal over
            over = True

        for number in FORWARDED:
            signal.signal(number, forward)
        signal.signal(END, end)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        code: int | None = None
        while code is None and not over:
            code = _bury(program)
            if code is None:
                ready = select.select([woken, 0], [], [])[0]
                over = over or 0 in ready
                if woken in ready:
                    os.read(woken, 4096)
        signal.set_wakeup_fd(-1)
        _end_all(held=held)
        os._exit(128 + signal.SIGKILL if code is None else code)
    except BaseException as error:
        fail(reporter, error)


def _keep_only(life: int) -> None:
    """Close every file but `life`, which becomes number 0."""
    os.dup2(life, 0)
    calls.close_from(1)


def _bury(program: int) -> int | None:
    """Take the ends of children; the program's code if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == program:
                code = os.waitstatus_to_exitcode(status)
                code = code if code >= 0 else 128 - code
    return code


def _end_all(*, held: bool) -> None:
    """Kill all that there is below this process, and wait until it is gone."""
    while True:
        if held:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(-1, signal.SIGKILL)
        else:
            _kill_descendants()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _signals_are_held(keeper: int) -> bool:
    """Whether the rules keep this process from signalling what is not below it.

    Else `kill(-1)` would end everything of this user. So it is tried: the keeper is of this user,
    and nothing but the rules can stand in the way.
    """
    try:
        os.kill(keeper, 0)
    except PermissionError:
        return os.getppid() == keeper  # it lives, so it was the keeper that was asked for
    except ProcessLookupError:
        return False
    return False


def _kill_descendants() -> None:
    """First stop them, so that they do not go on forking."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _descendants() -> list[int]:
    found: list[int] = []
    left = [os.getpid()]
    while left:
        folder = f"/proc/{left.pop()}/task"
        with contextlib.suppress(OSError, ValueError):
            for task in os.listdir(folder):
                with open(f"{folder}/{task}/children") as file:
                    left += (below := [int(word) for word in file.read().split()])
                    found += below
    return found
