"""The keeper of a `Landlock`: Bubblewrap's, with folders and rules in the place of namespaces.

It starts the commands, ends them at their limits, and opens files with the commands' own rights.
When Rolecraft is gone it ends everything and deletes the folders. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGKILL
from typing import Any, NoReturn

from rolecraft.sandboxes import _keeper, _landlock_process
from rolecraft.sandboxes import _keeper_calls as calls
from rolecraft.sandboxes._keeper_process import Command
from rolecraft.sandboxes._keeper_wire import Wire
from rolecraft.sandboxes._landlock import Rules
from rolecraft.sandboxes._landlock_process import END, Walls
from rolecraft.sandboxes._local_files import free_of  # as nobody, nothing more may be found


@dataclass(slots=True)
class Box:
    """One sandbox: `folder` has the work folder, `work`, and one for temporary files, `tmp`."""

    folder: str
    walls: Walls
    counted: bool
    """Whether a control group counts its processes."""
    processes: set[int] = field(default_factory=set)


class Keeper(_keeper.Keeper):
    """Serves one provider, one request after the other."""

    boxes: dict[int, Any]
    """`Box`es of this module's."""

    def __init__(self, wire: Wire, parent: int) -> None:
        super().__init__(wire, parent)
        self.life, self.alive = os.pipe()  # guards end when nobody has `alive` open any more
        self.snapshots: dict[int, str] = {}

    def do_create(  # type: ignore[override]
        self,
        fds: list[int],
        *,
        number: int,
        folder: str,
        empty: bool,
        rules: dict[str, Any],
        counted: bool,
    ) -> list[int]:
        """Make a sandbox and its folders, which belong to the user that its commands run as.

        Its work folder is Rolecraft's to make unless it begins empty.
        """
        for each in (folder, f"{folder}/tmp", *([f"{folder}/work"] if empty else ())):
            os.mkdir(each, 0o700)
        walls = Walls(Rules(**rules), [os.dup(fd) for fd in fds])
        self.boxes[number] = Box(folder, walls, counted)
        return []

    def do_signal(self, fds: list[int], *, number: int, signal: int) -> list[int]:
        """See `_keeper.Keeper.do_signal`."""
        if signal == SIGKILL:
            self._end(number, None)
            return []
        return super().do_signal(fds, number=number, signal=signal)

    def do_stop(self, fds: list[int], *, number: int) -> list[int]:
        """End what runs in a sandbox; it lives on."""
        self._end_all(self.boxes[number])
        return []

    def do_close(self, fds: list[int], *, number: int) -> list[int]:
        """End a sandbox. Its folder is Rolecraft's to delete."""
        if (box := self.boxes.get(number)) is not None:
            self._end_all(box)
            del self.boxes[number]
            for door in box.walls.doors:
                os.close(door)
        return []

    def do_hold(self, fds: list[int], *, number: int, folder: str) -> list[int]:
        """Make a folder for a snapshot, which Rolecraft fills and deletes."""
        os.mkdir(folder, 0o700)
        self.snapshots[number] = folder
        return []

    def do_drop(self, fds: list[int], *, number: int) -> list[int]:
        """Forget a snapshot."""
        self.snapshots.pop(number, None)
        return []

    def do_open(
        self, fds: list[int], *, box: int, path: str, flags: int, mode: int, parents: bool
    ) -> list[int]:
        """Open a file or folder as a command of the sandbox would, if it may."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            child = os.fork()
            if child == 0:
                _open(self.boxes[box].walls.rules, theirs, path, flags, mode, parents=parents)
            theirs.close()
            said, files, _, _ = socket.recv_fds(ours, 64, 1)
            os.waitpid(child, 0)
        if not files:
            number = int(said or b"5")
            raise OSError(number, os.strerror(number), path)
        os.set_inheritable(files[0], False)
        return files

    def clear(self) -> None:
        """End all there is, and delete it."""
        os.close(self.alive)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        for folder in (*self.snapshots.values(), *(box.folder for box in self.boxes.values())):
            free_of(Path(folder))

    def _kill(self, pid: int) -> None:
        os.kill(pid, END)

    def _launch(
        self, command: Command, box: Any, streams: list[int], doors: list[int]
    ) -> tuple[int, int]:
        os.close(os.open(command.cwd, os.O_PATH | os.O_DIRECTORY))  # or say why not
        limits = [
            (kind, highest if kind != resource.RLIMIT_NPROC else highest + _threads_of_this_user())
            for kind, highest in command.limits
            if kind != resource.RLIMIT_NPROC or not box.counted
        ]
        walls = replace(box.walls, doors=doors) if doors else box.walls
        return _landlock_process.start(replace(command, limits=limits), walls, streams, self.life)


def _open(
    rules: Rules, end: socket.socket, path: str, flags: int, mode: int, *, parents: bool
) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        os.umask(0o022)
        rules.apply()
        root = os.open("/", os.O_PATH)
        if parents:
            _keeper.make_parents(root, path)
        socket.send_fds(end, [b"0"], [calls.open_inside(root, path, flags, mode)])
    except OSError as error:
        end.send(str(error.errno or 5).encode())
    finally:
        os._exit(0)


def _threads_of_this_user() -> int:
    """The kernel's limit counts all of a user's, not a sandbox's alone."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


def main(fd: int, parent: int) -> NoReturn:
    """Become the keeper. `fd` is the socket to Rolecraft, `parent` stands for its process."""
    wire = Wire(socket.socket(fileno=fd))
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is Rolecraft's to deal with
        _keeper.become_nobody()
        keeper = Keeper(wire, parent)
    except OSError as error:
        wire.send({"n": 0, "error": str(error)})
        os._exit(1)
    wire.send({"n": 0})
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        keeper.serve()
    keeper.clear()
    os._exit(0)
