"""The keeper: the one helper process of a `Bubblewrap`, which owns its sandboxes.

It is process 1 of a process namespace and owns a mount namespace, so that with it end all that it
started and all files that it held: when the provider lets go of it, and when Rolecraft is killed.

    request   {"op": "create", "n": 7, ...}     with open files beside it
    answer    {"n": 7, ...} or {"n": 7, "error": "why"}
    ending    {"ended": 12, "code": 0, "why": null}

Standard library only, run as `python -I -S`; it is one thread, and no request waits for a command.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import heapq
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from rolecraft.sandboxes import _keeper_box as boxes
from rolecraft.sandboxes import _keeper_calls as calls
from rolecraft.sandboxes import _keeper_process as process
from rolecraft.sandboxes._keeper_memory import MemoryWatch
from rolecraft.sandboxes._keeper_wire import Wire
from rolecraft.sandboxes._overlay import Layer, Layers, overlays_work

FOLDER = "/sys"
"""Where the layers are: the one folder that is always there and in which nobody has work."""
NOBODY = 65534
LONGEST_WAIT = 86_400.0
"""Seconds. The kernel waits for 24 days at most, and takes no number that says more."""

Request = dict[str, Any]


@dataclass(slots=True)
class Running:
    """A command that runs. Its number is Rolecraft's, as are those of sandboxes and the rest."""

    number: int
    box: int
    report: int
    why: str | None = None


class Keeper:
    """Serves one provider, one request after the other."""

    def __init__(self, wire: Wire, parent: int) -> None:
        self.wire, self.parent = wire, parent
        self.layers = Layers()
        self.held: dict[int, list[Layer]] = {}
        self.boxes: dict[int, boxes.Box] = {}
        self.views: dict[int, boxes.View] = {}
        self.running: dict[int, Running] = {}
        """By the process id of their init."""
        self.pids: dict[int, int] = {}
        self.deadlines: list[tuple[float, int]] = []
        self.memory = MemoryWatch()
        self.home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        """Until the other side is gone."""
        gc.disable()
        gc.freeze()  # what is never looked at stays shared with every process that is forked
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        with selectors.DefaultSelector() as waiting:
            for fd in (self.wire.socket.fileno(), woken, self.parent):
                waiting.register(fd, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in waiting.select(self._wait())}
                if self.parent in ready:
                    return
                if woken in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
                    self._bury()
                self._enforce()
                if self.wire.socket.fileno() in ready and not self._answer():
                    return

    def _answer(self) -> bool:
        """Serve one request; False at the end."""
        received = self.wire.receive()
        if received is None:
            return False
        request, fds = received
        number, answer = request.pop("n", None), Request()
        given: list[int] = []
        try:
            given = getattr(self, f"do_{request.pop('op')}")(fds, **request)
        except OSError as error:
            answer = {"error": str(error), "errno": error.errno}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "errno": None}
        finally:
            for fd in fds:
                os.close(fd)
        if number is not None:
            self.wire.send({"n": number, **answer}, given)
        elif "error" in answer:
            print(f"rolecraft's keeper: {answer['error']}", file=sys.stderr)
        for fd in given:
            os.close(fd)
        return True

    def _wait(self) -> float | None:
        times = [at for at in (self.memory.next, *(at for at, _ in self.deadlines[:1])) if at]
        if not times:
            return None
        return min(LONGEST_WAIT, max(0.0, min(times) - time.monotonic()))

    def _enforce(self) -> None:
        """End what has run out of time or memory."""
        now = time.monotonic()
        while self.deadlines and self.deadlines[0][0] <= now:
            _, number = heapq.heappop(self.deadlines)
            self._end(number, "timeout")
        for number in self.memory.over(now):
            self._end(number, "memory")

    def _end(self, number: int, why: str | None) -> None:
        if (pid := self.pids.get(number)) is not None:
            running = self.running[pid]
            running.why = running.why or why
            self._kill(pid)

    def _kill(self, pid: int) -> None:
        """End a command, given its init."""
        os.kill(pid, signal.SIGKILL)

    def _bury(self) -> None:
        """Say which commands have ended: with all that they started, the kernel sees to that."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (running := self.running.pop(pid, None)) is None:
                continue
            del self.pids[running.number]
            self.memory.forget(running.number)
            if (box := self.boxes.get(running.box)) is not None:
                box.processes.discard(running.number)
            with os.fdopen(running.report, "rb") as report:
                failed = report.read().decode("utf-8", "replace")
            code = os.waitstatus_to_exitcode(status)
            ended = {"ended": running.number, "code": code if code >= 0 else 128 - code}
            self.wire.send({**ended, "why": running.why, "failed": failed or None})

    def _end_all(self, box: boxes.Box) -> None:
        """End the commands of a sandbox, and wait until they are gone."""
        for number in box.processes:
            self._end(number, None)
        for number in list(box.processes):
            pid = self.pids[number]
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._bury()

    # What can be asked for. Each returns the open files that go with the answer.

    def do_view(
        self,
        fds: list[int],
        *,
        number: int,
        argv: list[str],
        root: int | None,
        folders: list[str],
        hidden: list[str],
    ) -> list[int]:
        """Make a read-only view of the system for sandboxes to come.

        With `root`, a folder that is held, `argv` has `{root}` for where that lies, with `folders`
        in it to mount on.
        """
        place = self.layers.root_folder(self.held[root][0], folders) if root is not None else None
        root_folder = os.path.join(FOLDER, place or "")
        mounts = boxes.make_view([word.replace("{root}", root_folder) for word in argv], {})
        self.views[number] = boxes.View(mounts, hidden, root, place)
        return []

    def do_drop_view(self, fds: list[int], *, number: int) -> list[int]:
        """Let go of a view, and of its root folder."""
        if (view := self.views.pop(number, None)) is not None:
            os.close(view.mounts)
            if view.place is not None:
                calls.unmount(view.place)
                self.layers.free.append(view.place)
            if view.root is not None:
                self.layers.drop(self.held.pop(view.root))
        return []

    def do_base(self, fds: list[int], *, number: int, path: str) -> list[int]:
        """Hold a folder of the host as a layer."""
        layer = self.layers.of_host(path, fds[0] if fds else None)
        self.held[number] = self.layers.hold([layer])
        return []

    def do_create(
        self,
        fds: list[int],
        *,
        number: int,
        view: int,
        begin: int | None,
        folder: str,
        disk: int,
        network: bool,
    ) -> list[int]:
        """Make a sandbox whose work folder begins as `begin`, a base or a snapshot."""
        below = self.layers.hold(list(self.held[begin]) if begin is not None else [])
        top = self.layers.hold([self.layers.fresh(disk)])
        try:
            work = self.layers.work_folder(top[0], below)
            try:
                inside, root = boxes.namespaces(
                    self.views[view], work, folder, disk, network=network
                )
            finally:
                os.close(work)
        except BaseException:
            self.layers.drop([*top, *below])
            raise
        cgroups = [os.dup(fd) for fd in fds]
        self.boxes[number] = boxes.Box(folder, disk, top[0], below, inside, root, cgroups)
        return []

    def do_snapshot(self, fds: list[int], *, number: int, of: int) -> list[int]:
        """End what runs in a sandbox and keep its work folder as it is."""
        box = self.boxes[of]
        self._end_all(box)
        self.held[number] = box.freeze(self.layers)
        return []

    def do_drop(self, fds: list[int], *, number: int) -> list[int]:
        """Let go of a base or a snapshot."""
        self.layers.drop(self.held.pop(number, []))
        return []

    def do_close(self, fds: list[int], *, number: int) -> list[int]:
        """End a sandbox."""
        if (box := self.boxes.get(number)) is not None:
            self._end_all(box)
            del self.boxes[number]
            box.close(self.layers)
        return []

    def do_start(
        self,
        fds: list[int],
        *,
        number: int,
        box: int,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        limits: list[tuple[int, int]],
        seconds: float | None,
        memory: int | None,
        apart: bool,
        seccomp: str,
        transfer: bool,
    ) -> list[int]:
        """Start a command with the three given files as its streams.

        The others are the doors of its own control group, where it has one. Its memory counts
        together with that of the sandbox's other commands, or `apart`.
        """
        there = self.boxes[box]
        command = process.Command(argv, cwd, env, limits, base64.b64decode(seccomp), transfer)
        pid, report = self._launch(command, there, fds[:3], fds[3:])
        os.set_blocking(report, False)
        self.running[pid] = Running(number, box, report)
        self.pids[number] = pid
        there.processes.add(number)
        if seconds is not None:
            heapq.heappush(self.deadlines, (time.monotonic() + seconds, number))
        if memory is not None:
            self.memory.add(number, None if apart else box, pid, memory)
        return []

    def _launch(
        self, command: process.Command, box: boxes.Box, streams: list[int], doors: list[int]
    ) -> tuple[int, int]:
        """Start a command; the id of its init, and what failed before its program."""
        os.close(calls.open_inside(box.root, command.cwd, os.O_PATH | os.O_DIRECTORY))
        return process.start(command, box.inside, streams, doors or box.cgroups, self.home)

    def do_signal(self, fds: list[int], *, number: int, signal: int) -> list[int]:
        """Send a command's process group a signal; SIGKILL ends all that it started."""
        if (pid := self.pids.get(number)) is not None:
            os.kill(pid, signal)
        return []

    def do_prune(self, fds: list[int], *, number: int, seconds: float) -> list[int]:
        """Kill what a command has started in the last `seconds`, and not its program."""
        if (pid := self.pids.get(number)) is not None:
            process.prune(pid, seconds)
        return []

    def do_socket(self, fds: list[int], *, box: int) -> list[int]:
        """A socket for TCP in a sandbox's own network."""
        return [boxes.internet_socket(self.boxes[box].inside.network)]

    def do_open(
        self, fds: list[int], *, box: int, path: str, flags: int, mode: int, parents: bool
    ) -> list[int]:
        """Open a file or folder of a sandbox: no link in it leads out."""
        root = self.boxes[box].root
        if parents:
            make_parents(root, path)
        return [calls.open_inside(root, path, flags, mode)]


def make_parents(root: int, path: str) -> None:
    """Make the folders that a file is in."""
    parts = [part for part in path.split("/")[:-1] if part not in ("", ".")]
    for length in range(1, len(parts) + 1):
        folder = "/" + "/".join(parts[:length])
        try:
            os.close(calls.open_inside(root, folder, os.O_PATH | os.O_DIRECTORY))
        except FileNotFoundError:
            above = calls.open_inside(root, os.path.dirname(folder), os.O_PATH | os.O_DIRECTORY)
            try:
                os.mkdir(parts[length - 1], 0o755, dir_fd=above)
            finally:
                os.close(above)


def main(fd: int, parent: int) -> NoReturn:
    """Become the keeper. `fd` is the socket to Rolecraft, `parent` stands for its process."""
    wire = Wire(socket.socket(fileno=fd))
    try:
        os.setsid()
        os.umask(0o022)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is Rolecraft's to deal with
        _apart()
        keeper = Keeper(wire, parent)
        keeper.layers.overlays = overlays_work()
    except OSError as error:
        wire.send({"n": 0, "error": str(error)})
        os._exit(1)
    wire.send({"n": 0})
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        keeper.serve()
    os._exit(0)  # as process 1: with all that is left


def _apart() -> None:
    """Go into namespaces of this process's own, as an ordinary user."""
    become_nobody()
    user, group = os.geteuid(), os.getegid()
    calls.unshare(calls.NEWUSER | calls.NEWNS | calls.NEWPID)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {user} 1"),
        ("gid_map", f"0 {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if pid := os.fork():
        os.waitpid(pid, 0)
        os._exit(0)
    calls.die_with_parent()
    calls.set_dumpable(True)
    calls.mount("", "/", flags=calls.MS_REC | calls.MS_PRIVATE)
    calls.mount("proc", "/proc", "proc", calls.MS_NOSUID | calls.MS_NODEV | calls.MS_NOEXEC)
    calls.mount("rolecraft", FOLDER, "tmpfs", calls.MS_NOSUID | calls.MS_NODEV, "mode=0755")
    os.chdir(FOLDER)
    os.mkdir("mount")
    _most_files()


def become_nobody() -> None:
    """Go on as an ordinary user: limits on processes do not bind root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        calls.set_dumpable(True)  # else this process's own files in /proc would be root's


def _most_files() -> None:
    """Five open files for each sandbox: take as many as may be had."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
